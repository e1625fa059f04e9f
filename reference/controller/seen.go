// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// Seen is what one look found. Pointers that are nil mean: positively not there.
type Seen struct {
	Ring    *v1alpha1.EtcdRing
	Missing []client.Object // of those that there must be
	Kept    []Kept          // of those that are there
	Strange []string        // of those names, and somebody else's
	Set     *appsv1.StatefulSet
	Budget  *policyv1.PodDisruptionBudget
	Slots   []Slot                          // by ordinal
	Beyond  []*corev1.PersistentVolumeClaim // of slots that no ring has: somebody had the set keep so many pods
	Nodes   []corev1.Node
	Quiet   map[string]time.Duration // node → how long this process has seen it not ready
	Image   string                   // ringadm's

	Identity *store.Identity     // the bootstrap record
	Made     store.Made          // what pods were to be made with, by the records; its zero: nothing was noted
	View     *admin.View         // the ring, read with a quorum in this turn; nil: it wasn't
	Voters   int                 // how many voted when this process read it last; 0: it never has
	Heard    map[string]bool     // machines whose members served a turn ago
	Last     *appsv1.StatefulSet // as this process has seen it last; nil: it never has
}

// Slot is what there is of one slot.
type Slot struct {
	Name    string
	Ordinal int
	Pod     *corev1.Pod
	Claim   *corev1.PersistentVolumeClaim
	Volume  *corev1.PersistentVolume // that the claim is bound to
	Check   *corev1.Pod              // tries another release of etcd on the pod's node
}

// version is the release that pods are made with, whatever is asked for by now.
func (s Seen) version() ring.Version { return s.made().Version }

// look reads what there is of a ring, besides what is known of it. Whatever can't be read ends it: a look that is
// whole in part would take the rest for absent.
func look(ctx context.Context, from client.Reader, s Seen) (Seen, error) {
	r := s.Ring
	var err error
	if s.Set, err = get(ctx, from, &appsv1.StatefulSet{}, r.Namespace, namesOf(r).Set()); err != nil {
		return s, err
	}
	if s.Set != nil && !ours(r, s.Set) {
		s.Set = nil // and it is among the strange
	}
	if err := s.lookAtSlots(ctx, from); err != nil {
		return s, err
	}
	for _, o := range s.wanted() {
		there, err := get(ctx, from, blank(o), r.Namespace, o.GetName())
		if err != nil {
			return s, err
		}
		switch budget, is := there.(*policyv1.PodDisruptionBudget); {
		case reflect.ValueOf(there).IsNil():
			s.Missing = append(s.Missing, o)
		case !ours(r, there):
			s.Strange = append(s.Strange, kindOf(o)+" "+o.GetName())
		default:
			s.Kept = append(s.Kept, Kept{there, o})
			if is {
				s.Budget = budget
			}
		}
	}
	return s, nil
}

// blank is an empty object of the same kind.
func blank(o client.Object) client.Object {
	return reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
}

// get returns the object; nil: the API server, or its cache, says that there is none.
func get[T client.Object](ctx context.Context, from client.Reader, o T, namespace, name string) (none T, err error) {
	err = from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return reflect.Zero(reflect.TypeOf(o)).Interface().(T), nil
	}
	return o, err
}

func (s *Seen) lookAtSlots(ctx context.Context, from client.Reader) error {
	n := namesOf(s.Ring)
	of := []client.ListOption{client.InNamespace(n.Namespace), client.MatchingLabels{kube.RingLabel: n.Ring}}
	pods, claims, nodes := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.NodeList{}
	if err := errors.Join(from.List(ctx, pods, of...), from.List(ctx, claims, of[0]), from.List(ctx, nodes)); err != nil {
		return err
	}
	s.Nodes = nodes.Items
	s.Slots = make([]Slot, kube.MostSlots)
	for i := range s.Slots {
		s.Slots[i] = Slot{Name: n.Slot(i), Ordinal: i}
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		for at := range s.Slots {
			slot := &s.Slots[at]
			switch part := kube.PartOf(p.Labels); {
			case part == kube.MemberPart && p.Name == slot.Name:
				slot.Pod = p
			case part == kube.CheckPart && p.Name == n.Check(slot.Name):
				slot.Check = p
			}
		}
	}
	for i := range claims.Items { // a set's pod takes the claim of its name, whoever made it
		c := &claims.Items[i]
		for at := range s.Slots {
			if c.Name == n.Claim(at) {
				s.Slots[at].Claim = c
			}
		}
		if at, ok := n.Ordinal(strings.TrimPrefix(c.Name, kube.DiskVolume+"-")); ok && at >= kube.MostSlots && c.Labels[kube.RingLabel] == n.Ring {
			s.Beyond = append(s.Beyond, c)
		}
	}
	return s.lookAtVolumes(ctx, from)
}

func (s *Seen) lookAtVolumes(ctx context.Context, from client.Reader) (err error) {
	for i := range s.Slots {
		slot := &s.Slots[i]
		if slot.Claim == nil || slot.Claim.Spec.VolumeName == "" {
			continue
		}
		if slot.Volume, err = get(ctx, from, &corev1.PersistentVolume{}, "", slot.Claim.Spec.VolumeName); err != nil {
			return err
		}
	}
	return nil
}

// evidence is what the pod's init container said of the disk, when it ran last.
func (s Slot) evidence() (e kube.Evidence, told bool, err error) {
	if s.Pod == nil || s.Pod.DeletionTimestamp != nil {
		return e, false, nil
	}
	for _, c := range s.Pod.Status.InitContainerStatuses {
		if end := c.State.Terminated; c.Name == kube.InitContainer && end != nil && end.ExitCode == 0 && end.Message != "" {
			e, err = kube.ParseEvidence(end.Message)
			return e, err == nil, err
		}
	}
	return e, false, nil
}

// misplaced is why the member's container ended, if it found another disk than init did, and
// neither has run since: one that runs again has found init's, or ends in its next turn.
func (s Slot) misplaced() (why string) {
	if s.Pod == nil || s.Pod.DeletionTimestamp != nil {
		return ""
	}
	var ran *corev1.ContainerStateTerminated
	for _, c := range s.Pod.Status.InitContainerStatuses {
		if c.Name == kube.InitContainer {
			ran = c.State.Terminated
		}
	}
	for _, c := range s.Pod.Status.ContainerStatuses {
		if c.Name != kube.MemberContainer || c.State.Running != nil {
			continue
		}
		for _, end := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if end != nil && ran != nil && strings.HasPrefix(end.Message, kube.MisplacedMessage) && !end.FinishedAt.Before(&ran.FinishedAt) {
				return end.Message
			}
		}
	}
	return ""
}

func (s Slot) ready() bool {
	if s.Pod == nil {
		return false
	}
	for _, c := range s.Pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
