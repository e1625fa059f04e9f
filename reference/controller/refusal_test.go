// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
)

// refusing is an API server that refuses some writes, for a reason of its own.
type refusing struct {
	client.Client
	why     func(client.Object) error
	refused int
}

func (r *refusing) judge(o client.Object) error {
	err := r.why(o)
	if err != nil {
		r.refused++
	}
	return err
}

func (r *refusing) Create(ctx context.Context, o client.Object, how ...client.CreateOption) error {
	if err := r.judge(o); err != nil {
		return err
	}
	return r.Client.Create(ctx, o, how...)
}

func (r *refusing) Update(ctx context.Context, o client.Object, how ...client.UpdateOption) error {
	if err := r.judge(o); err != nil {
		return err
	}
	return r.Client.Update(ctx, o, how...)
}

// closed has a webhook that nobody answers, which is to be asked of some kinds.
func closed(c client.Client, to func(client.Object) bool) *refusing {
	return &refusing{Client: c, why: func(o client.Object) error {
		if !to(o) {
			return nil
		}
		return apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.org": connection refused`))
	}}
}

// picky refuses sets of pods that ask for a resource that is none, as the API server does.
func picky(c client.Client) *refusing {
	return &refusing{Client: c, why: func(o client.Object) error {
		if set, is := o.(*appsv1.StatefulSet); is {
			if _, asks := set.Spec.Template.Spec.Containers[0].Resources.Requests["nonsense"]; asks {
				return apierrors.NewInvalid(set.GroupVersionKind().GroupKind(), set.Name, nil)
			}
		}
		return nil
	}}
}

// TestWhatIsRefusedStopsNothing: a webhook takes no Service, Role, budget, Secret or StatefulSet. The ring
// goes on, which here is that it is asked who is in it; what was refused is told, and asked for again.
func TestWhatIsRefusedStopsNothing(t *testing.T) {
	for name, to := range map[string]func(client.Object) bool{
		"service":     func(o client.Object) bool { _, is := o.(*corev1.Service); return is },
		"role":        func(o client.Object) bool { _, is := o.(*rbacv1.Role); return is },
		"budget":      func(o client.Object) bool { _, is := o.(*policyv1.PodDisruptionBudget); return is },
		"secret":      func(o client.Object) bool { _, is := o.(*corev1.Secret); return is },
		"statefulset": func(o client.Object) bool { _, is := o.(*appsv1.StatefulSet); return is },
	} {
		t.Run(name, func(t *testing.T) {
			c := bootstrapped(t)
			for _, o := range []client.Object{&corev1.Service{}, &rbacv1.Role{}, &policyv1.PodDisruptionBudget{}} {
				o.SetNamespace("n")
				o.SetName("r")
				require.NoError(t, c.Delete(t.Context(), o))
			}
			require.NoError(t, c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r-1-tls"}}))
			set := c.set()
			set.Spec.Template.Spec.Containers[0].Image = "etcd:v3.4.0"
			require.NoError(t, c.Update(t.Context(), set))
			api := closed(c.Client, to)
			c.reconciler.Client = api
			x := c.reconciler.automation(c.reconcile())
			x.certified = certified{}
			r := c.reconcile()

			assert.Contains(t, conditionOf(t, r, v1alpha1.Available).Message, "the ring can't be read", "the turn ended before")
			degraded := conditionOf(t, r, v1alpha1.Degraded)
			assert.Equal(t, metav1.ConditionTrue, degraded.Status)
			assert.Contains(t, degraded.Message, "failed calling webhook")
			assert.Equal(t, 1, api.refused, "it is asked for with each look")
			api.why = func(client.Object) error { return nil }
			for at, of := range x.refusals { // order: each is by itself
				of.again = 0
				x.refusals[at] = of
			}
			r = c.reconcile()
			assert.NotContains(t, conditionOf(t, r, v1alpha1.Degraded).Message, "failed calling webhook")
			assert.Empty(t, x.refusals)
		})
	}
}

// TestARingThatBeginsNeedsAllThatItAsksFor: no pods are made without an account.
func TestARingThatBeginsNeedsAllThatItAsksFor(t *testing.T) {
	c := newCluster(t)
	c.reconciler.Client = closed(c.Client, func(o client.Object) bool { _, is := o.(*corev1.ServiceAccount); return is })
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	assert.Contains(t, conditionOf(t, c.reconcile(), v1alpha1.Degraded).Message, "failed calling webhook")
	sets := &appsv1.StatefulSetList{}
	require.NoError(t, c.List(t.Context(), sets))
	assert.Empty(t, sets.Items)
}

// TestWhatIsRefusedIsAskedForEverLater, and at once where something else is asked for.
func TestWhatIsRefusedIsAskedForEverLater(t *testing.T) {
	r, why := refusals{}, apierrors.NewForbidden(corev1.Resource("services"), "r", errors.New("exceeded quota"))
	c := update(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "r", ResourceVersion: "1"}}, "")
	asked, now := []time.Duration{}, time.Duration(0)
	for ; now < 4*time.Minute; now += time.Second {
		if r.standing(c, now) == nil {
			asked = append(asked, now/time.Second)
			r.note(c, why, now)
		}
	}
	assert.Equal(t, []time.Duration{0, 5, 15, 35, 75, 135, 195}, asked)
	assert.Greater(t, r.lasts(c, now), mostPause)
	c.Object.SetResourceVersion("2")
	require.Error(t, r.standing(c, now), "somebody has written something else of it")
	c.Object.SetLabels(map[string]string{"a": "b"})
	require.NoError(t, r.standing(c, now))
	before := r.lasts(c, now)
	r.note(c, why, now)
	assert.Equal(t, before, r.lasts(c, now), "it has been refused all the while, whatever it was to say")
	r.note(c, nil, now)
	assert.Empty(t, r)
	r.note(c, apierrors.NewConflict(corev1.Resource("services"), "r", errors.New("modified")), now)
	r.note(c, errors.New("connection refused"), now)
	assert.Empty(t, r, "the API server said nothing of what was asked for")
}

