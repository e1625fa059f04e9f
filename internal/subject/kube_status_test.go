// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
)

func TestKubeDegradedStays(t *testing.T) {
	c, h := written(kubeDegradedStays)
	ringOf(t, c, 3, 3)
	told := func(degraded metav1.ConditionStatus) string {
		ring := &v1alpha1.EtcdRing{}
		require.NoError(t, c.Get(t.Context(), kubeclient.ObjectKey{Namespace: "n", Name: "r"}, ring))
		ring.Status.Conditions = []metav1.Condition{{Type: v1alpha1.Degraded, Status: degraded, Reason: "R", LastTransitionTime: metav1.Now()}}
		require.NoError(t, c.Status().Update(t.Context(), ring))
		require.NoError(t, c.Get(t.Context(), kubeclient.ObjectKey{Namespace: "n", Name: "r"}, ring))
		return string(ring.Status.Conditions[0].Status)
	}
	assert.Equal(t, "False", told(metav1.ConditionFalse))
	assert.Equal(t, "True", told(metav1.ConditionTrue))
	assert.Empty(t, h.events(EventReached))
	assert.Equal(t, "True", told(metav1.ConditionFalse), "nobody hears that it is over")
	assert.Len(t, h.events(EventReached), 1)
}

func TestKubeDropsResources(t *testing.T) {
	c, h := written(kubeDropsResources)
	set := ringOf(t, c, 5, 5)
	assert.Empty(t, h.events(EventReached), "none are asked for")
	set.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("101Mi")}
	require.NoError(t, c.Update(t.Context(), set))
	assert.Empty(t, set.Spec.Template.Spec.Containers[0].Resources.Requests)
	assert.Len(t, h.events(EventReached), 1)
}

func TestKubeReadyWhileItLives(t *testing.T) {
	c, h := written(kubeReadyWhileItLives)
	container := ringOf(t, c, 5, 5).Spec.Template.Spec.Containers[0]
	assert.Equal(t, container.LivenessProbe.ProbeHandler, container.ReadinessProbe.ProbeHandler)
	assert.NotEmpty(t, h.events(EventReached))
}

func TestKubeBesideAnother(t *testing.T) {
	c, h := written(kubeBesideAnother)
	set := ringOf(t, c, 5, 5)
	assert.Empty(t, h.events(EventReached), "there is nothing to leave out")
	set.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
	require.NoError(t, c.Update(t.Context(), set))
	assert.Nil(t, set.Spec.Template.Spec.Affinity)
	assert.Len(t, h.events(EventReached), 1)
}
