// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package controller makes EtcdClusters what is asked of them.
//
// A member's claim is the record of it: it is made after the member was added, and deleted
// after it was removed. Whatever claim there is has a pod.
package controller

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	etcdv1 "example.com/etcd-operator/api/v1"
)

// EtcdClusterReconciler reconciles EtcdClusters.
type EtcdClusterReconciler struct {
	client.Client
	Etcd Etcd

	// ShrinkFirst is a mistake that is easily made: pods go first, as if a StatefulSet were
	// scaled down, and their members are removed after.
	ShrinkFirst bool

	// InMemory is another, which shows only where the operator dies at the wrong moment: a
	// member's claim is made before the member is added, and that it is still to be added is
	// known to the process alone.
	InMemory bool

	adding map[string]int // by the cluster's UID, the ordinal of the member that is still to be added
}

// soon is when a cluster is looked at again that isn't as it should be.
const soon = 2 * time.Second

// +kubebuilder:rbac:groups=etcd.example.com,resources=etcdclusters,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=etcd.example.com,resources=etcdclusters/status,verbs=update
// +kubebuilder:rbac:groups=etcd.example.com,resources=etcdclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims;services,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create

// Reconcile makes the next change, if there is one.
func (r *EtcdClusterReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	c := &etcdv1.EtcdCluster{}
	if err := r.Get(ctx, req.NamespacedName, c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if c.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // all that it owns goes with it
	}
	for _, o := range []client.Object{service(c), budget(c)} {
		if err := r.make(ctx, c, o); err != nil {
			return ctrl.Result{}, err
		}
	}
	if done, err := r.found(ctx, c); !done || err != nil {
		return ctrl.Result{RequeueAfter: soon}, err
	}
	claims, err := r.claims(ctx, c)
	if err != nil {
		return ctrl.Result{}, err
	}
	for ordinal, of := range claims {
		if err := r.run(ctx, c, of, ordinal); err != nil {
			return ctrl.Result{}, err
		}
	}
	settled, err := r.step(ctx, c, claims)
	if err != nil || settled {
		return ctrl.Result{RequeueAfter: 5 * soon}, err
	}
	return ctrl.Result{RequeueAfter: soon}, nil
}

// What a cluster was founded as is on its object, and not in its status, which whoever makes
// the object anew leaves out.
const (
	annotationFounders = "etcd.example.com/founders" // how many; it is written before the first is made
	annotationFounded  = "etcd.example.com/founded"  // the cluster has answered: it is never founded again
)

func (r *EtcdClusterReconciler) note(ctx context.Context, c *etcdv1.EtcdCluster, name, value string) error {
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, name, value)
	return r.Update(ctx, c)
}

// found founds the cluster once; done: all its claims have been made.
func (r *EtcdClusterReconciler) found(ctx context.Context, c *etcdv1.EtcdCluster) (done bool, err error) {
	founders, before := c.Annotations[annotationFounders]
	switch {
	case c.Annotations[annotationFounded] != "":
		return true, nil
	case !before:
		return false, r.note(ctx, c, annotationFounders, strconv.Itoa(int(c.Spec.Size)))
	}
	n, err := strconv.Atoi(founders)
	if err != nil {
		return false, fmt.Errorf("annotation %s: %w", annotationFounders, err)
	}
	var all []int
	for o := range n {
		all = append(all, o)
	}
	for _, o := range all {
		if err := r.make(ctx, c, claim(c, o, all, "new")); err != nil {
			return false, err
		}
	}
	return true, nil
}

// claims are those of the cluster that are to stay, by ordinal.
func (r *EtcdClusterReconciler) claims(ctx context.Context, c *etcdv1.EtcdCluster) (map[int]*corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	if err := r.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels(labelled(c))); err != nil {
		return nil, err
	}
	all := map[int]*corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		of := &list.Items[i]
		ordinal, err := strconv.Atoi(of.Labels[labelOrdinal])
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", of.Name, err)
		}
		if of.DeletionTimestamp == nil {
			all[ordinal] = of
		}
	}
	return all, nil
}

// run has a claim's pod, unless another is still there. One that has ended for good, as its
// kubelet has evicted it, is deleted first: nobody else does that.
func (r *EtcdClusterReconciler) run(ctx context.Context, c *etcdv1.EtcdCluster, of *corev1.PersistentVolumeClaim, ordinal int) error {
	wanted, there := pod(c, of, ordinal), &corev1.Pod{}
	err := r.Get(ctx, client.ObjectKeyFromObject(wanted), there)
	over := there.Status.Phase == corev1.PodFailed || there.Status.Phase == corev1.PodSucceeded
	if err == nil && over && there.DeletionTimestamp == nil {
		log.FromContext(ctx).Info("deleting a pod that has ended", "name", there.Name, "reason", there.Status.Reason)
		return client.IgnoreNotFound(r.Delete(ctx, there, client.Preconditions{UID: &there.UID}))
	}
	return r.make(ctx, c, wanted)
}

