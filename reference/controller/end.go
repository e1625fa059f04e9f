// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	runtimereconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/store"
)

// Finalizer holds a ring that is deleted until its claims and then its records are gone.
// The records go last: without them, and with a log on a disk that is left, nobody could
// tell whose it is. A ring that retains its storage keeps both, and has no finalizer:
// made anew under its name it goes on.
const Finalizer = "etcd.ringproof.dev/storage"

// settle writes down what a ring is, before anything is made of it: that it has the
// launcher, where the defaults say so and it says nothing itself, which no later change
// of the defaults takes back; and that it is held when it is deleted.
func (r *Reconciler) settle(ctx context.Context, asked *v1alpha1.EtcdRing) error {
	next := asked.DeepCopy()
	if next.Spec.Features.EtcdLauncher == nil {
		on, err := r.launches(ctx, asked)
		if err != nil {
			return err
		}
		if on {
			next.Spec.Features.EtcdLauncher = ptr.To(true)
		}
	}
	if !next.Spec.Storage.Retain {
		controllerutil.AddFinalizer(next, Finalizer)
	}
	if equality.Semantic.DeepEqual(asked, next) {
		return nil
	}
	return r.amend(ctx, asked, next)
}

// amend has an EtcdRing say what is new in next, if it is still as it was seen. An update of the
// whole leaves out what this release's type hasn't got: a controller that was taken back to the
// release before would have taken a ring out of its pause.
func (r *Reconciler) amend(ctx context.Context, asked, next *v1alpha1.EtcdRing) error {
	patch := client.MergeFromWithOptions(asked.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, next, patch); err != nil {
		return err
	}
	next.DeepCopyInto(asked)
	return nil
}

// launches reports whether a ring that doesn't say so itself is to have launchers: by the defaults,
// or, where there are none, because it is new. One that has them keeps them. A ring that is there
// stays as it is as long as nobody says otherwise: defaults that are replaced are gone for a moment,
// in which all rings without launchers would be given some, for good. For the same reason the API
// server itself is asked: a ring that is applied together with the defaults may be seen before them.
func (r *Reconciler) launches(ctx context.Context, asked *v1alpha1.EtcdRing) (bool, error) {
	set, err := get(ctx, r.Live, &appsv1.StatefulSet{}, asked.Namespace, namesOf(asked).Set())
	fresh := set == nil || !ours(asked, set)
	if err != nil || !fresh && hasLauncher(set.Spec.Template.Spec) {
		return err == nil, err // it has them, and somebody has taken out of the spec that it does
	}
	// Nor is one new that was bootstrapped, and whose set somebody has deleted.
	if identity, bootstrapped, err := r.identity(ctx, asked); err != nil || bootstrapped && !identity.Static {
		return err == nil, err
	} else if bootstrapped {
		fresh = false
	}
	var all v1alpha1.RingDefaultsList
	if err := r.Live.List(ctx, &all); err != nil {
		return false, err
	}
	for _, defaults := range all.Items { // one at most, by a rule of the CRD
		return ptr.Deref(defaults.Spec.FeatureGates.EtcdLauncher, true), nil
	}
	return fresh, nil
}

// identity is how the ring was bootstrapped, as its records have it; bootstrapped: it was.
func (r *Reconciler) identity(ctx context.Context, asked *v1alpha1.EtcdRing) (how store.Identity, bootstrapped bool, err error) {
	records := kube.Records{Live: r.Live, Namespace: asked.Namespace, Ring: asked.Name}
	return store.Log[store.Identity]{Store: records, Prefix: kube.IdentityPrefix}.First(ctx)
}

