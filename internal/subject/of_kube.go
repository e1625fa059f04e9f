// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
)

// listing is the client of a mutant that makes its mistake at each list which it reads.
func listing(seen func(context.Context, lists, kubeclient.ObjectList) error) func(host.Host, kubeclient.Client) kubeclient.Client {
	return func(h host.Host, c kubeclient.Client) kubeclient.Client { return lists{c, h, seen} }
}

type lists struct {
	kubeclient.Client
	host host.Host
	seen func(context.Context, lists, kubeclient.ObjectList) error
}

func (l lists) List(ctx context.Context, list kubeclient.ObjectList, how ...kubeclient.ListOption) error {
	if err := l.Client.List(ctx, list, how...); err != nil {
		return err
	}
	return l.seen(ctx, l, list)
}

const offKubernetes = "explore draws no rings on Kubernetes"

// writing is the layer of a mutant that writes to the API server otherwise.
func writing(client func(host.Host, kubeclient.Client) kubeclient.Client) layer {
	return layer{kube: client}
}

// With the claim of a lost volume every pod of the ring is deleted: a template that names
// no member can't say which of them it is about.
var kubeResetAll = Mutant{
	Name:     "kube-reset-all",
	Hazard:   "For one lost volume every pod of the ring is deleted, also those that have lost nothing.",
	Source:   "kubermatic etcd-launcher B8 (pvwatcher deletes all pods of the ring)",
	Check:    "available",
	Scenario: "kube-volume-deleted[victim=follower]",
	Undrawn:  offKubernetes,
	layer:    only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client { return resetsAll{c, h} })),
}

type resetsAll struct {
	kubeclient.Client
	host host.Host
}

func (r resetsAll) Delete(ctx context.Context, o kubeclient.Object, how ...kubeclient.DeleteOption) error {
	err := r.Client.Delete(ctx, o, how...)
	if _, is := o.(*corev1.PersistentVolumeClaim); !is || err != nil {
		return err
	}
	reached(r.host)
	return deletePods(ctx, r.Client, o)
}

// deletePods deletes every pod of the ring that an object belongs to.
func deletePods(ctx context.Context, c kubeclient.Client, of kubeclient.Object) error {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, kubeclient.InNamespace(of.GetNamespace()), kubeclient.MatchingLabels{kube.RingLabel: of.GetLabels()[kube.RingLabel]}); err != nil {
		return err
	}
	for i := range pods.Items {
		if err := c.Delete(ctx, &pods.Items[i]); kubeclient.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// What a StatefulSet does of itself when its template changes: the highest ordinal first,
// and the next once that one is ready, whoever leads.
var kubeRollingUpdate = Mutant{
	Name:     "kube-rolling-update",
	Hazard:   "The StatefulSet replaces the pods itself, by ordinals, also the leader's before others.",
	Source:   "Kubernetes: StatefulSetUpdateStrategy is RollingUpdate if nobody says otherwise, as charts for etcd leave it",
	Check:    "upgrade-in-order",
	Scenario: "kube-upgrade[size=5]",
	Undrawn:  offKubernetes,
	layer:    only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client { return rollsSets{c, h} })),
}

// rollsSets writes sets that roll, and shows them as if they didn't.
type rollsSets struct {
	kubeclient.Client
	host host.Host
}

func (r rollsSets) Get(ctx context.Context, key kubeclient.ObjectKey, o kubeclient.Object, how ...kubeclient.GetOption) error {
	err := r.Client.Get(ctx, key, o, how...)
	if set, is := o.(*appsv1.StatefulSet); is && err == nil {
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	}
	return err
}

func (r rollsSets) Update(ctx context.Context, o kubeclient.Object, how ...kubeclient.UpdateOption) error {
	if set, is := o.(*appsv1.StatefulSet); is {
		reached(r.host)
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
	}
	return r.Client.Update(ctx, o, how...)
}

// As ringadm's own controller did at first: this harness found it.
var kubeCountsOnEnding = Mutant{
	Name:     "kube-counts-on-ending",
	Hazard:   "A pod that is being deleted serves for as long as it has to end, and is counted on: the next member is restarted meanwhile.",
	Source:   "Kubernetes: a pod is Ready until its containers have ended, whatever its deletionTimestamp says",
	Check:    "restarts-in-turn",
	Scenario: "kube-edited",
	Undrawn:  offKubernetes,
	layer: func() layer {
		l := deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
			o.Machines = slices.Clone(o.Machines)
			for i := range o.Machines {
				o.Machines[i].Ending = false
			}
			return inner(spec, o)
		})
		l.kube = deleting // a budget would not let it
		return l
	},
}

var kubeReloadsAll = Mutant{
	Name:     "kube-reloads-all",
	Hazard:   "Whoever mounts a Secret that changed is restarted: all pods of the ring at once, for certificates that etcd would have read by itself.",
	Source:   "Checksums of Secrets in pod templates, and controllers that restart what mounts them (stakater/Reloader)",
	Check:    "restarts-in-turn",
	Scenario: "kube-authorities-renewed",
	Undrawn:  offKubernetes,
	layer:    only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client { return reloadsAll{c, h} })),
}

type reloadsAll struct {
	kubeclient.Client
	host host.Host
}

func (r reloadsAll) Update(ctx context.Context, o kubeclient.Object, how ...kubeclient.UpdateOption) error {
	err := r.Client.Update(ctx, o, how...)
	if _, is := o.(*corev1.Secret); !is || err != nil {
		return err
	}
	reached(r.host)
	return deletePods(ctx, r.Client, o)
}

// In one life both are deleted, one right after the other.
var kubeForgetsClaims = Mutant{
	Name:     "kube-forgets-claims",
	Hazard:   "Which claim was deleted is remembered, and not seen: a controller that dies before it deletes the pod leaves both where they are.",
	Source:   "An intent that is kept in memory alone, as an operator's that goes on only with what it has itself begun",
	Check:    "converges",
	Scenario: "kube-controller-cut[object=persistentvolumeclaim,phase=after]",
	Undrawn:  offKubernetes,
	layer: func() layer {
		begun := map[types.UID]bool{}
		return writing(func(h host.Host, c kubeclient.Client) kubeclient.Client { return forgetsClaims{c, h, begun} })
	},
}

type forgetsClaims struct {
	kubeclient.Client
	host  host.Host
	begun map[types.UID]bool // claims that were deleted in this life
}

func (f forgetsClaims) Delete(ctx context.Context, o kubeclient.Object, how ...kubeclient.DeleteOption) error {
	pod, is := o.(*corev1.Pod)
	if !is {
		f.begun[o.GetUID()] = true
		return f.Client.Delete(ctx, o, how...)
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		err := f.Get(ctx, kubeclient.ObjectKey{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}, claim)
		if err == nil && claim.DeletionTimestamp != nil && !f.begun[claim.UID] {
			reached(f.host)
			return nil
		}
	}
	return f.Client.Delete(ctx, o, how...)
}
