// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
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
func fate(s Slot, nodes []corev1.Node, now time.Time, patience time.Duration) (Fate, string) {
	switch {
	case s.Claim == nil:
		return Waiting, "there is no claim yet"
	case s.Claim.Status.Phase == corev1.ClaimLost:
		return Lost, "the volume of the claim " + s.Claim.Name + " was deleted"
	case s.Claim.Spec.VolumeName == "":
		return Waiting, "the claim " + s.Claim.Name + " is bound to no volume yet"
	case s.Volume == nil:
		return Lost, "the volume " + s.Claim.Spec.VolumeName + " was deleted"
	}
	return pinned(s, nodes, now, patience)
}

// pinned says what became of a volume that only some nodes reach. One that any node
// reaches holds.
func pinned(s Slot, nodes []corev1.Node, now time.Time, patience time.Duration) (Fate, string) {
	affinity := s.Volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return Holds, ""
	}
	reach, err := nodeaffinity.NewNodeSelector(affinity.Required)
	if err != nil {
		return Unknown, fmt.Sprintf("which nodes reach the volume %s is not understood: %v", s.Volume.Name, err)
	}
	there, dark := 0, 0
	for i := range nodes {
		if !reach.Match(&nodes[i]) {
			continue
		}
		there++
		if silent(nodes[i], now) > patience {
			dark++
		}
	}
	switch {
	case there == 0:
		// A Node that was deleted may be registered again by a kubelet that runs on, and the
		// member has run all the while. What its pod says tells nothing: nobody writes it.
		return Dark, "no node is left that reaches the volume " + s.Volume.Name
	case there == dark && !s.ready():
		return Dark, fmt.Sprintf("no node that reaches the volume %s has been ready for %s", s.Volume.Name, patience)
	}
	return Holds, ""
}

// silent is how long a node has not been ready; 0: it is.
func silent(n corev1.Node, now time.Time) time.Duration {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return now.Sub(c.LastTransitionTime.Time)
		}
	}
	return 0
}