// end takes a ring that is deleted one step on. All of it is decided on what the API
// server itself says.
func (r *Reconciler) end(ctx context.Context, asked *v1alpha1.EtcdRing) (runtimereconcile.Result, error) {
	name := client.ObjectKeyFromObject(asked)
	if !controllerutil.ContainsFinalizer(asked, Finalizer) {
		r.forget(name)
		return runtimereconcile.Result{}, nil
	}
	if controllerutil.ContainsFinalizer(asked, metav1.FinalizerOrphanDependents) {
		return runtimereconcile.Result{}, r.let(ctx, asked) // what it has made is to stay (kubectl delete --cascade=orphan)
	}
	s, err := look(ctx, r.Live, Seen{Ring: asked, Image: r.Image})
	if err != nil {
		return runtimereconcile.Result{}, err
	}
	records, err := kube.Records{Live: r.Live, Namespace: asked.Namespace, Ring: asked.Name}.Objects(ctx)
	if err != nil {
		return runtimereconcile.Result{}, err
	}
	x := r.automation(asked)
	x.ring.Close() // nobody asks it anything any more
	s.Quiet = x.quiet.count(s.away(), r.Host.Monotonic(), false)
	changes, done := ending(s, records, r.ReplaceAfter)
	for _, c := range changes {
		if err := x.log.Act(c.line(), func() error { return c.make(ctx, r.Client) }); err != nil {
			return runtimereconcile.Result{}, fmt.Errorf("%s: %w", c, err)
		}
	}
	if !done {
		err := r.tell(ctx, asked, outcome{ends: true, wait: "the ring is deleted, and waits for " + s.left(len(records))})
		return runtimereconcile.Result{RequeueAfter: pace}, ignored(err, apierrors.IsConflict)
	}
	return runtimereconcile.Result{}, r.let(ctx, asked)
}

// let has the EtcdRing go.
func (r *Reconciler) let(ctx context.Context, asked *v1alpha1.EtcdRing) error {
	r.forget(client.ObjectKeyFromObject(asked))
	let := asked.DeepCopy()
	controllerutil.RemoveFinalizer(let, Finalizer)
	return ignored(r.amend(ctx, asked, let), apierrors.IsNotFound)
}

// left says what there is of a ring that is deleted.
func (s Seen) left(records int) string {
	var all []string
	if s.Set != nil {
		all = append(all, "statefulset "+s.Set.Name)
	}
	for _, slot := range s.Slots {
		if slot.Pod != nil {
			all = append(all, "pod "+slot.Name)
		}
		if s.has(slot.Claim) {
			all = append(all, "claim "+slot.Claim.Name)
		}
	}
	for _, claim := range s.Beyond {
		all = append(all, "claim "+claim.Name)
	}
	return cmp.Or(strings.Join(all, ", "), fmt.Sprintf("%d records", records))
}

// has reports whether a slot's claim goes with the ring: it is one that its set has made. A pod takes
// the claim of its name, whoever made it, and what was on it before the ring is no matter of the
// ring's: of a StatefulSet that had the name first all data were lost with a ring that never began.
func (s Seen) has(claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && claim.Labels[kube.RingLabel] == s.Ring.Name
}

// ending is what of a ring that is deleted may go next: the set, so that it makes no pods;
// pods, so that nothing runs on the claims; the claims; the records. done: nothing is
// left. It is pure.
func ending(s Seen, records []client.Object, patience time.Duration) (changes []Change, done bool) {
	const why = "the ring is deleted"
	add := func(o client.Object) {
		if o.GetDeletionTimestamp() == nil {
			changes = append(changes, deletion(o, why))
		}
	}
	if released := s.released(); released != nil {
		return append(changes, update(released, why)), false
	}
	if s.Set != nil {
		add(s.Set)
		return changes, false
	}
	left := false
	for _, slot := range s.Slots {
		if slot.Pod == nil {
			continue
		}
		left = true
		if name := slot.Pod.Spec.NodeName; name != "" && s.gone(name, patience) {
			force := deletion(slot.Pod, why+", and its node is gone")
			force.Force = true
			changes = append(changes, force)
			continue
		}
		add(slot.Pod)
	}
	if left {
		return changes, false
	}
	for _, slot := range s.Slots {
		if s.has(slot.Claim) {
			left = true
			add(slot.Claim)
		}
	}
	for _, claim := range s.Beyond {
		left = true
		add(claim)
	}
	if left {
		return changes, false
	}
	for _, o := range records {
		add(o)
	}
	return changes, len(records) == 0
}
