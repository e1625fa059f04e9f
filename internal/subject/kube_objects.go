// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"cmp"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
)

// Who is not ready is found by no name, and nobody is ready before the others are found.
var kubeNamesWhenReady = Mutant{
	Name:     "kube-names-when-ready",
	Hazard:   "Pods have names only once they are ready, and are ready only once they find each other.",
	Source:   "kubermatic#7968: a headless Service without publishNotReadyAddresses",
	Check:    "converges",
	Scenario: "kube-create",
	Undrawn:  offKubernetes,
	layer: only(writing(rewriting(func(_ context.Context, _ kubeclient.Client, o kubeclient.Object) (bool, error) {
		switch o := o.(type) {
		case *corev1.Service:
			o.Spec.PublishNotReadyAddresses = false
		case *appsv1.StatefulSet:
			each(o, func(c *corev1.Container) { c.ReadinessProbe.Exec.Command = withQuorum })
		default:
			return false, nil
		}
		return true, nil
	}))),
}

// A member that has lost its quorum is as well as before; those that it waits for aren't.
var kubeLiveNeedsQuorum = Mutant{
	Name:     "kube-live-needs-quorum",
	Hazard:   "A container is ended when its member has no quorum, as if it were the one that is sick.",
	Source:   "kubermatic#12190, etcd#13340: a liveness probe that reads with a quorum",
	Check:    "work-bounded",
	Scenario: "kube-majority-stopped",
	Undrawn:  offKubernetes,
	layer: only(writing(rewriting(func(_ context.Context, _ kubeclient.Client, o kubeclient.Object) (bool, error) {
		set, is := o.(*appsv1.StatefulSet)
		if !is {
			return false, nil
		}
		each(set, func(c *corev1.Container) { c.LivenessProbe.Exec.Command = withQuorum })
		return true, nil
	}))),
}

// withQuorum is a probe that a member passes only with the others' help.
var withQuorum = []string{kube.Tool, "is-running", "--within=3s"}

// each changes the set's containers.
func each(set *appsv1.StatefulSet, change func(*corev1.Container)) {
	for i := range set.Spec.Template.Spec.Containers {
		change(&set.Spec.Template.Spec.Containers[i])
	}
}

// The list says three, so there are three pods, and a fourth member is never there.
var kubeSetFollowsList = Mutant{
	Name:     "kube-set-follows-list",
	Hazard:   "There are as many pods as members, and a member is added only to a pod: the ring never grows.",
	Source:   "etcd-operator#193: the StatefulSet's replicas are set to the number of members that were seen",
	Check:    "converges",
	Scenario: "kube-grow-node-lost[victim=follower]",
	Undrawn:  offKubernetes,
	layer: only(writing(rewriting(func(ctx context.Context, c kubeclient.Client, o kubeclient.Object) (bool, error) {
		set, ring, err := setOf(ctx, c, o)
		if set == nil {
			return false, err
		}
		was := &appsv1.StatefulSet{}
		if err := c.Get(ctx, kubeclient.ObjectKeyFromObject(set), was); err != nil {
			return false, kubeclient.IgnoreNotFound(err) // it is being made
		}
		seen := ptr.To(cmp.Or(ring.Status.Voters, *was.Spec.Replicas))
		changed := *set.Spec.Replicas != *seen
		set.Spec.Replicas = seen
		return changed, nil
	}))),
}

// A set takes its highest pods at once, whoever lives there and whoever leads.
var kubeShrinksSetFirst = Mutant{
	Name:     "kube-shrinks-set-first",
	Hazard:   "A ring is shrunk by taking the pods of members that are still in it, all at once.",
	Source:   "etcd-druid before DEP-08 (etcd-druid#1426): the set is resized without a look at the quorum",
	Check:    "quorum-margin",
	Scenario: "kube-scale",
	Undrawn:  offKubernetes,
	layer: only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client {
		return shrinksFirst{resizes{c, h, func(set *appsv1.StatefulSet, ring *v1alpha1.EtcdRing) (int32, bool) {
			return ring.Spec.ClusterSize, ptr.Deref(set.Spec.Replicas, 0) > ring.Spec.ClusterSize
		}}}
	})),
}

// kubeClaimsGoWithSet asks Kubernetes to tidy up: with the set its claims go, whoever deletes it.
var kubeClaimsGoWithSet = Mutant{
	Name:     "kube-claims-go-with-set",
	Hazard:   "Whoever deletes the StatefulSet deletes every claim, and with them every log.",
	Source:   "persistentVolumeClaimRetentionPolicy.whenDeleted: Delete, as charts offer it (bitnami/charts#10009)",
	Check:    "converges",
	Scenario: "kube-set-deleted[how=background]",
	Undrawn:  offKubernetes,
	layer: only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client {
		return tidies{c, h}
	})),
}

// tidies is a client that makes sets whose claims go with them.
type tidies struct {
	kubeclient.Client
	host host.Host
}

func (t tidies) Create(ctx context.Context, o kubeclient.Object, how ...kubeclient.CreateOption) error {
	if set, is := o.(*appsv1.StatefulSet); is {
		reached(t.host)
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType}
	}
	return t.Client.Create(ctx, o, how...)
}

