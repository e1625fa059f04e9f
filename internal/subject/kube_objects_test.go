// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
)

// ringOf makes a ring of so many, of whose members so many were seen, and its set of five.
func ringOf(t *testing.T, c kubeclient.Client, size, voters int32) *appsv1.StatefulSet {
	ring := &v1alpha1.EtcdRing{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}, Spec: v1alpha1.EtcdRingSpec{ClusterSize: size}}
	ring.Status.Voters = voters
	require.NoError(t, c.Create(t.Context(), ring))
	probe := func() *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"probe"}}}}
	}
	set := &appsv1.StatefulSet{ObjectMeta: labelled("r"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](5)}}
	set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "etcd.ringproof.dev/v1alpha1", Kind: "EtcdRing", Name: "r", UID: "1"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "etcd", LivenessProbe: probe(), ReadinessProbe: probe()}}
	require.NoError(t, c.Create(t.Context(), set))
	return set
}

func TestKubeNamesWhenReadyAsksForAQuorumFirst(t *testing.T) {
	c, h := written(kubeNamesWhenReady)
	set := ringOf(t, c, 5, 5)
	assert.Equal(t, withQuorum, set.Spec.Template.Spec.Containers[0].ReadinessProbe.Exec.Command)
	service := &corev1.Service{ObjectMeta: labelled("r"), Spec: corev1.ServiceSpec{PublishNotReadyAddresses: true}}
	require.NoError(t, c.Create(t.Context(), service))
	assert.False(t, service.Spec.PublishNotReadyAddresses)
	assert.NotEmpty(t, h.events(EventReached))
}

func TestKubeLiveNeedsQuorum(t *testing.T) {
	c, _ := written(kubeLiveNeedsQuorum)
	container := ringOf(t, c, 5, 5).Spec.Template.Spec.Containers[0]
	assert.Equal(t, withQuorum, container.LivenessProbe.Exec.Command)
	assert.Equal(t, []string{"probe"}, container.ReadinessProbe.Exec.Command)
}

func TestKubeSetFollowsList(t *testing.T) {
	c, h := written(kubeSetFollowsList)
	set := ringOf(t, c, 7, 5)
	require.NoError(t, c.Update(t.Context(), set))
	assert.Empty(t, h.events(EventReached), "there are five of each")
	set.Spec.Replicas = ptr.To[int32](7)
	require.NoError(t, c.Update(t.Context(), set))
	assert.EqualValues(t, 5, *set.Spec.Replicas)
	assert.Len(t, h.events(EventReached), 1)
}

func TestKubeShrinksSetFirst(t *testing.T) {
	c, h := written(kubeShrinksSetFirst)
	set := ringOf(t, c, 3, 5)
	require.NoError(t, c.Get(t.Context(), kubeclient.ObjectKeyFromObject(set), set))
	assert.EqualValues(t, 3, *set.Spec.Replicas)
	assert.Len(t, h.events(EventReached), 1)
	set.Spec.Replicas = ptr.To[int32](5)
	require.NoError(t, c.Update(t.Context(), set))
	assert.EqualValues(t, 3, *set.Spec.Replicas)
}

func TestKubeStatusFrozen(t *testing.T) {
	c, h := written(kubeStatusFrozen)
	ringOf(t, c, 3, 3)
	told := func(available metav1.ConditionStatus) string {
		ring := &v1alpha1.EtcdRing{}
		require.NoError(t, c.Get(t.Context(), kubeclient.ObjectKey{Namespace: "n", Name: "r"}, ring))
		ring.Status.ClusterID = "1"
		ring.Status.Conditions = []metav1.Condition{{Type: v1alpha1.Available, Status: available, Reason: "R", LastTransitionTime: metav1.Now()}}
		require.NoError(t, c.Status().Update(t.Context(), ring))
		require.NoError(t, c.Get(t.Context(), kubeclient.ObjectKey{Namespace: "n", Name: "r"}, ring))
		return string(ring.Status.Conditions[0].Status)
	}
	assert.Equal(t, "True", told(metav1.ConditionTrue))
	assert.Empty(t, h.events(EventReached))
	assert.Equal(t, "True", told(metav1.ConditionFalse), "nobody hears of it")
	assert.Len(t, h.events(EventReached), 1)
}

func TestKubeSetByStatus(t *testing.T) {
	c, h := written(kubeSetByStatus)
	set := ringOf(t, c, 5, 0)
	get := func() int32 {
		require.NoError(t, c.Get(t.Context(), kubeclient.ObjectKeyFromObject(set), set))
		return *set.Spec.Replicas
	}
	assert.EqualValues(t, 5, get(), "its pods are not there yet")
	set.Status.ReadyReplicas = 5
	require.NoError(t, c.Status().Update(t.Context(), set))
	assert.EqualValues(t, 0, get())
	assert.Len(t, h.events(EventReached), 1)
}
