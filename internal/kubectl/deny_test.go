// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kubectl

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// A policy is of the rings' objects alone, of no administrator's requests, and goes as it came.
func TestDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := Client{Interface: fake.NewClientset()}, time.Now()
		f := ringproof.Fault{Kind: ringproof.FaultAdmissionDenied, Object: "statefulsets", Does: ringproof.DeniesUpdate}
		for range 2 { // whoever has had no answer asks again
			e, err := c.Deny(t.Context(), "denied.ringproof.dev", f, "ringproof-system")
			require.NoError(t, err)
			assert.Equal(t, "ValidatingAdmissionPolicy denied.ringproof.dev: denied: update of statefulsets", e.String())
		}
		assert.Equal(t, 2*heeded, time.Since(began))
		policies, bindings := c.AdmissionregistrationV1().ValidatingAdmissionPolicies(), c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
		p, err := policies.Get(t.Context(), "denied.ringproof.dev", metav1.GetOptions{})
		require.NoError(t, err)
		rule := p.Spec.MatchConstraints.ResourceRules[0]
		assert.Equal(t, []admissionv1.OperationType{admissionv1.Update}, rule.Operations)
		assert.Equal(t, []string{"apps"}, rule.APIGroups)
		assert.Equal(t, []string{"statefulsets"}, rule.Resources)
		elsewhere := p.Spec.MatchConstraints.NamespaceSelector.MatchExpressions[0]
		assert.Equal(t, corev1.LabelMetadataName, elsewhere.Key)
		assert.Subset(t, elsewhere.Values, []string{"kube-system", "ringproof-system"})
		assert.Contains(t, p.Spec.MatchConditions[0].Expression, "system:masters")
		assert.Contains(t, p.Spec.MatchConditions[0].Expression, "kubeadm:cluster-admins")
		b, err := bindings.Get(t.Context(), "denied.ringproof.dev", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, p.Name, b.Spec.PolicyName)

		for range 2 {
			require.NoError(t, c.Allow(t.Context(), "denied.ringproof.dev"))
		}
		left, err := policies.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Empty(t, left.Items)
	})
}

// Whatever the catalogue lets be denied is in a group.
func TestDeniedObjectsHaveGroups(t *testing.T) {
	e, _ := faults.Lookup(ringproof.FaultAdmissionDenied)
	p, _ := e.Param("object")
	require.Len(t, groups, len(p.Values))
	for _, object := range p.Values {
		assert.Contains(t, groups, object)
	}
}
