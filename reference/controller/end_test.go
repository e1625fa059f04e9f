// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
)

// later is an API server of a later release, which has a field in the spec of an EtcdRing that the
// controller's type has not. What is stored of the ring is in stored, as JSON.
type later struct {
	client.Client
	t      *testing.T
	stored []byte
}

func (l *later) Update(ctx context.Context, o client.Object, how ...client.UpdateOption) error {
	if r, is := o.(*v1alpha1.EtcdRing); is {
		l.stored = asJSON(l.t, r)
	}
	return l.Client.Update(ctx, o, how...)
}

func (l *later) Patch(ctx context.Context, o client.Object, p client.Patch, how ...client.PatchOption) error {
	if _, is := o.(*v1alpha1.EtcdRing); is {
		text, err := p.Data(o)
		require.NoError(l.t, err)
		l.stored, err = jsonpatch.MergePatch(l.stored, text)
		require.NoError(l.t, err)
	}
	return l.Client.Patch(ctx, o, p, how...)
}

func asJSON(t *testing.T, o any) []byte {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	return text
}

// TestWhatIsNotKnownIsLeft: a controller that was taken back to the release before writes into a ring
// what it means, and nothing else: what it hasn't heard of stays as it was asked for.
func TestWhatIsNotKnownIsLeft(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	r := &v1alpha1.EtcdRing{}
	require.NoError(t, c.Get(t.Context(), request().NamespacedName, r))
	server := &later{Client: c.Client, t: t, stored: asJSON(t, r)}
	var err error
	server.stored, err = jsonpatch.MergePatch(server.stored, []byte(`{"spec":{"features":{"hibernates":true},"weekends":"off"},"metadata":{"annotations":{"a":"b"}}}`))
	require.NoError(t, err)
	c.reconciler.Client = server

	settled := c.reconcile()
	require.Equal(t, ptr.To(true), settled.Spec.Features.EtcdLauncher)
	require.Equal(t, []string{Finalizer}, settled.Finalizers)
	left := func() (spec map[string]any) {
		var o struct{ Spec map[string]any }
		require.NoError(t, json.Unmarshal(server.stored, &o))
		return o.Spec
	}
	assert.Equal(t, "off", left()["weekends"])
	assert.Equal(t, map[string]any{"hibernates": true, "etcdLauncher": true}, left()["features"])

	require.NoError(t, c.reconciler.let(t.Context(), settled))
	assert.Equal(t, "off", left()["weekends"])
}

// TestARingIsAmendedAsItWasSeen: by one that was read before an edit nothing is written.
func TestARingIsAmendedAsItWasSeen(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	seen := c.reconcile()
	c.edit(func(r *v1alpha1.EtcdRing) { r.Finalizers = append(r.Finalizers, "example.org/held") })
	require.Error(t, c.reconciler.let(t.Context(), seen), "what somebody else holds the ring by would be gone")
	assert.Contains(t, c.reconcile().Finalizers, "example.org/held")
}
