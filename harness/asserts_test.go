// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// moved is a scene in which m1's member was moved to m4, after m2 was cut off.
func moved() scene {
	member := func(id int, machine, version string) ringproof.MemberView {
		return ringproof.MemberView{ID: ringproof.MemberID(id), Name: machine, Machine: machine, Serving: true, Version: version, Leader: machine == "m3", Term: 3}
	}
	joining := member(4, "m5", "3.6.16")
	joining.Name = "" // it never started
	before := ringproof.Observation{Members: []ringproof.MemberView{member(1, "m1", "3.6.16"), member(2, "m2", "3.6.16"), member(3, "m3", "3.6.16"), joining}}
	now := ringproof.Observation{Members: []ringproof.MemberView{member(2, "m2", "3.6.16"), member(3, "m3", "3.6.16"), member(5, "m4", "3.5.35")}}
	now.Members[0].Alarms = []string{"memberID:2 alarm:NOSPACE "}
	now.Members[1].Alarms = []string{"memberID:2 alarm:NOSPACE "}
	return scene{now: now, looks: []ringproof.Observation{before, now}, events: []ringproof.Event{
		{Kind: ringproof.EventFaultLanded, Step: "cut", Machine: "m1"},
		{Kind: ringproof.EventWaiting, Text: "voter m1 does not answer"},
		{Kind: ringproof.EventActionDone, Action: "add-learner"}, {Kind: ringproof.EventActionFailed, Action: "promote"},
		{Kind: ringproof.EventActionDone, Action: "launch"},
		{Kind: ringproof.EventActionDone, Action: "promote"}, {Kind: ringproof.EventActionDone, Action: "remove"},
		{Kind: ringproof.EventHalted, Text: "no space left"},
	}}
}

// TestAFounderIsWhereItIsSeenFirst: of a pod that is being made nobody knows the node yet.
func TestAFounderIsWhereItIsSeenFirst(t *testing.T) {
	on := func(machine string) ringproof.Observation {
		return ringproof.Observation{Members: []ringproof.MemberView{{ID: 1, Name: "r-0", Machine: "m1"}, {ID: 2, Name: "r-1", Machine: machine}}}
	}
	s := scene{now: on("m2"), looks: []ringproof.Observation{{}, on(""), on("m2")}}
	assert.Empty(t, s.unmet(ringproof.Assert{Stayed: &[]string{ringproof.InitialMembers}}))
	s.now = on("m3")
	assert.Equal(t, []string{"m2 without the first member"}, s.unmet(ringproof.Assert{Stayed: &[]string{ringproof.InitialMembers}}))
}

// TestWhoEndsAgainAndAgainServesNobody, though a look in between found it serving.
func TestWhoEndsAgainAndAgainServesNobody(t *testing.T) {
	three := ringproof.Assert{Voters: 3}
	for name, c := range map[string]struct {
		machine string
		at      []int // seconds
		want    []string
	}{
		"at every start":      {"m2", []int{16, 17, 19}, []string{"etcd end again and again on m2"}},
		"killed twice":        {"m2", []int{16, 19}, nil},
		"over by now":         {"m2", []int{11, 12, 13}, nil},
		"without a member":    {"m1", []int{17, 18, 19}, nil},
		"beside older events": {"m3", []int{2, 16, 17, 18}, []string{"etcd end again and again on m3"}},
	} {
		s := moved()
		s.now.At = ringproof.Instant(20 * time.Second)
		for _, at := range c.at {
			s.events = append(s.events, ringproof.Event{At: ringproof.Instant(at) * ringproof.Instant(time.Second), Kind: ringproof.EventProcessExited, Machine: c.machine})
		}
		assert.Equal(t, c.want, s.unmet(three), name)
	}
}

