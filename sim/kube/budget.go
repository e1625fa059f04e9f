// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var budgetKind = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")

// Evict deletes a pod if the budget that it is under lets it go. A pod that doesn't
// run, or is going already, is under none.
func (s *Server) Evict(at Key, options metav1.DeleteOptions) error {
	found, err := s.Get(podKind, at)
	if err != nil {
		return err
	}
	pod := found.(*corev1.Pod)
	if pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != "" || pod.DeletionTimestamp != nil {
		return s.disrupt(pod, options)
	}
	budgets, err := s.budgetsOf(pod)
	switch {
	case err != nil:
		return err
	case len(budgets) > 1:
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
	case len(budgets) == 0 || spares(budgets[0], pod):
		return s.disrupt(pod, options)
	}
	if err := s.spend(budgets[0], pod); err != nil {
		return err
	}
	return s.disrupt(pod, options)
}

// disrupt says on a pod that it is evicted, and deletes it.
func (s *Server) disrupt(pod *corev1.Pod, options metav1.DeleteOptions) error {
	sh := s.shelves[podKind]
	if err := sh.meant(pod, options.Preconditions); err != nil {
		return err
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting", LastTransitionTime: s.now()})
	marked, err := s.UpdateStatus(pod)
	if err != nil {
		return err
	}
	if p := options.Preconditions; p != nil && p.ResourceVersion != nil {
		version := marked.GetResourceVersion()
		options.Preconditions = &metav1.Preconditions{UID: p.UID, ResourceVersion: &version}
	}
	_, err = s.Delete(podKind, keyOf(pod), options)
	return err
}

// spares reports whether a budget lets go of a pod that isn't ready.
func spares(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	if c := readiness(pod); c != nil && c.Status == corev1.ConditionTrue {
		return false
	}
	policy := b.Spec.UnhealthyPodEvictionPolicy
	return policy != nil && *policy == policyv1.AlwaysAllow || b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

// spend takes one disruption from a budget, or refuses.
func (s *Server) spend(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) error {
	const text = "Cannot evict pod as it would violate the pod's disruption budget."
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		return tooMany(text, 10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case b.Status.DisruptionsAllowed == 0:
		return tooMany(text, 0, fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy))
	}
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[pod.Name] = s.now()
	_, err := s.UpdateStatus(b)
	return err
}

func tooMany(text string, after int, cause string) error {
	err := apierrors.NewTooManyRequests(text, after)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}

// budgetsOf are the budgets that select a pod.
func (s *Server) budgetsOf(pod *corev1.Pod) (over []*policyv1.PodDisruptionBudget, err error) {
	budgets, err := all[*policyv1.PodDisruptionBudget](s, budgetKind)
	for _, b := range budgets {
		selects, bad := selected(b)
		if bad != nil {
			return nil, bad
		}
		if b.Namespace == pod.Namespace && selects.Matches(labels.Set(pod.Labels)) {
			over = append(over, b)
		}
	}
	return over, err
}

func selected(b *policyv1.PodDisruptionBudget) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(b.Spec.Selector)
}

// expected is for how long an evicted pod is taken to be going.
const expected = 2 * time.Minute

// keepBudgets counts, for every budget, who is healthy and how many may go.
func (s *Server) keepBudgets() error {
	budgets, err := all[*policyv1.PodDisruptionBudget](s, budgetKind)
	if err != nil {
		return err
	}
	for _, b := range budgets {
		status, err := s.countBudget(b)
		if err != nil {
			return fmt.Errorf("poddisruptionbudget %s: %w", keyOf(b), err)
		}
		if equality.Semantic.DeepEqual(b.Status, status) {
			continue
		}
		b.Status = status
		if _, err := s.UpdateStatus(b); err != nil && !retried(err) {
			return err
		}
	}
	return nil
}

func (s *Server) countBudget(b *policyv1.PodDisruptionBudget) (policyv1.PodDisruptionBudgetStatus, error) {
	status := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptedPods: map[string]metav1.Time{}, Conditions: b.Status.Conditions}
	pods, err := all[*corev1.Pod](s, podKind)
	if err != nil {
		return status, err
	}
	selects, err := selected(b)
	if err != nil {
		return status, err
	}
	var ours []*corev1.Pod
	for _, pod := range pods {
		if pod.Namespace != b.Namespace || !selects.Matches(labels.Set(pod.Labels)) {
			continue
		}
		ours = append(ours, pod)
		going, evicted := b.Status.DisruptedPods[pod.Name]
		evicted = evicted && going.Add(expected).After(s.now().Time)
		switch c := readiness(pod); {
		case pod.DeletionTimestamp != nil:
		case evicted:
			status.DisruptedPods[pod.Name] = going
		case c != nil && c.Status == corev1.ConditionTrue:
			status.CurrentHealthy++
		}
	}
	if err := s.wantedHealthy(b, ours, &status); err != nil {
		return status, err
	}
	if status.ExpectedPods > 0 {
		status.DisruptionsAllowed = max(0, status.CurrentHealthy-status.DesiredHealthy)
	}
	return status, nil
}

// wantedHealthy says how many pods there should be, and how many of them healthy.
func (s *Server) wantedHealthy(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, status *policyv1.PodDisruptionBudgetStatus) error {
	least, most := b.Spec.MinAvailable, b.Spec.MaxUnavailable
	if most == nil && least != nil && least.Type == intstr.Int {
		status.ExpectedPods, status.DesiredHealthy = int32(len(pods)), least.IntVal
		return nil
	}
	scale, err := s.scaleOf(pods)
	if err != nil {
		return err
	}
	status.ExpectedPods = scale
	of := least
	if most != nil {
		of = most
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(of, intstr.FromInt32(0)), int(scale), true)
	status.DesiredHealthy = int32(n)
	if most != nil {
		status.DesiredHealthy = max(0, scale-int32(n))
	}
	return err
}

// scaleOf is how many pods those who control these want. A pod that nobody controls
// isn't counted.
func (s *Server) scaleOf(pods []*corev1.Pod) (scale int32, err error) {
	sets := map[types.UID]bool{}
	for _, pod := range pods {
		if owner := metav1.GetControllerOf(pod); owner != nil {
			if schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind) != setKind {
				return 0, fmt.Errorf("pod %s is controlled by a %s, and only StatefulSets are modelled", pod.Name, owner.Kind)
			}
			sets[owner.UID] = true
		}
	}
	known, err := all[*appsv1.StatefulSet](s, setKind)
	for _, set := range known {
		if sets[set.UID] {
			scale += *set.Spec.Replicas
		}
	}
	return scale, err
}
