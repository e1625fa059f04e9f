// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kubectl

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
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
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
		api.PrependReactor("create", "pods/eviction", func(a clienttesting.Action) (bool, runtime.Object, error) {
			asked := a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
			assert.Nil(t, asked.DeleteOptions, "another pod of the name is meant as well")
			refusals--
			if refusals >= 0 {
				return true, nil, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			}
			return true, nil, nil
		})
		began := time.Now()
		refused, err := Client{api}.evict(t.Context(), pod)
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
	require.NoError(t, Client{api}.Release(t.Context(), "ringproof.dev/hold"))
	assert.Equal(t, []string{"kubernetes.io/pvc-protection"}, held())
}

// What kubectl drain leaves on a node is left there.
func TestStays(t *testing.T) {
	yes := true
	owned := func(kind string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, Controller: &yes}}}}
	}
	assert.True(t, stays(owned("DaemonSet")))
	assert.True(t, stays(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}}))
	assert.False(t, stays(owned("StatefulSet")))
	assert.False(t, stays(&corev1.Pod{}))
}
