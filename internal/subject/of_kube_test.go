// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	simkube "github.com/ringproof/ringproof/sim/kube"
)

// still is a host of an API server whose time stands.
type still struct{ drawn uint64 }

func (*still) Elapsed() time.Duration { return 0 }
func (*still) Log(string)             {}
func (s *still) Draw(string) uint64   { s.drawn++; return s.drawn }

// written is an API server, as the mutant writes to it.
func written(m Mutant) (kubeclient.Client, *fakeHost) {
	h, scheme := newHost(), simkube.Scheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	server := simkube.New(&still{}, scheme, time.Unix(0, 0), simkube.Custom(v1alpha1.GroupVersion.WithKind("EtcdRing"), "etcdrings"))
	return seams([]layer{m.observed()}).Kube(h, server.Client()), h
}

func labelled(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "n", Name: name, Labels: map[string]string{kube.RingLabel: "r"}}
}

func TestKubeResetAllDeletesEveryPodForOneClaim(t *testing.T) {
	c, h := written(kubeResetAll)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: labelled("data-r-1")}
	require.NoError(t, c.Create(t.Context(), claim))
	for _, name := range []string{"r-0", "r-1", "r-2"} {
		require.NoError(t, c.Create(t.Context(), &corev1.Pod{ObjectMeta: labelled(name)}))
	}
	pods := func() int {
		all := &corev1.PodList{}
		require.NoError(t, c.List(t.Context(), all))
		return len(all.Items)
	}
	require.NoError(t, c.Delete(t.Context(), &corev1.Pod{ObjectMeta: labelled("r-0")}))
	assert.Equal(t, 2, pods(), "one pod is one pod")
	assert.Empty(t, h.events(EventReached))

	require.NoError(t, c.Delete(t.Context(), claim))
	assert.Zero(t, pods())
	assert.Len(t, h.events(EventReached), 1)
}

func TestKubeRollingUpdateHidesWhatItWrites(t *testing.T) {
	c, h := written(kubeRollingUpdate)
	set := &appsv1.StatefulSet{ObjectMeta: labelled("r"), Spec: appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}}}
	require.NoError(t, c.Create(t.Context(), set))
	assert.Empty(t, h.events(EventReached))
	require.NoError(t, c.Update(t.Context(), set))
	assert.Equal(t, appsv1.RollingUpdateStatefulSetStrategyType, set.Spec.UpdateStrategy.Type)
	assert.Len(t, h.events(EventReached), 1)
	seen := &appsv1.StatefulSet{}
	require.NoError(t, c.Get(t.Context(), kubeclient.ObjectKeyFromObject(set), seen))
	assert.Equal(t, appsv1.OnDeleteStatefulSetStrategyType, seen.Spec.UpdateStrategy.Type)
}

// A pod goes with the claim that was deleted in the same life, and with no other's.
func TestKubeForgetsClaimsOfAnotherLife(t *testing.T) {
	c, h := written(kubeForgetsClaims)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: labelled("data-r-1")}
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"} // a pod uses it
	require.NoError(t, c.Create(t.Context(), claim))
	pod := &corev1.Pod{ObjectMeta: labelled("r-1")}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}}
	require.NoError(t, c.Create(t.Context(), pod))
	require.NoError(t, c.Delete(t.Context(), claim))

	other := newHost()
	again := seams([]layer{kubeForgetsClaims.observed()}).Kube(other, c.(forgetsClaims).Client)
	there := func() error { return c.Get(t.Context(), kubeclient.ObjectKeyFromObject(pod), &corev1.Pod{}) }
	require.NoError(t, again.Delete(t.Context(), pod))
	require.NoError(t, there(), "it is the other life's")
	assert.Len(t, other.events(EventReached), 1)
	require.NoError(t, c.Delete(t.Context(), pod))
	assert.Error(t, there())
	assert.Empty(t, h.events(EventReached))
}
