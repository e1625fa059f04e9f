// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"slices"

	"github.com/ringproof/ringproof/reference/ring"
)

// Each machine looks itself whether the others serve before it restarts its etcd, and two that
// are told at once both find that they do. The other three of five hold the quorum, and nobody
// notices: not before one of them is lost meanwhile.
var movesInBatches = Mutant{
	Name:     "moves-in-batches",
	Hazard:   "Two members at a time are told to restart as their peers are asked to speak TLS, while the others hold the quorum.",
	Source:   "Kubernetes' MaxUnavailableStatefulSet: a rollout takes down as many at a time as it was told that it may",
	Check:    "restarts-in-turn",
	Scenario: "peers-encrypted[size=5]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		return inner(spec, batched(o))
	})),
}

// batched takes the only voter that is told to restart, to listen another way, for one that has.
func batched(o ring.Observed) ring.Observed {
	told := func(m ring.Member) bool { return !m.Learner && m.Listen != "" && m.Listen != m.Peers }
	i := slices.IndexFunc(o.Members, told)
	if i < 0 || slices.ContainsFunc(o.Members[i+1:], told) {
		return o
	}
	o.Members = slices.Clone(o.Members)
	o.Members[i].Peers = o.Members[i].Listen
	return o
}
