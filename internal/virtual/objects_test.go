// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ringproof/ringproof/internal/virtual/kubelet"
)

// An API server that is away is asked again; one that answers has the last word.
func TestInsist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []error{syscall.ECONNREFUSED, syscall.ECONNREFUSED, nil}
		began := time.Now()
		require.NoError(t, insist(t.Context(), func() (err error) { err, answers = answers[0], answers[1:]; return err }))
		assert.Equal(t, 2*time.Second, time.Since(began))

		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "r-0", errors.New("another"))
		assert.ErrorIs(t, insist(t.Context(), func() error { return conflict }), conflict)

		late, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		assert.ErrorIs(t, insist(late, func() error { return syscall.ECONNREFUSED }), syscall.ECONNREFUSED)
	})
}

// What a budget refuses is asked for again every five seconds, as kubectl drain does.
func TestEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: "r-0", UID: "a"}}
		api := fake.NewClientset(pod)
		refusals := 2
		api.PrependReactor("create", "pods/eviction", func(clienttesting.Action) (bool, runtime.Object, error) {
			refusals--
			if refusals >= 0 {
				return true, nil, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			}
			return true, nil, nil
		})
		began := time.Now()
		refused, err := evict(t.Context(), api, pod)
		require.NoError(t, err)
		assert.Equal(t, 2, refused)
		assert.Equal(t, 2*evictAgain, time.Since(began))
	})
}

// A finalizer is taken off whatever has it, and no other with it.
func TestFinalizers(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: "data-r-0", Finalizers: []string{"kubernetes.io/pvc-protection"}}}
	api := fake.NewClientset(claim, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: "r-0"}})
	require.NoError(t, claimThing(api, claim).finalize(t.Context(), append(claim.Finalizers, "ringproof.dev/hold")))
	held := func() []string {
		now, err := claimThing(api, claim).get(t.Context())
		require.NoError(t, err)
		return now.GetFinalizers()
	}
	assert.Equal(t, []string{"kubernetes.io/pvc-protection", "ringproof.dev/hold"}, held())
	require.NoError(t, release(t.Context(), api, "ringproof.dev/hold"))
	assert.Equal(t, []string{"kubernetes.io/pvc-protection"}, held())
}

// A pod that runs nowhere, and a part that isn't there, can't be hit.
func TestSignalsOfWhatIsNotThere(t *testing.T) {
	n, _ := aNode(t, kubelet.Running{Namespace: "x", Name: "waits"})
	c := &cluster{lab: n.lab}
	_, err := c.SignalPod("x", "waits", syscall.SIGKILL)
	assert.ErrorContains(t, err, "no container of pod x/waits runs")
	_, err = c.SignalPod("x", "other", syscall.SIGKILL)
	assert.ErrorContains(t, err, "no container of pod x/other runs")
	n.cluster = c
	_, err = n.thing(t.Context(), fake.NewClientset(), "pod")
	assert.ErrorContains(t, err, "no member was on node m1")
}
