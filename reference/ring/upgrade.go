// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// upgrade brings the voters to the release that is asked for, one after the other: the
// followers by name, the leader last, after it has handed over. The next has its turn
// once all serve and have caught up, and none before every machine was asked whether it
// has the release.
func upgrade(spec Spec, o Observed) (Decision, bool) {
	behind := outdated(spec, o)
	if len(behind) == 0 {
		return pass()
	}
	for _, check := range []func(Spec, Observed, []Member) (Decision, bool){forbidden, lacks, unsettled} {
		if d, decided := check(spec, o, behind); decided {
			return d, true
		}
	}
	next := slices.MinFunc(behind, byTurn)
	if next.Leader {
		done := func(m Member) bool { return m.Version == spec.Version }
		if d, decided := handOverTo(o, done, next.String()+" is upgraded last"); decided {
			return d, true
		}
	}
	why := "it runs " + string(next.Version)
	if next.Version == spec.Version {
		why = string(next.Release) + " is not asked for any more"
	}
	return act(Action{Kind: Upgrade, Member: next.ID, Machine: next.Machine, Version: spec.Version, Why: why})
}

// leg returns the spec of the way to what was asked for before, if no release leads from what
// a voter runs to what is asked for now, and one does by way of that: v3.7 was asked for before
// all had come from v3.5 to v3.6.
func (s Spec) leg(o Observed) Spec {
	behind := where(outdated(s, o), func(m Member) bool { return m.Version != "" && m.Version.Hop(s.Version) != "" })
	barred := slices.ContainsFunc(behind, func(m Member) bool { return m.Version.Hop(s.From) != "" })
	if len(behind) == 0 || barred || s.From.Hop(s.Version) != "" {
		return s
	}
	oldest := slices.MinFunc(behind, func(a, b Member) int { return a.Version.Compare(b.Version) })
	s.From, s.Version, s.Then = oldest.Version, s.From, s.Version
	return s
}

// outdated lists the voters that run another release than is asked for, or are on record
// to be given another, as that was asked for before. Where no other ever was there are
// none, and a machine's own is its own.
func outdated(spec Spec, o Observed) []Member {
	if spec.From == "" {
		return nil
	}
	return where(o.Voters(), func(m Member) bool {
		told := m.Release != "" && m.Release != spec.Version
		return spec.Own[m.Machine] == "" && (told || m.Version != spec.Version)
	})
}

// byTurn orders followers by name, and the leader after them.
func byTurn(a, b Member) int {
	switch {
	case a.Leader == b.Leader:
		return byName(a.Machine, b.Machine)
	case a.Leader:
		return 1
	}
	return -1
}

// forbidden halts where etcd doesn't go from what a member runs to what is asked for.
func forbidden(spec Spec, _ Observed, behind []Member) (Decision, bool) {
	for _, m := range behind {
		if m.Version == "" {
			return wait("which release %s runs is not known", m)
		}
		if why := m.Version.Hop(spec.Version); why != "" {
			back := m.Version
			if spec.From.Compare(back) > 0 && spec.From != spec.Version { // one step after the other, as it was asked for
				back = spec.From
			}
			return Decision{
				Halt:     fmt.Sprintf("%s is asked for, and %s runs %s: %s", spec.Version, m, m.Version, why),
				Commands: []string{"ringadm spec STORE version=" + string(back)},
				Back:     back,
			}, true
		}
	}
	return pass()
}

// lacks halts before anybody is upgraded if a machine has not the release: half of a ring
// on another is no place to stay.
func lacks(spec Spec, o Observed, behind []Member) (Decision, bool) {
	for _, m := range behind {
		machine, known := o.own(m)
		switch {
		case !known || !machine.Present:
			return wait("the machine of %s is not here to be asked whether it has etcd %s", m, spec.Version)
		case !machine.has(spec.Version):
			return Decision{
				Halt:     fmt.Sprintf("%s has no etcd %s, and no member is upgraded before every machine that holds one has it: install it there and restart its agent, or take back what was asked for", m.Machine, spec.Version),
				Commands: []string{"ringadm spec STORE version=" + string(spec.From)},
				Back:     spec.From,
			}, true
		}
	}
	return pass()
}

// InStep is how many entries a voter may be behind for the next to be restarted: fewer
// than etcd keeps to send, so that none is sent the whole keyspace instead.
const InStep = 1000

// unsettled waits until what was begun has ended well: also the restart of a member for another
// way to listen. Each machine looks whether all others serve before it ends its etcd, and two
// that looked at once both ended theirs.
func unsettled(spec Spec, o Observed, behind []Member) (Decision, bool) {
	for _, m := range behind {
		if m.Release == spec.Version {
			d, _ := wait("%s is to restart with etcd %s, and runs %s", m, spec.Version, m.Version)
			d.Due = m.ID
			return d, true
		}
		if m.Version.Minor() != spec.Version.Minor() && m.Version.Compare("v3.6.0") >= 0 && m.Schema != m.Version.Minor() {
			return wait("%s runs %s, and its files are not of that minor yet", m, m.Version)
		}
	}
	if d, waits := o.relistens(); waits && spec.Encrypt {
		return d, true
	}
	if d, decided := o.outOfStep(); decided {
		return d, true
	}
	return unread(spec, o, behind)
}