func TestWhatAnAssertSees(t *testing.T) {
	list := func(names ...string) *[]string { return &names }
	number := func(n int) *int { return &n }
	for _, c := range []struct {
		name string
		a    ringproof.Assert
		want []string // what is seen instead
	}{
		{"who left", ringproof.Assert{Left: list("m1")}, nil},
		{"named by the step that hit it", ringproof.Assert{Left: list("cut")}, nil},
		{"nobody was to leave", ringproof.Assert{Left: list()}, []string{"m1 left"}},
		{"another was to leave too", ringproof.Assert{Left: list("m1", "m2")}, []string{"m1 left"}},
		{"who never started can't leave", ringproof.Assert{Left: list("m5")}, []string{"m1 left"}},
		{"who stayed", ringproof.Assert{Stayed: &[]string{"m2", "m3"}}, nil},
		{"who was there at first", ringproof.Assert{Stayed: &[]string{ringproof.InitialMembers}}, []string{"m1, m5 without the first member"}},
		{"that none stayed", ringproof.Assert{Stayed: &[]string{}}, []string{"m2, m3 with the first member"}},
		{"who has no member, or none at first", ringproof.Assert{Stayed: &[]string{"m1", "m2", "m5"}}, []string{"m1, m5 without the first member"}},
		{"who leads", ringproof.Assert{Leader: "m3"}, nil},
		{"another leads", ringproof.Assert{Leader: "m2"}, []string{"m3 leading"}},
		{"a release", ringproof.Assert{Release: "v3.6.16"}, []string{"m4 on v3.5.35"}},
		{"an alarm", ringproof.Assert{Alarms: list("NOSPACE")}, nil},
		{"none", ringproof.Assert{Alarms: list()}, []string{"the alarms NOSPACE"}},
		{"another", ringproof.Assert{Alarms: list("CORRUPT", "NOSPACE")}, []string{"the alarms NOSPACE"}},
		{"what was said last", ringproof.Assert{Said: "no space"}, nil},
		{"what was said before", ringproof.Assert{Said: "does not answer"}, []string{`it say "no space left"`}},
		{"changes that were made", ringproof.Assert{Changes: number(3)}, nil},
		{"changes that were not", ringproof.Assert{Changes: number(0)}, []string{"3 changes of the membership"}},
		{"two things at once", ringproof.Assert{Leader: "m2", Changes: number(1)}, []string{"m3 leading", "3 changes of the membership"}},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, moved().unmet(c.a)) })
	}
	nobody := scene{}
	assert.Equal(t, []string{"nobody leading"}, nobody.unmet(ringproof.Assert{Leader: "m1"}))
	assert.Equal(t, []string{`it say ""`}, nobody.unmet(ringproof.Assert{Said: "anything"}))
	assert.Empty(t, nobody.unmet(ringproof.Assert{Left: list(), Alarms: list(), Changes: number(0)}))
}

func TestAssertsInWords(t *testing.T) {
	none, three := 0, 3
	a := ringproof.Assert{Voters: 1, Learners: &none, HashKV: "equal", Left: &[]string{"cut", "m2"}, Stayed: &[]string{"m1", "m3", "m4"}, Leader: "m3",
		Release: "v3.6.16", Alarms: &[]string{}, Halted: true, Said: "no quorum", Changes: &three}
	assert.Equal(t, []string{"1 voter", "0 learners", "equal data everywhere", "that cut, m2 and nobody else has left", "that m1, m3, m4 kept the first member", "that m3 leads",
		"v3.6.16 everywhere", "no alarm", "that the subject halts and says so", `that it says "no quorum"`, "3 changes of the membership"}, a.Wants())
	assert.Equal(t, []string{"cut", "m2", "m1", "m3", "m4", "m3"}, a.Machines())
	assert.True(t, a.OfRing())
	assert.True(t, ringproof.Assert{}.Empty())
	assert.False(t, ringproof.Assert{Changes: &none}.Empty())
	assert.False(t, ringproof.Assert{Changes: &none}.OfRing())
}
