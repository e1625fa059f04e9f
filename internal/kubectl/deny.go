// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/local/machines"
)

// groups are the API groups of what can be denied, by its name in plural.
var groups = map[string]string{"pods": "", "persistentvolumeclaims": "", "services": "", "secrets": "", "configmaps": "",
	"statefulsets": "apps", "poddisruptionbudgets": "policy"}

// heeded is how long the API server is given to go by a policy: it looks for others once a second
// (policyRefreshInterval in k8s.io/apiserver).
const heeded = 2 * time.Second

// Deny has the API server refuse to whoever is no administrator what the fault says, in all namespaces
// but those. It returns once the API server has had the time to heed it.
func (c Client) Deny(ctx context.Context, name string, f ringproof.Fault, but ...string) (machines.Evidence, error) {
	policies, bindings := c.AdmissionregistrationV1().ValidatingAdmissionPolicies(), c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	err := insist(ctx, func() error { return made(policies.Create(ctx, policy(name, f, but), metav1.CreateOptions{})) })
	if err == nil {
		err = insist(ctx, func() error { return made(bindings.Create(ctx, binding(name), metav1.CreateOptions{})) })
	}
	if err != nil {
		return machines.Evidence{}, err
	}
	Wait(ctx, heeded)
	return machines.Evidence{What: "ValidatingAdmissionPolicy " + name, Detail: "denied: " + f.Does + " of " + f.Object}, nil
}

// made is why something was not made; nil: it is there.
func made[T any](_ T, err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Allow takes such a policy away, and gives the API server the same time.
func (c Client) Allow(ctx context.Context, name string) error {
	o := metav1.DeleteOptions{}
	if err := insist(ctx, func() error {
		return gone(c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, name, o))
	}); err != nil {
		return err
	}
	err := insist(ctx, func() error {
		return gone(c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, name, o))
	})
	Wait(ctx, heeded)
	return err
}

// noAdministrator is who is in none of the groups whose accounts administrators have: that of
// Kubernetes's own, and that of kubeadm's since v1.29.
const noAdministrator = `!(["system:masters", "kubeadm:cluster-admins"].exists(g, g in request.userInfo.groups))`

// policy lets nobody but administrators do what the fault denies.
func policy(name string, f ringproof.Fault, but []string) *admissionv1.ValidatingAdmissionPolicy {
	rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationType(strings.ToUpper(f.Does))},
		Rule:       admissionv1.Rule{APIGroups: []string{groups[f.Object]}, APIVersions: []string{"*"}, Resources: []string{f.Object}},
	}}
	elsewhere := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: slices.Concat(system, but)}
	return &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(admissionv1.Fail),
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{elsewhere}}},
		MatchConditions: []admissionv1.MatchCondition{{Name: "no-administrator", Expression: noAdministrator}},
		Validations: []admissionv1.Validation{{Expression: "false", Reason: ptr.To(metav1.StatusReasonForbidden),
			Message: fmt.Sprintf("the policy %s lets nobody %s %s", name, f.Does, f.Object)}},
	}}
}

func binding(name string) *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
}

// system are the namespaces of the cluster's own.
var system = []string{"kube-system", "kube-public", "kube-node-lease", "local-path-storage"}
