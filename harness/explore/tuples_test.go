// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

func voters(at ringproof.Instant, serving ...bool) ringproof.Observation {
	o := ringproof.Observation{At: at}
	for i, s := range serving {
		o.Members = append(o.Members, ringproof.MemberView{ID: ringproof.MemberID(i + 1), Serving: s})
	}
	return o
}

func TestTuples(t *testing.T) {
	h := &ringproof.History{
		Observations: []ringproof.Observation{voters(10, true, true, true), voters(40, true, true, false), voters(60, true, false, false)},
		Events: []ringproof.Event{
			{At: 5, Kind: ringproof.EventBoot, Text: "start: it is an initial member"},
			{At: 12, Kind: ringproof.EventRingCreated},
			{At: 20, Kind: ringproof.EventActionBegun, Action: "add-learner"},
			{At: 21, Kind: ringproof.EventMemberAdded},
			{At: 22, Kind: ringproof.EventActionDone, Action: "add-learner"},
			{At: 30, Kind: ringproof.EventFaultLanded, Step: "cut", Fault: ringproof.FaultPartition},
			{At: 31, Kind: ringproof.EventFaultLanded, Step: "kill", Fault: ringproof.FaultKill},
			{At: 50, Kind: ringproof.EventWaiting, Text: "voter m3 does not answer"},
			{At: 51, Kind: ringproof.EventWaiting, Text: "voter m2 does not answer"},
			{At: 55, Kind: ringproof.EventFaultHealed, Step: "cut"},
			{At: 65, Kind: ringproof.EventActionFailed, Action: "promote"},
			{At: 70, Kind: ringproof.EventHealPhase},
			{At: 71, Kind: ringproof.EventHalted},
			{At: 72, Kind: ringproof.EventMemberUp},
		},
	}
	assert.Equal(t, []string{
		"add-learner begun | quorum to spare |  | whole",
		"add-learner done | quorum to spare |  | joining",
		"boot start | silent |  | bootstrap",
		"halted | no quorum |  | joining",
		"promote failed | no quorum | kill | joining",
		"waiting | bare quorum | kill+partition | joining",
	}, Tuples(h))
}
