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
		return q.count(awayOf(nodes), now, false)["a"]
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
	assert.Equal(t, time.Second, q.count(awayOf(node(corev1.ConditionFalse, ago.Add(time.Minute))), now, true)["a"], "nobody could be replaced")
	assert.Equal(t, 2*time.Second, look(time.Second, node(corev1.ConditionFalse, ago.Add(time.Minute))))
	assert.Zero(t, look(time.Second, node(corev1.ConditionTrue, ago.Add(2*time.Minute))))
	assert.Empty(t, q)
}

// TestAVolumeThatMovesIsWaitedFor: the only node of its zone goes, and the next comes a while after.
// One on a node's own disk goes with the node.
func TestAVolumeThatMovesIsWaitedFor(t *testing.T) {
	zoned := volumeOn("r-0", "a")
	zoned.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = corev1.LabelTopologyZone
	for name, test := range map[string]struct {
		volume *corev1.PersistentVolume
		after  time.Duration
		want   Fate
	}{
		"of a zone":             {zoned, 30 * time.Second, Unknown},
		"of a zone, after long": {zoned, 3 * time.Minute, Dark},
		"of a node":             {volumeOn("r-0", "a"), 0, Dark},
		"that any node reaches": {volumeOn("r-0", "any"), 3 * time.Minute, Holds},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: test.volume.Name}}
			s := Seen{Ring: newRing(3), Slots: []Slot{{Name: "r-0", Claim: claim, Volume: test.volume}}}
			var q quiet
			for now := time.Duration(0); now <= test.after; now += time.Second {
				s.Quiet = q.count(s.away(), epoch.Add(now), false)
			}
			is, why := s.fate(s.Slots[0], time.Minute)
			assert.Equal(t, test.want, is, why)
		})
	}
}