// TestABudgetIsWaitedFor: an eviction that the former would grant is seen before the ring's next change;
// but where none can be had a lost member is replaced.
func TestABudgetIsWaitedFor(t *testing.T) {
	c := bootstrapped(t)
	x := c.reconciler.automation(c.reconcile())
	change := update(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "r"}}, "")
	why := apierrors.NewInternalError(errors.New("failed calling webhook"))
	x.ground.rebudgets = true
	x.refusals.note(change, why, x.host.Monotonic())
	require.True(t, aside(x.putAsideOf(change, why)))
	assert.True(t, x.ground.rebudgets)
	x.refusals.note(change, nil, 0)
	x.refusals.note(change, why, x.host.Monotonic()-2*mostPause)
	require.True(t, aside(x.putAsideOf(change, why)))
	assert.False(t, x.ground.rebudgets)
}

// TestASecretOfSomebodyElsesStopsNothing: the slot of a ring that is grown has no certificates, and
// whatever else is to be done for the ring is.
func TestASecretOfSomebodyElsesStopsNothing(t *testing.T) {
	c := bootstrapped(t)
	require.NoError(t, c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r-3-tls"}}))
	c.edit(func(r *v1alpha1.EtcdRing) { r.Spec.ClusterSize = 5 })
	r := c.reconcile()
	assert.EqualValues(t, 5, *c.set().Spec.Replicas)
	assert.Contains(t, conditionOf(t, r, v1alpha1.Degraded).Message, "secret r-3-tls there is, and is not of this ring")
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "r-4-tls"}, &corev1.Secret{}))
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "r-3-tls"}, secret))
	assert.Empty(t, secret.Data)
}
