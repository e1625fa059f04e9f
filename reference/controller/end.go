// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	runtimereconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
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
		defaults, err := get(ctx, r.Client, &v1alpha1.RingDefaults{}, "", "default")
		if err != nil {
			return err
		}
		if defaults == nil || ptr.Deref(defaults.Spec.FeatureGates.EtcdLauncher, true) {
			next.Spec.Features.EtcdLauncher = ptr.To(true)
		}
	}
	if !next.Spec.Storage.Retain {
		controllerutil.AddFinalizer(next, Finalizer)
	}
	if equality.Semantic.DeepEqual(asked, next) {
		return nil
	}
	if err := r.Client.Update(ctx, next); err != nil {
		return err
	}
	next.DeepCopyInto(asked)
	return nil
}

// end takes a ring that is deleted one step on. All of it is decided on what the API
// server itself says.
func (r *Reconciler) end(ctx context.Context, asked *v1alpha1.EtcdRing) (runtimereconcile.Result, error) {
	name := client.ObjectKeyFromObject(asked)
	if !controllerutil.ContainsFinalizer(asked, Finalizer) {
		r.forget(name)
		return runtimereconcile.Result{}, nil
	}
	s, err := look(ctx, r.Live, asked, r.Image, nil)
	if err != nil {
		return runtimereconcile.Result{}, err
	}
	records, err := kube.Records{Live: r.Live, Namespace: asked.Namespace, Ring: asked.Name}.Objects(ctx)
	if err != nil {
		return runtimereconcile.Result{}, err
	}
	x := r.automation(name)
	x.told.ring = asked
	x.ring.Close() // nobody asks it anything any more
	s.Quiet = x.quiet.count(s.Nodes, r.Host.Now(), false)
	changes, done := ending(s, records, r.ReplaceAfter)
	for _, c := range changes {
		if err := x.log.Act(c.line(), func() error { return c.make(ctx, r.Client) }); err != nil {
			return runtimereconcile.Result{}, fmt.Errorf("%s: %w", c, err)
		}
	}
	if !done {
		return runtimereconcile.Result{RequeueAfter: pace}, nil
	}
	r.forget(name)
	let := asked.DeepCopy()
	controllerutil.RemoveFinalizer(let, Finalizer)
	return runtimereconcile.Result{}, ignored(r.Client.Update(ctx, let), apierrors.IsNotFound)
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
		if slot.Claim != nil {
			left = true
			add(slot.Claim)
		}
	}
	if left {
		return changes, false
	}
	for _, o := range records {
		add(o)
	}
	return changes, len(records) == 0
}
