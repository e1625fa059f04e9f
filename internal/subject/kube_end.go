// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
)

// kubeNeverForces deletes every pod in good order, which its node's kubelet is to end.
var kubeNeverForces = Mutant{
	Name:     "kube-never-forces",
	Hazard:   "A pod whose node is gone is deleted in good order and waited for: it ends when that node is back, if it ever is.",
	Source:   "Kubernetes, Force Delete StatefulSet Pods: a pod on a node that nobody hears of stays Terminating until the node is deleted, or the pod by force",
	Check:    "leaves-nothing",
	Scenario: "kube-deleted[victim=follower]",
	Undrawn:  offKubernetes,
	layer: only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client {
		return deletesSo{c, func(ctx context.Context, o kubeclient.Object, how []kubeclient.DeleteOption) error {
			all := (&kubeclient.DeleteOptions{}).ApplyOptions(how)
			if _, is := o.(*corev1.Pod); is && all.GracePeriodSeconds != nil {
				reached(h)
				all.GracePeriodSeconds = nil
			}
			return c.Delete(ctx, o, all)
		}}
	})),
}

// kubeEndsWithSet takes the StatefulSet for all that there is of a ring: what that has made of its
// templates is nobody's.
var kubeEndsWithSet = Mutant{
	Name:     "kube-ends-with-set",
	Hazard:   "The finalizer of a deleted ring is taken off once its StatefulSet is deleted: its claims and its records stay.",
	Source:   "Kubernetes, StatefulSet: claims are not deleted with the set unless persistentVolumeClaimRetentionPolicy says so",
	Check:    "leaves-nothing",
	Scenario: "kube-deleted[victim=follower]",
	Undrawn:  offKubernetes,
	layer: only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client {
		return deletesSo{c, func(ctx context.Context, o kubeclient.Object, how []kubeclient.DeleteOption) error {
			err := c.Delete(ctx, o, how...)
			ring := &v1alpha1.EtcdRing{}
			if _, is := o.(*appsv1.StatefulSet); !is || err != nil || c.Get(ctx, kubeclient.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetLabels()[kube.RingLabel]}, ring) != nil || ring.DeletionTimestamp == nil {
				return err
			}
			reached(h)
			return kubeclient.IgnoreNotFound(c.Patch(ctx, ring, kubeclient.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		}}
	})),
}

// deletesSo is a client that deletes otherwise.
type deletesSo struct {
	kubeclient.Client
	how func(context.Context, kubeclient.Object, []kubeclient.DeleteOption) error
}

func (d deletesSo) Delete(ctx context.Context, o kubeclient.Object, how ...kubeclient.DeleteOption) error {
	return d.how(ctx, o, how)
}
