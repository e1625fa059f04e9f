// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The module sim/kube/upstream compares any step with Kubernetes's own; here is what
// a reader should know of them.

// web is a set of three with a claim each, as the server completes it.
func web(change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	labels := map[string]string{"app": "web"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web", UID: "set", Generation: 1},
		Spec: appsv1.StatefulSetSpec{
			Replicas: pointer(int32(3)), ServiceName: "web", RevisionHistoryLimit: pointer(int32(10)),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Selector:            &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "old"}}}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

func ordered(set *appsv1.StatefulSet) {
	set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
}

func sized(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Replicas = &n }
}

// seen carries out steps on what a test has of a set.
type seen struct{ Set }

func see(set *appsv1.StatefulSet) *seen {
	return &seen{Set{Object: set, Claims: map[string]*corev1.PersistentVolumeClaim{}, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
}

// step returns what is done, and has it done; a deleted pod is gone at once.
func (s *seen) step(t *testing.T) (did []string) {
	t.Helper()
	step := s.Step()
	for _, w := range step.Writes {
		switch o := w.Object.(type) {
		case *appsv1.ControllerRevision:
			s.Revisions = append(s.Revisions, o)
			continue
		case *corev1.PersistentVolumeClaim:
			s.Claims[o.Name] = o
		case *corev1.Pod:
			s.drop(o.Name)
			if w.Verb == Create {
				o.Status.Phase = corev1.PodPending
				s.Pods = append(s.Pods, o)
			}
		}
		did = append(did, w.String())
	}
	if step.Status != nil {
		s.Object.Status = *step.Status
	}
	if step.Err != nil {
		did = append(did, step.Err.Error())
	}
	return did
}

func (s *seen) drop(name string) {
	for n, pod := range s.Pods {
		if pod.Name == name {
			s.Pods = append(s.Pods[:n:n], s.Pods[n+1:]...)
			return
		}
	}
}

func (s *seen) ready(names ...string) {
	for _, pod := range s.Pods {
		if len(names) == 0 || strings.Contains(strings.Join(names, " "), pod.Name) {
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.Now)}}
		}
	}
}

func TestParallelPodsComeAtOnce(t *testing.T) {
	s := see(web())
	assert.Equal(t, []string{"create data-web-0", "create web-0", "create data-web-1", "create web-1", "create data-web-2", "create web-2"}, s.step(t))
	assert.Empty(t, s.step(t))
	assert.EqualValues(t, 3, s.Object.Status.Replicas)
	s.ready()
	assert.Empty(t, s.step(t))
	assert.EqualValues(t, 3, s.Object.Status.ReadyReplicas)
	assert.Nil(t, s.Step().Status, "nothing new to say")
}

func TestOrderedPodsWaitForEachOther(t *testing.T) {
	s := see(web(ordered, sized(2)))
	assert.Equal(t, []string{"create data-web-0", "create web-0"}, s.step(t))
	assert.Empty(t, s.step(t), "web-0 isn't ready")
	s.ready()
	assert.Equal(t, []string{"create data-web-1", "create web-1"}, s.step(t))
}

func TestTheHighestGoFirst(t *testing.T) {
	s := see(web(ordered))
	for range 3 {
		s.step(t)
		s.ready()
	}
	s.Object.Spec.Replicas = pointer(int32(1))
	assert.Equal(t, []string{"delete web-2"}, s.step(t))
	assert.Equal(t, []string{"delete web-1"}, s.step(t))
	assert.Empty(t, s.step(t))
	assert.Len(t, s.Claims, 3, "claims stay")
}

func TestOnDeleteTakesTheNewTemplate(t *testing.T) {
	s := see(web())
	s.step(t)
	s.ready()
	s.step(t)
	old := s.Object.Status.UpdateRevision
	s.Object.Spec.Template.Spec.Containers[0].Image = "new"
	assert.Empty(t, s.step(t), "no pod is deleted for it")
	assert.NotEqual(t, old, s.Object.Status.UpdateRevision)
	assert.Equal(t, old, s.Object.Status.CurrentRevision, "which never catches up")
	s.drop("web-1")
	assert.Equal(t, []string{"create web-1"}, s.step(t))
	assert.Equal(t, "new", s.Pods[len(s.Pods)-1].Spec.Containers[0].Image)
	assert.Equal(t, s.Object.Status.UpdateRevision, revisionOf(s.Pods[len(s.Pods)-1]))

	s.Object.Spec.Template.Spec.Containers[0].Image = "old"
	s.step(t)
	assert.Equal(t, old, s.Object.Status.UpdateRevision, "the first template is in force again, under its own name")
}

func TestRollingGoesFromTheHighest(t *testing.T) {
	s := see(web(func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: pointer(int32(1))}}
	}))
	s.step(t)
	s.ready()
	s.step(t)
	s.Object.Spec.Template.Spec.Containers[0].Image = "new"
	assert.Equal(t, []string{"delete web-2"}, s.step(t))
	assert.Equal(t, []string{"create web-2"}, s.step(t))
	assert.Empty(t, s.step(t), "web-2 isn't ready")
	s.ready()
	assert.Equal(t, []string{"delete web-1"}, s.step(t))
	assert.Equal(t, []string{"create web-1"}, s.step(t))
	s.ready()
	assert.Empty(t, s.step(t), "web-0 is below the partition")
}

// TestATerminatingClaimBlocksThePod: others of the same batch come, later ones don't.
func TestATerminatingClaimBlocksThePod(t *testing.T) {
	s := see(web(sized(4)))
	now := metav1.NewTime(s.Now)
	s.Claims["data-web-1"] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-1", DeletionTimestamp: &now}}
	assert.Equal(t, []string{"create data-web-0", "create web-0", "create data-web-2", "create web-2", "pvc data-web-1 is being deleted"}, s.step(t))
}

func TestAPendingPodGetsItsClaimAgain(t *testing.T) {
	s := see(web(sized(1)))
	s.step(t)
	delete(s.Claims, "data-web-0")
	assert.Equal(t, []string{"create data-web-0"}, s.step(t))
	s.ready()
	delete(s.Claims, "data-web-0")
	assert.Empty(t, s.step(t), "a pod that runs has its volume")
}

func TestPodsThatHaveEndedAreReplaced(t *testing.T) {
	s := see(web(sized(1)))
	s.step(t)
	s.Pods[0].Status.Phase = corev1.PodFailed
	assert.Equal(t, []string{"delete web-0"}, s.step(t))
	assert.Equal(t, []string{"create web-0"}, s.step(t))
}

func TestASetWhoseClaimsGoWithItIsRefused(t *testing.T) {
	s := see(web(func(set *appsv1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	}))
	require.Error(t, s.Step().Err)
}

func TestOrdinals(t *testing.T) {
	for name, want := range map[string]int{"web-0": 0, "web-12": 12, "a-b-3": 3, "web": -1, "web-": -1, "web-x": -1, "web-99999999999": -1} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			assert.Equal(t, want, ordinal(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		})
	}
}
