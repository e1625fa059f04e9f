// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
)

// askedOf tells apart what pods are made with by the spec, and members are restarted for
// when it is edited: not the release, which has a way of its own, and nothing of ringadm's,
// which a later controller may make otherwise.
func askedOf(r *v1alpha1.EtcdRing) string {
	return digest(struct {
		Resources  corev1.ResourceRequirements
		Scheduling v1alpha1.Scheduling
	}{r.Spec.Resources.Requirements(), r.Spec.Scheduling})
}

// edited is why a slot's pod is to be another than it is; "": it isn't, or it doesn't say
// what it was made with.
func (s Seen) edited(slot Slot) string {
	if s.Set == nil || slot.Pod == nil || slot.Pod.DeletionTimestamp != nil || slot.static() {
		return ""
	}
	was, is := slot.Pod.Annotations[kube.AskedAnnotation], s.Set.Spec.Template.Annotations[kube.AskedAnnotation]
	if was == "" || is == "" || was == is {
		return ""
	}
	return "its resources, or where it may run, were edited"
}

// unmade reports whether the set makes no pods yet with what the spec was edited to, and perhaps never
// will, as no pod can have it. An upgrade that was begun then told one member to run a release with
// which no pod was ever made, and what pods are to be made with was noted, and taken back, once a minute.
func (s Seen) unmade() bool {
	return s.Set != nil && s.Set.Spec.Template.Annotations[kube.AskedAnnotation] != askedOf(s.Ring)
}

// unrolled reports whether a ring without launchers has a pod that was made before the spec was
// edited: who can't tell whose log is on its disk is restarted by nobody.
func (s Seen) unrolled() bool {
	if s.Set == nil || !s.static() {
		return false
	}
	is := s.Set.Spec.Template.Annotations[kube.AskedAnnotation]
	return is != "" && slices.ContainsFunc(s.Slots, func(slot Slot) bool {
		if slot.Pod == nil || slot.ending() {
			return false
		}
		was := slot.Pod.Annotations[kube.AskedAnnotation]
		return was != "" && was != is
	})
}

// rolls are the slots whose members are to restart for an edit of the spec, and why.
func (s Seen) rolls() map[string]string {
	all := map[string]string{}
	for _, slot := range s.Slots {
		if why := s.edited(slot); why != "" {
			all[slot.Name] = why
		}
	}
	return all
}

// ending reports whether the slot's pod is being deleted, by whomever.
func (s Slot) ending() bool { return s.Pod != nil && s.Pod.DeletionTimestamp != nil }

// comesWithin is how long a pod may be about to run, as this process has seen it: its image is pulled
// meanwhile, and its volume mounted.
const comesWithin = time.Minute

// coming is by what name it is counted for how long a pod has been about to run.
func coming(p *corev1.Pod) string { return "pod " + string(p.UID) }

// stuck reports whether a slot's pod runs nothing, and isn't about to: no node takes it, or its image
// or its volume isn't to be had. A pod of a second before was deleted for an edit while its etcd
// started, and its member ended twice.
func (s Seen) stuck(slot Slot) bool {
	return slot.Pod.Status.Phase == corev1.PodPending && (turnedDown(slot.Pod) || s.Quiet[coming(slot.Pod)] > comesWithin)
}

// turnedDown reports whether the scheduler or a kubelet says that a pod can't run as it is: until it
// is so far a container waits to be made, which is no answer.
func turnedDown(p *corev1.Pod) bool {
	nowhere := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
	})
	return nowhere || slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		w := c.State.Waiting
		return w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing"
	})
}

// restart has the member restart that is due: its pod is evicted, and the set makes another,
// of its template. waits is why that isn't done now. It is due only while nothing else is to
// be done for the ring, as was decided on what was seen in this very turn: a volume is lost
// whose member still serves, and who restarted another then had one log of three left to rely
// on. What has happened since that look the API server counts: where the pod was deleted, a node
// had been drained some seconds before, and the ring had one of three.
func (x *automation) restart(ctx context.Context, s Seen, due ring.ID) (waits string, err error) {
	slot, why := x.due(s, due)
	if why == "" {
		return "", nil
	}
	if waits := s.withheld(slot); waits != "" {
		return waits, nil
	}
	c := eviction(slot.Pod, why)
	if err = x.log.Act(c.line(), func() error { return c.make(ctx, x.Client) }); apierrors.IsTooManyRequests(err) {
		return err.Error(), nil
	}
	return "", err
}

// due is the slot of the member that is due, and why its pod is to be another; why "": it
// isn't.
func (x *automation) due(s Seen, due ring.ID) (slot Slot, why string) {
	i := slices.IndexFunc(x.observed.Members, func(m ring.Member) bool { return m.ID == due })
	if i < 0 {
		return slot, ""
	}
	at, ok := namesOf(s.Ring).Ordinal(x.observed.Members[i].Machine)
	if !ok || at >= len(s.Slots) {
		return slot, ""
	}
	slot = s.Slots[at]
	to := x.ground.course.template
	switch upgraded := slot.release() != to && s.version() == to && x.observed.Members[i].Release == to; {
	case slot.Pod == nil || slot.Pod.DeletionTimestamp != nil:
		return slot, ""
	case slot.static() && hasLauncher(s.Set.Spec.Template.Spec):
		return slot, "its member gets a launcher"
	case upgraded:
		return slot, fmt.Sprintf("its member is to run %s", to)
	}
	return slot, x.ground.Rolls[slot.Name]
}

// withheld is why the ring's disruption budget lets the slot's pod not go now, as far as it is
// known; "": it may. One that isn't ready is no matter of how many more may go. To ask before
// Kubernetes has counted by a new budget would have the client try again for long.
func (s Seen) withheld(slot Slot) string {
	switch b := s.Budget; {
	case b == nil:
		return "there is no disruption budget yet"
	case b.Status.ObservedGeneration < b.Generation:
		return "Kubernetes has not counted yet who may go by the disruption budget " + b.Name
	case b.Status.DisruptionsAllowed < 1 && slot.ready():
		return fmt.Sprintf("the disruption budget %s lets no pod go: %d are to be ready, and %d are", b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy)
	}
	return ""
}