// ReadsV2 is the minor that writes no request of etcd's v2 API any more, and reads those in
// its log. Each etcd before wrote one when it started, which stays until the next snapshot:
// for months where little is written. The one after panics on it.
const ReadsV2 = "v3.6"

// SnapshotCount is how many entries an etcd of that minor adds to its log from one snapshot
// to the next, if it isn't told (DefaultSnapshotCount).
const SnapshotCount = 10_000

// advanceBy is how many entries are written in one action: while it lasts nothing else is
// looked at.
const advanceBy = 200

// unread sees to it that the release can read all that is in the members' logs: nobody is
// upgraded until each has taken a snapshot after the last request that it can't read.
func unread(spec Spec, o Observed, behind []Member) (Decision, bool) {
	for _, m := range behind {
		machine, _ := o.own(m)
		switch after := machine.V2 + cmp.Or(spec.SnapshotCount, SnapshotCount); {
		case m.Version.Minor() != ReadsV2 || spec.Version.Minor() == ReadsV2:
		case !machine.ToldV2:
			return wait("whether etcd %s can read the log of %s is not known yet", spec.Version, m)
		case machine.V2 == 0:
		case m.Applied > after:
			return wait("%s is to take a snapshot, as etcd %s can't read entry %d of its log; if it takes none it was started to take them more rarely: ringadm advance-log", m, spec.Version, machine.V2)
		default:
			return act(Action{Kind: AdvanceLog, Entries: min(advanceBy, after+1-m.Applied),
				Why: fmt.Sprintf("etcd %s can't read entry %d in the log of %s, which takes its next snapshot at %d", spec.Version, machine.V2, m, after)})
		}
	}
	return pass()
}

// outOfStep waits until no voter's restart would be one too many: all have run for a
// while, and are about as far as each other.
func (o Observed) outOfStep() (Decision, bool) {
	for _, m := range o.Voters() {
		switch {
		case o.unsteady(m):
			return wait("%s serves, but its etcd has ended at its last start: it must run for some seconds first", m)
		case m.Lag > InStep:
			return wait("%s is %d entries behind", m, m.Lag)
		}
	}
	if !o.led() {
		return wait("who leads is not known")
	}
	return pass()
}

// led reports whether it is known who leads.
func (o Observed) led() bool {
	return slices.ContainsFunc(o.Voters(), func(m Member) bool { return m.Leader })
}

// behind is how many entries a voter is too far behind to be counted on; 0: it is in step.
func (o Observed) behind(m Member) uint64 {
	switch {
	case o.unsteady(m):
		return math.MaxUint64
	case m.Lag > InStep:
		return m.Lag
	}
	return 0
}

// handOverTo moves leadership to one that was restarted already, so that it moves once.
func handOverTo(o Observed, done func(Member) bool, why string) (Decision, bool) {
	able := where(o.Voters(), func(m Member) bool { return m.Serving && done(m) })
	if len(able) == 0 {
		return pass()
	}
	to := slices.MinFunc(able, byTurn)
	return act(Action{Kind: MoveLeader, Member: to.ID, Machine: to.Machine, Why: why})
}

// broken halts on a voter that was upgraded and doesn't come up: nobody else is, and it
// is not replaced, as its log is whole and what it runs is what is wrong.
func broken(spec Spec, o Observed, quiet []Member) (Decision, bool) {
	for _, m := range quiet {
		machine, known := o.own(m)
		if !known || !machine.Present || !m.Started() || !inTurn(spec, o, m) {
			continue
		}
		why := machine.Failing
		if why == "" && m.Silent > 2*comeUp {
			why = "it does not answer"
		}
		if why != "" {
			d := Decision{Stuck: m.ID,
				Halt:     fmt.Sprintf("%s was upgraded to %s and does not come up: %s; no other member is upgraded", m, spec.Version, why),
				Commands: []string{fmt.Sprintf("ringadm member upgrade %s --version %s", m.ID, spec.From)},
			}
			came := where(o.Voters(), func(m Member) bool { return m.Serving && m.Version == spec.Version })
			switch {
			case spec.Then != "":
				d.Back = spec.Version // who asked for the next takes that back first
			case len(came) > 0:
				d.Halt += fmt.Sprintf(", and as %s serves with it the ring isn't taken back", came[0])
				return d, true
			default:
				d.Back = spec.From
			}
			d.Commands = append(d.Commands, "ringadm spec STORE version="+string(d.Back))
			return d, true
		}
	}
	return pass()
}

// inTurn reports whether the upgrade has come to the member, and no further: it was told
// to run the release, and was not heard to.
func inTurn(spec Spec, o Observed, m Member) bool {
	told := spec.From != "" && spec.Own[m.Machine] == "" && m.Release == spec.Version && m.Version != spec.Version
	return told && (m.Version != "" || len(outdated(spec, o)) > 1)
}
