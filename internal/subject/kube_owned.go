// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
)

// kubeRecordsGoWithRing has the garbage collector tidy up who is in the ring, while the logs stay.
var kubeRecordsGoWithRing = Mutant{
	Name:     "kube-records-go-with-ring",
	Hazard:   "What says which ring the retained volumes are of is owned by the object that asks for the ring, and goes with it.",
	Source:   "owner references on everything, as controllerutil.SetControllerReference is used by habit (gardener/etcd-druid#281)",
	Check:    "converges",
	Scenario: "kube-ring-deleted[how=background,for=20s]",
	Undrawn:  offKubernetes,
	layer: only(writing(rewriting(func(ctx context.Context, c kubeclient.Client, o kubeclient.Object) (bool, error) {
		_, is := o.(*corev1.ConfigMap)
		if !is || o.GetAnnotations()[kube.KeyAnnotation] == "" {
			return false, nil
		}
		ring := &v1alpha1.EtcdRing{}
		if err := c.Get(ctx, kubeclient.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetLabels()[kube.RingLabel]}, ring); err != nil {
			return false, kubeclient.IgnoreNotFound(err)
		}
		o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(ring, v1alpha1.GroupVersion.WithKind("EtcdRing"))})
		return true, nil
	}))),
}

// kubeMadeOnce remembers that a Service was made, and not whether it is there.
var kubeMadeOnce = Mutant{
	Name:     "kube-made-once",
	Hazard:   "Services are made when the ring is, and never looked at again: who deletes them takes the members' names.",
	Source:   "openshift/cluster-etcd-operator#1237: what was deleted by hand was not made anew",
	Check:    "steps",
	Scenario: "kube-objects-deleted[object=services]",
	Undrawn:  offKubernetes,
	layer: only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client {
		return makesOnce{c, h, map[kubeclient.ObjectKey]bool{}}
	})),
}

// makesOnce is a client that makes each Service once.
type makesOnce struct {
	kubeclient.Client
	host host.Host
	made map[kubeclient.ObjectKey]bool
}

func (m makesOnce) Create(ctx context.Context, o kubeclient.Object, how ...kubeclient.CreateOption) error {
	if _, is := o.(*corev1.Service); !is {
		return m.Client.Create(ctx, o, how...)
	}
	if m.made[kubeclient.ObjectKeyFromObject(o)] {
		reached(m.host)
		return nil
	}
	err := m.Client.Create(ctx, o, how...)
	m.made[kubeclient.ObjectKeyFromObject(o)] = err == nil
	return err
}

// kubeReplicasLeft leaves the set's number to whoever wrote it last, while the ring has its size.
var kubeReplicasLeft = Mutant{
	Name:     "kube-replicas-left",
	Hazard:   "The set's number of pods is written only when the ring is to be another size: who scales it to none has stopped the ring for good.",
	Source:   "coreos/etcd-operator#193, bitnami/charts#10009",
	Check:    "available",
	Scenario: "kube-set-scaled[how=none]",
	Undrawn:  offKubernetes,
	layer: only(writing(rewriting(func(ctx context.Context, c kubeclient.Client, o kubeclient.Object) (bool, error) {
		set, ring, err := setOf(ctx, c, o)
		if set == nil || ring.Status.Voters != ring.Spec.ClusterSize {
			return false, err
		}
		was := &appsv1.StatefulSet{}
		if err := c.Get(ctx, kubeclient.ObjectKeyFromObject(set), was); err != nil {
			return false, kubeclient.IgnoreNotFound(err)
		}
		changed := *set.Spec.Replicas != *was.Spec.Replicas
		set.Spec.Replicas = was.Spec.Replicas
		return changed, nil
	}))),
}

// kubeRollsForItself takes another launcher for something that members have to restart for.
var kubeRollsForItself = Mutant{
	Name:     "kube-rolls-for-itself",
	Hazard:   "A release of the controller restarts every member of every ring, as its own image is part of what pods are asked to be.",
	Source:   "a digest of the whole pod template as the sign of a change (etcd-druid, cluster-api's KubeadmControlPlane)",
	Check:    "work-bounded",
	Scenario: "kube-controller-upgraded[when=member-promoted]",
	Undrawn:  offKubernetes,
	layer: only(writing(rewriting(func(_ context.Context, _ kubeclient.Client, o kubeclient.Object) (bool, error) {
		set, is := o.(*appsv1.StatefulSet)
		if !is || len(set.Spec.Template.Spec.InitContainers) == 0 {
			return false, nil
		}
		asked, _, _ := strings.Cut(set.Spec.Template.Annotations[kube.AskedAnnotation], "-")
		set.Spec.Template.Annotations[kube.AskedAnnotation] = asked + "-" + set.Spec.Template.Spec.InitContainers[0].Image
		return true, nil
	}))),
}
