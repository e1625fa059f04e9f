// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// seen is a fresh observation of the members.
func seen(members ...ringproof.MemberView) ringproof.Observation {
	return ringproof.Observation{At: 5, Fresh: true, Members: members}
}

func stale(members ...ringproof.MemberView) ringproof.Observation {
	return ringproof.Observation{At: 5, Members: members}
}

// entry is a member with its machine: 1 on m1. It serves.
func entry(id ringproof.MemberID, change ...func(*ringproof.MemberView)) ringproof.MemberView {
	m := ringproof.MemberView{ID: id, Machine: fmt.Sprintf("m%d", uint64(id)), Serving: true, Version: "3.6.16"}
	for _, c := range change {
		c(&m)
	}
	return m
}

func leads(term uint64) func(*ringproof.MemberView) {
	return func(m *ringproof.MemberView) { m.Leader, m.Term = true, term }
}
func learns(m *ringproof.MemberView)  { m.Learner = true }
func silent(m *ringproof.MemberView)  { m.Serving, m.Leader = false, false }
func alarmed(m *ringproof.MemberView) { m.Alarms = append(m.Alarms, "NOSPACE") }

func TestChanges(t *testing.T) {
	for name, c := range map[string]struct {
		before, now ringproof.Observation
		want        []string // kind, machine and text
	}{
		"nothing":                        {seen(entry(1)), seen(entry(1)), nil},
		"the first list":                 {ringproof.Observation{}, seen(entry(1, silent)), []string{"member-added m1"}},
		"the first list is stale":        {ringproof.Observation{}, stale(entry(1, silent)), []string{"member-added m1"}},
		"added":                          {seen(entry(1)), seen(entry(1), entry(2, silent)), []string{"member-added m2"}},
		"added as learner":               {seen(entry(1)), seen(entry(1), entry(2, learns, silent)), []string{"member-added m2 learner"}},
		"added, by a stale list":         {seen(entry(1)), stale(entry(1), entry(2, silent)), nil},
		"removed":                        {seen(entry(1), entry(2)), seen(entry(1)), []string{"member-removed m2"}},
		"missing in a stale list":        {seen(entry(1), entry(2, silent)), stale(entry(1)), nil},
		"promoted":                       {seen(entry(2, learns)), seen(entry(2)), []string{"member-promoted m2"}},
		"promoted, by a stale list":      {seen(entry(2, learns)), stale(entry(2)), nil},
		"a learner still":                {seen(entry(2, learns)), seen(entry(2, learns)), nil},
		"started":                        {seen(entry(9, silent)), seen(entry(9)), []string{"member-started m9 etcd 3.6.16"}},
		"down":                           {seen(entry(1)), seen(entry(1, silent)), []string{"member-down m1"}},
		"up":                             {seen(entry(1, silent)), seen(entry(1)), []string{"member-up m1"}},
		"down, and nobody lists it":      {seen(entry(1), entry(2)), stale(entry(1)), []string{"member-down m2"}},
		"all down, and nobody answers":   {seen(entry(1, leads(2)), entry(2)), stale(), []string{"member-down m1", "member-down m2"}},
		"another leads":                  {seen(entry(1, leads(2)), entry(2)), seen(entry(1), entry(2, leads(3))), []string{"leader-changed m2 term 3"}},
		"a deposed leader says so still": {seen(entry(1, leads(2)), entry(2)), seen(entry(1, leads(2)), entry(2, leads(3))), []string{"leader-changed m2 term 3"}},
		"the same leads":                 {seen(entry(1, leads(2))), seen(entry(1, leads(3))), nil},
		"nobody leads for a while":       {seen(entry(1, leads(2))), seen(entry(1)), nil},
		"the first leader":               {seen(entry(1)), seen(entry(1, leads(2))), []string{"leader-changed m1 term 2"}},
		"an alarm":                       {seen(entry(1)), seen(entry(1, alarmed)), []string{"alarm m1 NOSPACE"}},
		"the same alarm":                 {seen(entry(1, alarmed)), seen(entry(1, alarmed)), nil},
		"all at once": {
			seen(entry(1, leads(2)), entry(2), entry(3, learns)), seen(entry(2, leads(3)), entry(3), entry(4, learns, silent)),
			[]string{"member-promoted m3", "member-added m4 learner", "member-removed m1", "leader-changed m2 term 3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			served := map[ringproof.MemberID]bool{1: true, 2: true, 3: true}
			var told []string
			for _, e := range changes(c.before, c.now, c.before.At, served) {
				require.Equal(t, c.now.At, e.At)
				line := string(e.Kind) + " " + e.Machine
				if e.Learner {
					line += " learner"
				}
				if e.Text != "" {
					line += " " + e.Text
				}
				told = append(told, line)
			}
			assert.Equal(t, c.want, told)
		})
	}
}

// TestWhatIsTold feeds a sequence of observations as the observer does.
func TestWhatIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		seen []ringproof.Observation
		want []ringproof.EventKind // after the first
	}{
		"a stale list from before an addition removes nobody": {
			[]ringproof.Observation{seen(entry(1)), seen(entry(1), entry(2)), stale(entry(1)), seen(entry(1), entry(2))},
			[]ringproof.EventKind{ringproof.EventMemberAdded, ringproof.EventMemberStarted, ringproof.EventMemberDown, ringproof.EventMemberUp},
		},
		"a stale list from before a promotion demotes nobody": {
			[]ringproof.Observation{seen(entry(1, learns)), seen(entry(1)), stale(entry(1, learns)), seen(entry(1))},
			[]ringproof.EventKind{ringproof.EventMemberPromoted},
		},
		"a removal is told once, though a stale list has it still": {
			[]ringproof.Observation{seen(entry(1), entry(2)), seen(entry(1)), stale(entry(1), entry(2, silent)), seen(entry(1))},
			[]ringproof.EventKind{ringproof.EventMemberRemoved},
		},
		"all power is lost and comes back": {
			[]ringproof.Observation{seen(entry(1), entry(2)), stale(), stale(), seen(entry(1), entry(2))},
			[]ringproof.EventKind{ringproof.EventMemberDown, ringproof.EventMemberDown, ringproof.EventMemberUp, ringproof.EventMemberUp},
		},
		"an alarm without a quorum is told once": {
			[]ringproof.Observation{seen(entry(1)), stale(entry(1, alarmed)), stale(entry(1, alarmed)), seen(entry(1, alarmed))},
			[]ringproof.EventKind{ringproof.EventAlarm},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before ringproof.Observation
			served := map[ringproof.MemberID]bool{}
			var told []ringproof.EventKind
			for i, o := range c.seen {
				for _, e := range changes(before, o, before.At, served) {
					if i > 0 {
						told = append(told, e.Kind)
					}
				}
				before = remember(before, o)
			}
			assert.Equal(t, c.want, told)
		})
	}
}

func TestRecordKeepsWhatIsNew(t *testing.T) {
	r := &record{now: func() ringproof.Instant { return 0 }}
	at := func(n int, o ringproof.Observation) ringproof.Observation {
		o.At = ringproof.Instant(n) * ringproof.Instant(look)
		return o
	}
	progress := entry(1)
	for i := range 11 { // a second of nothing but progress
		progress.Revision = int64(i)
		r.observe(at(i, seen(progress)))
	}
	require.Len(t, r.observations, 3, "what is alike is kept twice a second")
	r.observe(at(11, seen(entry(1, leads(2)))))
	require.Len(t, r.observations, 4, "what is new is kept")
	require.Equal(t, at(11, seen(entry(1, leads(2)))), r.observation())
}
