// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	podKind      = corev1.SchemeGroupVersion.WithKind("Pod")
	claimKind    = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
	setKind      = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	revisionKind = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
)

// Reconcile has the cluster's own controllers look at everything once: that of
// StatefulSets, the protection of claims, the garbage collector and that of disruption
// budgets. It reports whether one of them wrote anything. They see what the server has, and act at once; a refusal
// is theirs to try again, and is no error.
func (s *Server) Reconcile() (wrote bool, err error) {
	before := s.version
	for _, act := range []func() error{s.runSets, s.protectClaims, s.collect, s.keepBudgets} {
		if err := act(); err != nil {
			return s.version > before, err
		}
	}
	return s.version > before, nil
}

// all are the objects of a kind, by namespace and name.
func all[T Object](s *Server, gvk schema.GroupVersionKind) (found []T, err error) {
	objects, _, err := s.List(gvk, "")
	for _, o := range objects {
		found = append(found, o.(any).(T))
	}
	return found, err
}

// controlledBy reports whether an object's controller is the one of that UID.
func controlledBy(o Object, uid types.UID) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID == uid
}

func (s *Server) runSets() error {
	sets, err := all[*appsv1.StatefulSet](s, setKind)
	if err != nil {
		return err
	}
	for _, set := range sets {
		if !s.woken(set) {
			continue
		}
		version := s.version
		seen, err := s.see(set)
		if err != nil {
			return err
		}
		step := seen.Step()
		if err := s.carryOut(step, set); err != nil && !retried(err) {
			return fmt.Errorf("statefulset %s: %w", keyOf(set), err)
		}
		if step.Err == nil {
			s.synced[set.UID] = version
		}
	}
	return nil
}

// woken reports whether a set or a pod of it has changed since the controller dealt with
// it, or it failed then. Nothing else wakes it: a claim that vanishes under a pod which
// nobody writes is not made again.
func (s *Server) woken(set *appsv1.StatefulSet) bool {
	since, known := s.synced[set.UID]
	changes, err := s.Since(podKind, since)
	if !known || err != nil {
		return true
	}
	own, err := s.Since(setKind, since)
	changes = append(changes, own...)
	return err != nil || slices.ContainsFunc(changes, func(e Event) bool {
		return e.Object.GetUID() == set.UID || controlledBy(e.Object, set.UID)
	})
}

// retried reports whether a controller takes a refusal for one that may pass.
func retried(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// see is what the StatefulSet controller goes by.
func (s *Server) see(set *appsv1.StatefulSet) (Set, error) {
	seen := Set{Object: set, Claims: map[string]*corev1.PersistentVolumeClaim{}, Now: s.now().Time}
	pods, err := all[*corev1.Pod](s, podKind)
	for _, pod := range pods {
		if pod.Namespace == set.Namespace && controlledBy(pod, set.UID) {
			seen.Pods = append(seen.Pods, pod)
		}
	}
	claims, more := all[*corev1.PersistentVolumeClaim](s, claimKind)
	for _, claim := range claims {
		if claim.Namespace == set.Namespace {
			seen.Claims[claim.Name] = claim
		}
	}
	revisions, most := all[*appsv1.ControllerRevision](s, revisionKind)
	for _, r := range revisions {
		if r.Namespace == set.Namespace && controlledBy(r, set.UID) {
			seen.Revisions = append(seen.Revisions, r)
		}
	}
	return seen, errors.Join(err, more, most)
}

// carryOut sends a step's writes until one is refused, and then its status.
func (s *Server) carryOut(step Step, set *appsv1.StatefulSet) error {
	for _, w := range step.Writes {
		var err error
		switch w.Verb {
		case Create:
			_, err = s.Create(w.Object)
		case Replace:
			_, err = s.Update(w.Object)
		case Remove:
			err = s.remove(w.Object)
		}
		if err != nil {
			return err
		}
	}
	if step.Status == nil {
		return nil
	}
	set.Status = *step.Status
	_, err := s.UpdateStatus(set)
	return err
}

// remove deletes the very object that was seen, and not another of its name.
func (s *Server) remove(o Object) error {
	sh, err := s.shelfOf(o)
	if err != nil {
		return err
	}
	uid := o.GetUID()
	_, err = s.Delete(sh.kind.GroupVersionKind, keyOf(o), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	return err
}

// claimProtection keeps a claim that a pod on a node uses.
const claimProtection = "kubernetes.io/pvc-protection"

// protectClaims lets go of claims that are being deleted and that nobody uses. A pod
// that is on no node yet uses none.
func (s *Server) protectClaims() error {
	pods, err := all[*corev1.Pod](s, podKind)
	if err != nil {
		return err
	}
	used := map[Key]bool{}
	for _, pod := range pods {
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && pod.Spec.NodeName != "" && !over(pod) {
				used[Key{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}] = true
			}
		}
	}
	claims, err := all[*corev1.PersistentVolumeClaim](s, claimKind)
	for _, claim := range claims {
		if claim.DeletionTimestamp == nil || used[keyOf(claim)] || !slices.Contains(claim.Finalizers, claimProtection) {
			continue
		}
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == claimProtection })
		if _, err := s.Update(claim); err != nil && !retried(err) {
			return err
		}
	}
	return err
}

// collect deletes objects of whose owners none is left.
func (s *Server) collect() error {
	there := map[types.UID]bool{}
	for _, sh := range s.shelves { // order: a set is filled
		for _, o := range sh.objects { // order: as above
			there[o.GetUID()] = true
		}
	}
	for _, gvk := range slices.SortedFunc(maps.Keys(s.shelves), byName) {
		objects, _, err := s.List(gvk, "")
		if err != nil {
			return err
		}
		for _, o := range objects {
			if !ownerless(o, there) {
				continue
			}
			if err := s.remove(o); err != nil && !retried(err) {
				return err
			}
		}
	}
	return nil
}

func byName(a, b schema.GroupVersionKind) int {
	switch {
	case a.String() < b.String():
		return -1
	case a.String() > b.String():
		return 1
	}
	return 0
}

// ownerless reports whether an object had owners, and none of them is there.
func ownerless(o Object, there map[types.UID]bool) bool {
	owners := o.GetOwnerReferences()
	return len(owners) > 0 && o.GetDeletionTimestamp() == nil &&
		!slices.ContainsFunc(owners, func(ref metav1.OwnerReference) bool { return there[ref.UID] })
}
