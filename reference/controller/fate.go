// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Fate is what became of a slot's volume.
type Fate string

// The fates.
const (
	Holds   Fate = "holds"   // it is there, for all that is known
	Lost    Fate = "lost"    // it doesn't come back
	Dark    Fate = "dark"    // no node that could reach it is left, or has been heard of for long: lost, unless its member answers
	Waiting Fate = "waiting" // there is none yet
	Unknown Fate = "unknown" // what is known decides nothing
)

// fate says what became of a slot's volume, and why. It is pure. Unknown is never
// Lost: a claim that isn't bound yet, or a pod that no node takes, waits for whoever
// makes volumes or room, and nothing is gained by deleting either.
func (s Seen) fate(slot Slot, patience time.Duration) (Fate, string) {
	switch {
	case slot.Claim == nil:
		return Waiting, "there is no claim yet"
	case slot.Claim.Status.Phase == corev1.ClaimLost:
		return Lost, "the volume of the claim " + slot.Claim.Name + " was deleted"
	case slot.Claim.Spec.VolumeName == "":
		return Waiting, "the claim " + slot.Claim.Name + " is bound to no volume yet"
	case slot.Volume == nil:
		return Lost, "the volume " + slot.Claim.Spec.VolumeName + " was deleted"
	}
	return s.pinned(slot, patience)
}

// pinned says what became of a volume that only some nodes reach. One that any node
// reaches holds.
func (s Seen) pinned(slot Slot, patience time.Duration) (Fate, string) {
	affinity := slot.Volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return Holds, ""
	}
	reach, err := nodeaffinity.NewNodeSelector(affinity.Required)
	if err != nil {
		return Unknown, fmt.Sprintf("which nodes reach the volume %s is not understood: %v", slot.Volume.Name, err)
	}
	there, dark := 0, 0
	for i := range s.Nodes {
		if !reach.Match(&s.Nodes[i]) {
			continue
		}
		there++
		if s.Quiet[s.Nodes[i].Name] > patience {
			dark++
		}
	}
	switch {
	case there == 0 && !onOneNode(slot.Volume) && s.Quiet[unreached(slot.Volume)] <= patience:
		// The only node of a zone is replaced: the one goes, and the next comes some minutes after.
		return Unknown, "no node is there that reaches the volume " + slot.Volume.Name + "; another may come"
	case there == 0:
		// A Node that was deleted may be registered again by a kubelet that runs on, and the
		// member has run all the while. What its pod says tells nothing: nobody writes it.
		return Dark, "no node is left that reaches the volume " + slot.Volume.Name
	case there == dark && !slot.ready():
		return Dark, fmt.Sprintf("no node that reaches the volume %s has been ready for %s", slot.Volume.Name, patience)
	}
	return Holds, ""
}

// onOneNode reports whether a volume is on a node's own disk, and no node but that ever reaches it.
func onOneNode(v *corev1.PersistentVolume) bool {
	if v.Spec.Local != nil || v.Spec.HostPath != nil {
		return true
	}
	return slices.ContainsFunc(v.Spec.NodeAffinity.Required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key == corev1.LabelHostname })
	})
}

// unreached is by what name it is counted for how long no node reaches a volume.
func unreached(v *corev1.PersistentVolume) string { return "volume " + v.Name }

// away are the nodes that aren't ready, the volumes that no node reaches, the checks that have failed,
// and the pods that don't run yet, since when by what the control plane wrote: of all but nodes it writes nothing.
func (s Seen) away() map[string]metav1.Time {
	all := awayOf(s.Nodes)
	for _, slot := range s.Slots {
		if _, why := slot.tried(s.imageOf(s.asked())); why != "" {
			all[failed(slot.Check)] = metav1.Time{}
		}
		if slot.Pod != nil && slot.Pod.Status.Phase == corev1.PodPending {
			all[coming(slot.Pod)] = metav1.Time{}
		}
		if slot.Volume == nil || slot.Volume.Spec.NodeAffinity == nil || slot.Volume.Spec.NodeAffinity.Required == nil {
			continue
		}
		reach, err := nodeaffinity.NewNodeSelector(slot.Volume.Spec.NodeAffinity.Required)
		if err == nil && !slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return reach.Match(&n) }) {
			all[unreached(slot.Volume)] = metav1.Time{}
		}
	}
	return all
}

func awayOf(nodes []corev1.Node) map[string]metav1.Time {
	all := map[string]metav1.Time{}
	for _, n := range nodes {
		if since, is := unready(n); is {
			all[n.Name] = since
		}
	}
	return all
}

// quiet counts for how long each node has not been ready, as this process has seen it. When
// that began the control plane writes down, by a clock of its own: where the controller's was
// four minutes ahead, a node that restarted had been away for four minutes, and a member
// was replaced that was back in a moment.
type quiet map[string]spell

// spell is a time in which a node was not ready.
type spell struct {
	began metav1.Time   // as the control plane has it
	last  time.Duration // when it was looked at last, by the monotonic clock
	long  time.Duration
}

// mostBetween is how much the time between two looks counts at most: what happened in a longer
// one nobody has seen.
const mostBetween = 5 * time.Second

// count counts on, and returns how long each of those has been away that are.
// barred: the time since the last look doesn't count, as the ring has no quorum, and nobody
// could be replaced. All nodes lose their power for longer than its patience, and come back
// one after the other: with the second the ring serves, and the third has just not come yet.
func (q *quiet) count(away map[string]metav1.Time, now time.Duration, barred bool) map[string]time.Duration {
	before, all := *q, map[string]time.Duration{}
	*q = quiet{}
	for name, began := range away { // order: each is counted by itself
		s, known := before[name]
		if !known || began.After(s.began.Time) { // it was ready in between
			s = spell{began: began, last: now}
		}
		if !barred {
			s.long += max(0, min(now-s.last, mostBetween))
		}
		s.last = now
		(*q)[name], all[name] = s, s.long
	}
	return all
}

// unready reports whether a node isn't ready, and since when by what the control plane wrote.
func unready(n corev1.Node) (since metav1.Time, is bool) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return c.LastTransitionTime, true
		}
	}
	return metav1.Time{}, false
}
