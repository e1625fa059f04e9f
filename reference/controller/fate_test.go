// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/store"
)

// TestQuietIsWhatThisProcessHasSeen, by a clock that nobody sets.
func TestQuietIsWhatThisProcessHasSeen(t *testing.T) {
	var q quiet
	now := time.Duration(0)
	node := func(is corev1.ConditionStatus, since time.Time) []corev1.Node {
		return []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: is, LastTransitionTime: metav1.NewTime(since)}}}}}
	}
	look := func(after time.Duration, nodes []corev1.Node) time.Duration {
		now += after
		return q.count(awayOf(nodes), now, false)["a"]
	}
	ago := epoch.Add(-4 * time.Minute)
	assert.Zero(t, look(0, node(corev1.ConditionUnknown, ago)), "the control plane's clock is behind, or it was seen by nobody")
	assert.Equal(t, 2*time.Second, look(2*time.Second, node(corev1.ConditionUnknown, ago)))
	assert.Equal(t, 7*time.Second, look(time.Hour, node(corev1.ConditionFalse, ago)), "what was in that hour nobody has seen")
	assert.Equal(t, 8*time.Second, look(time.Second, node(corev1.ConditionFalse, ago.Add(-time.Minute))), "an older look")
	assert.Zero(t, look(time.Second, node(corev1.ConditionFalse, ago.Add(time.Minute))), "it was ready in between")
	assert.Equal(t, time.Second, look(time.Second, node(corev1.ConditionFalse, ago.Add(time.Minute))))
	now += time.Second
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
				s.Quiet = q.count(s.away(), now, false)
			}
			is, why := s.fate(s.Slots[0], time.Minute)
			assert.Equal(t, test.want, is, why)
		})
	}
}

// TestAFailedCheckIsTriedAnew after a minute that this process has seen: its clock may be an hour ahead
// of the API server's, or behind.
func TestAFailedCheckIsTriedAnew(t *testing.T) {
	for _, clock := range []time.Duration{time.Hour, -time.Hour} {
		s := Seen{Ring: newRing(3), Image: "ringadm:test", Identity: &store.Identity{Token: "t"}, View: &admin.View{}, Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}
		s.Set = s.set("v3.6.16")
		s.Slots = []Slot{{Name: "r-0", Pod: &corev1.Pod{Spec: s.Set.Spec.Template.Spec}}}
		s.Slots[0].Pod.Spec.NodeName = "a"
		s.word(t, &s.Slots[0], "member")
		s.Ring.Spec.Version = "3.6.17"
		s.word(t, &s.Slots[0], "check=broken")
		var q quiet
		for now := time.Duration(0); now <= 3*time.Minute; now += 5 * time.Second {
			s.Quiet = q.count(s.away(), now, false)
			anew := slices.ContainsFunc(ground(s, epoch.Add(clock+now), time.Minute).Changes, func(c Change) bool { return c.Why == "it is to be tried anew" })
			assert.Equal(t, now > time.Minute, anew, "%s, by a clock that is off by %s", now, clock)
		}
	}
}