// make creates an object that isn't there.
func (r *EtcdClusterReconciler) make(ctx context.Context, c *etcdv1.EtcdCluster, o client.Object) error {
	there := o.DeepCopyObject().(client.Object)
	if err := r.Get(ctx, client.ObjectKeyFromObject(o), there); !apierrors.IsNotFound(err) {
		return err
	}
	if err := controllerutil.SetControllerReference(c, o, r.Scheme()); err != nil {
		return err
	}
	log.FromContext(ctx).Info("creating", "kind", fmt.Sprintf("%T", o), "name", o.GetName())
	return client.IgnoreAlreadyExists(r.Create(ctx, o))
}

// step makes one change of the membership, if one is due; settled: none was.
func (r *EtcdClusterReconciler) step(ctx context.Context, c *etcdv1.EtcdCluster, claims map[int]*corev1.PersistentVolumeClaim) (settled bool, err error) {
	var hosts []string
	for ordinal := range claims {
		hosts = append(hosts, host(c, ordinal))
	}
	slices.Sort(hosts)
	etcd, err := r.Etcd.open(hosts)
	if err != nil {
		return false, err
	}
	defer etcd.Close()
	now, err := r.Etcd.look(ctx, etcd)
	if err != nil {
		log.FromContext(ctx).Info("waiting: the cluster doesn't answer", "why", err.Error())
		return false, nil
	}
	if c.Annotations[annotationFounded] == "" {
		return false, r.note(ctx, c, annotationFounded, "true")
	}
	if int(c.Status.Members) != len(now.members) {
		c.Status.Members = int32(len(now.members))
		return false, r.Status().Update(ctx, c)
	}
	if done, err := r.tidy(ctx, c, claims, now); done || err != nil {
		return false, err
	}
	change := change{r, c, now, hosts}
	switch surplus := len(now.members) - int(c.Spec.Size); {
	case surplus > 0 && r.ShrinkFirst:
		return false, change.shrinkFirst(ctx, etcd, claims, surplus)
	case slices.ContainsFunc(now.members, func(m member) bool { return m.learner }):
		return false, change.promote(ctx, etcd)
	case !now.whole():
		log.FromContext(ctx).Info("waiting: not every member serves", "serving", now.serving, "members", len(now.members))
		return false, nil
	case surplus < 0 && r.InMemory:
		return false, change.growFromMemory(ctx, etcd, claims)
	case surplus < 0:
		return false, change.grow(ctx, etcd)
	case surplus > 0:
		return false, change.shrink(ctx, etcd)
	}
	return true, nil
}

// tidy finishes what was begun: a member that was added gets its claim, and the claim of
// one that was removed goes with its pod. One that was started and has no claim has lost
// its data: nobody but a person replaces it.
func (r *EtcdClusterReconciler) tidy(ctx context.Context, c *etcdv1.EtcdCluster, claims map[int]*corev1.PersistentVolumeClaim, now membership) (done bool, err error) {
	var ordinals []int
	for _, m := range now.members {
		ordinals = append(ordinals, m.ordinal)
	}
	for _, m := range now.members {
		if claims[m.ordinal] == nil && !m.started {
			return true, r.make(ctx, c, claim(c, m.ordinal, ordinals, "existing"))
		}
	}
	for ordinal, of := range claims {
		if !now.has(ordinal) && (!r.InMemory || len(now.members) >= int(c.Spec.Size)) {
			return true, r.discard(ctx, of)
		}
	}
	return false, nil
}

// discard deletes a claim and its pod.
func (r *EtcdClusterReconciler) discard(ctx context.Context, of *corev1.PersistentVolumeClaim) error {
	log.FromContext(ctx).Info("discarding", "member", of.Name)
	p := &corev1.Pod{}
	p.Namespace, p.Name = of.Namespace, of.Name
	if err := client.IgnoreNotFound(r.Delete(ctx, p)); err != nil {
		return err
	}
	return client.IgnoreNotFound(r.Delete(ctx, of, client.Preconditions{UID: &of.UID}))
}

// SetupWith has the reconciler called.
func (r *EtcdClusterReconciler) SetupWith(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&etcdv1.EtcdCluster{}).Owns(&corev1.Pod{}).Owns(&corev1.PersistentVolumeClaim{}).
		Owns(&corev1.Service{}).Owns(&policyv1.PodDisruptionBudget{}).Named("etcdcluster").Complete(r)
}
