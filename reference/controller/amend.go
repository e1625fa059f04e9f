// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
)

// Kept is an object of the ring as it is, and as it would be made.
type Kept struct{ Is, Asked client.Object }

// amended is the object as it is to be; why is "" where it is so already. What the API server
// fills in is left as it is. An object is there, and may say nothing: a Service whose selector
// somebody has edited gives no pod a name.
func (k Kept) amended(r *v1alpha1.EtcdRing) (next client.Object, why string) {
	next = k.Is.DeepCopyObject().(client.Object)
	switch to := next.(type) {
	case *corev1.Service:
		from := k.Asked.(*corev1.Service).Spec
		to.Spec.Selector, to.Spec.Ports, to.Spec.PublishNotReadyAddresses = from.Selector, onNodes(from.Ports, to.Spec.Ports), from.PublishNotReadyAddresses
	case *rbacv1.Role:
		to.Rules = k.Asked.(*rbacv1.Role).Rules
	case *rbacv1.RoleBinding:
		to.Subjects = k.Asked.(*rbacv1.RoleBinding).Subjects
	}
	if !equality.Semantic.DeepEqual(k.Is, next) {
		why = "it says something else than the ring needs"
	}
	return next, joined(why, takes(r, next))
}

// onNodes are the ports that are asked for, at the nodes' ports that the API server has given them: a
// Service that somebody has reached from outside was written each second, to the same effect.
func onNodes(asked, is []corev1.ServicePort) []corev1.ServicePort {
	all := slices.Clone(asked)
	for i := range all {
		if at := slices.IndexFunc(is, func(p corev1.ServicePort) bool { return p.Port == all[i].Port && p.Protocol == all[i].Protocol }); at >= 0 {
			all[i].NodePort = is[at].NodePort
		}
	}
	return all
}

// ours reports whether an object of a name that the ring's has is the ring's: it owns it, or may.
func ours(r *v1alpha1.EtcdRing, o client.Object) bool {
	return metav1.IsControlledBy(o, r) || takes(r, o.DeepCopyObject().(client.Object)) != "" || o.GetLabels()[kube.RingLabel] == r.Name && o.GetDeletionTimestamp() != nil
}

// takes makes the ring the owner of an object of its own, and says whose it was; "": the ring's, or
// somebody else's, to whom it is left. One whose owner was deleted goes soon, unless another takes
// it: an EtcdRing that was made anew on what the one before it has left has another UID.
func takes(r *v1alpha1.EtcdRing, o client.Object) (whose string) {
	owner := metav1.GetControllerOf(o)
	switch {
	case o.GetLabels()[kube.RingLabel] != r.Name || metav1.IsControlledBy(o, r) || o.GetDeletionTimestamp() != nil:
		return ""
	case owner == nil:
		whose = "nobody owns it"
	case owner.Kind == "EtcdRing" && owner.Name == r.Name:
		whose = "the EtcdRing that owned it is no more"
	default:
		return ""
	}
	o.SetOwnerReferences(owned(r, o.GetName()).OwnerReferences)
	return whose
}

// bounded has the budget count the ring's pods by a number that is to stay, and says what it counted
// by before; "": so it did.
func bounded(b, asked *policyv1.PodDisruptionBudget) (why string) {
	if b.Spec.MaxUnavailable == nil && b.Spec.MinAvailable != nil && equality.Semantic.DeepEqual(b.Spec.Selector, asked.Spec.Selector) {
		return ""
	}
	b.Spec.MaxUnavailable, b.Spec.Selector = nil, asked.Spec.Selector
	if b.Spec.MinAvailable == nil {
		b.Spec.MinAvailable = asked.Spec.MinAvailable
	}
	return "it counts others, or by what may be away"
}

// joined is what is known of two reasons.
func joined(whys ...string) string {
	return strings.Join(slices.DeleteFunc(whys, func(s string) bool { return s == "" }), "; ")
}

// sameRun reports whether pods of both run the same programs in the same way. What else is in a
// template the API server fills in; but whoever edits an image by hand has each pod that is made
// later run another etcd than its member is known to.
func sameRun(is, asked corev1.PodSpec) bool {
	same := func(a, b corev1.Container) bool {
		return a.Name == b.Name && a.Image == b.Image && slices.Equal(a.Command, b.Command) && slices.Equal(a.Args, b.Args)
	}
	return slices.EqualFunc(is.InitContainers, asked.InitContainers, same) && slices.EqualFunc(is.Containers, asked.Containers, same)
}
