// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestQuietIsWhatThisProcessHasSeen, by its own clock and whatever that is put ahead by.
func TestQuietIsWhatThisProcessHasSeen(t *testing.T) {
	var q quiet
	now := epoch
	node := func(is corev1.ConditionStatus, since time.Time) []corev1.Node {
		return []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: is, LastTransitionTime: metav1.NewTime(since)}}}}}
	}
	look := func(after time.Duration, nodes []corev1.Node) time.Duration {
		now = now.Add(after)
		return q.count(nodes, now, false)["a"]
	}
	ago := epoch.Add(-4 * time.Minute)
	assert.Zero(t, look(0, node(corev1.ConditionUnknown, ago)), "the control plane's clock is behind, or it was seen by nobody")
	assert.Equal(t, 2*time.Second, look(2*time.Second, node(corev1.ConditionUnknown, ago)))
	assert.Equal(t, 7*time.Second, look(time.Hour, node(corev1.ConditionFalse, ago)), "the clock was put ahead")
	assert.Equal(t, 7*time.Second, look(-time.Hour, node(corev1.ConditionFalse, ago)), "and back")
	assert.Equal(t, 8*time.Second, look(time.Second, node(corev1.ConditionFalse, ago.Add(-time.Minute))), "an older look")
	assert.Zero(t, look(time.Second, node(corev1.ConditionFalse, ago.Add(time.Minute))), "it was ready in between")
	assert.Equal(t, time.Second, look(time.Second, node(corev1.ConditionFalse, ago.Add(time.Minute))))
	now = now.Add(time.Second)
	assert.Equal(t, time.Second, q.count(node(corev1.ConditionFalse, ago.Add(time.Minute)), now, true)["a"], "nobody could be replaced")
	assert.Equal(t, 2*time.Second, look(time.Second, node(corev1.ConditionFalse, ago.Add(time.Minute))))
	assert.Zero(t, look(time.Second, node(corev1.ConditionTrue, ago.Add(2*time.Minute))))
	assert.Empty(t, q)
}