// resizes is a client that resizes a ring's set when it is looked at, and shows it as resized.
type resizes struct {
	kubeclient.Client
	host host.Host
	to   func(*appsv1.StatefulSet, *v1alpha1.EtcdRing) (replicas int32, other bool)
}

func (r resizes) Get(ctx context.Context, key kubeclient.ObjectKey, o kubeclient.Object, how ...kubeclient.GetOption) error {
	if err := r.Client.Get(ctx, key, o, how...); err != nil {
		return err
	}
	set, ring, err := setOf(ctx, r.Client, o)
	if set == nil {
		return err
	}
	replicas, other := r.to(set, ring)
	if !other {
		return nil
	}
	reached(r.host)
	set.Spec.Replicas = ptr.To(replicas)
	return r.Client.Update(ctx, set)
}

// shrinksFirst writes no set that is larger than the ring is to be.
type shrinksFirst struct{ resizes }

func (s shrinksFirst) Update(ctx context.Context, o kubeclient.Object, how ...kubeclient.UpdateOption) error {
	set, ring, err := setOf(ctx, s.Client, o)
	if err == nil && set != nil {
		set.Spec.Replicas = ptr.To(ring.Spec.ClusterSize)
	}
	return s.Client.Update(ctx, o, how...)
}

// setOf is the object if it is a ring's set, and the ring.
func setOf(ctx context.Context, c kubeclient.Client, o kubeclient.Object) (*appsv1.StatefulSet, *v1alpha1.EtcdRing, error) {
	set, is := o.(*appsv1.StatefulSet)
	if !is || len(set.OwnerReferences) == 0 {
		return nil, nil, nil
	}
	ring := &v1alpha1.EtcdRing{}
	if err := c.Get(ctx, kubeclient.ObjectKey{Namespace: set.Namespace, Name: set.OwnerReferences[0].Name}, ring); err != nil {
		return nil, nil, kubeclient.IgnoreNotFound(err)
	}
	return set, ring, nil
}

// rewriting writes other objects than it is given. change reports whether it changed one.
func rewriting(change func(context.Context, kubeclient.Client, kubeclient.Object) (bool, error)) func(host.Host, kubeclient.Client) kubeclient.Client {
	return func(h host.Host, c kubeclient.Client) kubeclient.Client { return rewrites{c, h, change} }
}

type rewrites struct {
	kubeclient.Client
	host   host.Host
	change func(context.Context, kubeclient.Client, kubeclient.Object) (bool, error)
}

func (r rewrites) Create(ctx context.Context, o kubeclient.Object, how ...kubeclient.CreateOption) error {
	if err := r.changed(ctx, o); err != nil {
		return err
	}
	return r.Client.Create(ctx, o, how...)
}

func (r rewrites) Update(ctx context.Context, o kubeclient.Object, how ...kubeclient.UpdateOption) error {
	if err := r.changed(ctx, o); err != nil {
		return err
	}
	return r.Client.Update(ctx, o, how...)
}

func (r rewrites) changed(ctx context.Context, o kubeclient.Object) error {
	changed, err := r.change(ctx, r.Client, o)
	if changed {
		reached(r.host)
	}
	return err
}

// Its last good status is what a ring keeps for as long as it can't be reached.
var kubeStatusFrozen = Mutant{
	Name:     "kube-status-frozen",
	Hazard:   "A turn that can't reach the ring ends before the status is written: for the whole of an outage it says that all is well.",
	Source:   "cozystack's etcd-operator#367 and #343",
	Check:    "status-honest",
	Scenario: "kube-quorum-stopped",
	Undrawn:  offKubernetes,
	layer:    only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client { return freezesStatus{c, h} })),
}

type freezesStatus struct {
	kubeclient.Client
	host host.Host
}

func (f freezesStatus) Status() kubeclient.SubResourceWriter {
	return frozen{f.Client.Status(), f.host}
}

type frozen struct {
	kubeclient.SubResourceWriter
	host host.Host
}

func (f frozen) Update(ctx context.Context, o kubeclient.Object, how ...kubeclient.SubResourceUpdateOption) error {
	ring, is := o.(*v1alpha1.EtcdRing)
	if is && ring.Status.ClusterID != "" && !meta.IsStatusConditionTrue(ring.Status.Conditions, v1alpha1.Available) {
		reached(f.host)
		return nil
	}
	return f.SubResourceWriter.Update(ctx, o, how...)
}

// A status that a backup has dropped is one of a ring without members, and then so is the set.
var kubeSetByStatus = Mutant{
	Name:     "kube-set-by-status",
	Hazard:   "There are as many pods as the status has members: who drops the status has every pod deleted.",
	Source:   "Kubernetes' API conventions: a status must be possible to reconstruct by observation; etcd-operator#193",
	Check:    "available",
	Scenario: "kube-status-emptied[when=member-added]",
	Undrawn:  offKubernetes,
	layer: only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client {
		return resizes{c, h, func(set *appsv1.StatefulSet, ring *v1alpha1.EtcdRing) (int32, bool) {
			return ring.Status.Voters, ring.Status.Voters == 0 && set.Status.ReadyReplicas >= ring.Spec.ClusterSize
		}}
	})),
}
