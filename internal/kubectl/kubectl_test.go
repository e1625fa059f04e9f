// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kubectl

import (
	"context"
	"errors"
	"fmt"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ringproof/ringproof"
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

// Each pod is asked for at once, and what a budget refuses again every five seconds, as kubectl
// drain does: one that nobody ends keeps no other waiting.
func TestEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: "r-0", UID: "a"}}
		hangs := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: "r-1", UID: "b"}}
		api := fake.NewClientset(&refused, &hangs)
		began, refusals, asked := time.Now(), 2, []string{}
		api.PrependReactor("create", "pods/eviction", func(a clienttesting.Action) (bool, runtime.Object, error) {
			o := a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
			assert.Nil(t, o.DeleteOptions, "another pod of the name is meant as well")
			asked = append(asked, fmt.Sprintf("%s after %s", o.Name, time.Since(began)))
			if o.Name == "r-0" && refusals > 0 {
				refusals--
				return true, nil, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			}
			go func() {
				time.Sleep(time.Minute)
				assert.NoError(t, api.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "rings", o.Name))
			}()
			return true, nil, nil
		})
		said, err := Client{Interface: api}.evict(t.Context(), []corev1.Pod{hangs, refused})
		require.NoError(t, err)
		assert.Equal(t, []string{"r-1 after 0s", "r-0 after 0s", "r-0 after 5s", "r-0 after 10s"}, asked)
		assert.Equal(t, []string{"pod rings/r-1, refused 0 times before", "pod rings/r-0, refused 2 times before"}, said)
		assert.Equal(t, time.Minute+2*evictAgain, time.Since(began).Truncate(time.Second))
	})
}

// A pod whose deadline is put before now is evicted once its kubelet has told that it is Failed;
// one that is another by then was gone before.
func TestDeleteEvicted(t *testing.T) {
	for name, becomes := range map[string]corev1.Pod{
		"failed":  {ObjectMeta: metav1.ObjectMeta{UID: "a"}, Status: corev1.PodStatus{Phase: corev1.PodFailed}},
		"another": {ObjectMeta: metav1.ObjectMeta{UID: "b"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: "r-0", UID: "a"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
				becomes.Namespace, becomes.Name = pod.Namespace, pod.Name
				api := fake.NewClientset(&pod)
				began, resource := time.Now(), corev1.SchemeGroupVersion.WithResource("pods")
				go func() {
					time.Sleep(5 * time.Second)
					now, err := api.Tracker().Get(resource, pod.Namespace, pod.Name)
					if assert.NoError(t, err) {
						assert.EqualValues(t, 1, *now.(*corev1.Pod).Spec.ActiveDeadlineSeconds)
						assert.NoError(t, api.Tracker().Update(resource, &becomes, pod.Namespace))
					}
				}()
				e, err := Client{Interface: api}.Delete(t.Context(), Member{Namespace: "rings", Name: "r-0"}, ringproof.ObjectPod, ringproof.Evicted)
				require.NoError(t, err)
				assert.Equal(t, "evicted by its kubelet, uid a", e.Detail)
				assert.Equal(t, 5*time.Second, time.Since(began).Round(time.Second))
			})
		})
	}
}

// What is being deleted is told by name and UID; whose pod uses no claim has none, and that is
// said at once.
func TestEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uses := func(name, claim string) *corev1.Pod {
			source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: name}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: source}}}}
		}
		has := func(name, uid, volume string, ends *metav1.Time) *corev1.PersistentVolumeClaim {
			return &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: name, UID: types.UID(uid), DeletionTimestamp: ends, Finalizers: []string{"kubernetes.io/pvc-protection"}},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume},
			}
		}
		now := metav1.Now()
		api := Client{Interface: fake.NewClientset(
			uses("r-0", "data-r-0"), has("data-r-0", "a", "pv-0", nil), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-0"}},
			uses("r-1", "data-r-1"), has("data-r-1", "b", "pv-1", &now), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: "r-2"}},
		)}
		for name, want := range map[string][]ringproof.Object{"r-0": nil, "r-1": {{Name: "pvc rings/data-r-1", UID: "b"}}} {
			claim, ending, err := api.Ending(t.Context(), Member{Namespace: "rings", Name: name})
			require.NoError(t, err)
			assert.Equal(t, "pvc rings/data-"+name, claim)
			assert.Equal(t, want, ending)
		}
		began := time.Now()
		claim, ending, err := api.Ending(t.Context(), Member{Namespace: "rings", Name: "r-2"})
		require.NoError(t, err)
		assert.Empty(t, claim)
		assert.Empty(t, ending)
		assert.Zero(t, time.Since(began))
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
	require.NoError(t, Client{Interface: api}.Release(t.Context(), "ringproof.dev/hold"))
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
