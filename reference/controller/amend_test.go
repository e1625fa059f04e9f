// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What is there says what it would say if it were made now, and goes when the ring goes; what
// somebody else owns is theirs.
func TestObjectsAreAmended(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(client.Object)
		why  string // that some object is amended; "": none is
	}{
		"as they were made": {func(client.Object) {}, ""},
		"filled in by the API server": {func(o client.Object) {
			if service, is := o.(*corev1.Service); is {
				service.Spec.ClusterIP, service.Spec.SessionAffinity = "10.0.0.1", corev1.ServiceAffinityNone
			}
		}, ""},
		"reached from outside": {func(o client.Object) {
			if service, is := o.(*corev1.Service); is {
				service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 31379
			}
		}, ""},
		"services that choose nobody": {func(o client.Object) {
			if service, is := o.(*corev1.Service); is {
				service.Spec.Selector = map[string]string{"nobody": ""}
			}
		}, "it says something else than the ring needs"},
		"a role that allows nothing": {func(o client.Object) {
			if role, is := o.(*rbacv1.Role); is {
				role.Rules = nil
			}
		}, "it says something else than the ring needs"},
		"a binding of nobody": {func(o client.Object) {
			if binding, is := o.(*rbacv1.RoleBinding); is {
				binding.Subjects = nil
			}
		}, "it says something else than the ring needs"},
		"of the EtcdRing before": {func(o client.Object) { o.GetOwnerReferences()[0].UID = "before" }, "the EtcdRing that owned it is no more"},
		"left by the one before": {func(o client.Object) { o.SetOwnerReferences(nil) }, "nobody owns it"},
		"somebody else's by name": {func(o client.Object) {
			o.GetOwnerReferences()[0].UID, o.GetOwnerReferences()[0].Name = "other", "other"
		}, ""},
		"somebody else's by kind": {func(o client.Object) {
			o.GetOwnerReferences()[0].UID, o.GetOwnerReferences()[0].Kind = "other", "Other"
		}, ""},
		"nobody's of that name": {func(o client.Object) { o.SetOwnerReferences(nil); o.SetLabels(nil) }, ""},
		"being deleted":         {func(o client.Object) { o.SetOwnerReferences(nil); o.SetDeletionTimestamp(ptr.To(metav1.Now())) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := Seen{Ring: newRing(3), Image: "ringadm:test"}
			s.Ring.UID = "now"
			for _, o := range s.wanted() {
				is := o.DeepCopyObject().(client.Object)
				test.edit(is)
				s.Kept = append(s.Kept, Kept{is, o})
				if b, ok := is.(*policyv1.PodDisruptionBudget); ok {
					s.Budget = b
				}
			}
			g := Ground{}
			g.amend(s)
			g.keepBudget(s)
			if test.why == "" {
				assert.Empty(t, g.Changes)
				return
			}
			require.NotEmpty(t, g.Changes)
			for _, c := range g.Changes {
				assert.Equal(t, test.why, c.Why, c.String())
				assert.True(t, metav1.IsControlledBy(c.Object, s.Ring), c.String())
			}
		})
	}
}

// A budget by which all pods may go at once is one of a quorum again, whoever answers.
func TestBudgetIsBounded(t *testing.T) {
	s := Seen{Ring: newRing(5)}
	s.Budget = budget(s.Ring)
	s.Budget.Spec.MinAvailable, s.Budget.Spec.MaxUnavailable = nil, ptr.To(intstr.FromString("100%"))
	g := Ground{}
	g.keepBudget(s)
	require.Len(t, g.Changes, 1)
	after := g.Changes[0].Object.(*policyv1.PodDisruptionBudget)
	assert.Nil(t, after.Spec.MaxUnavailable)
	assert.Equal(t, 3, after.Spec.MinAvailable.IntValue())
	assert.True(t, g.rebudgets)
}
