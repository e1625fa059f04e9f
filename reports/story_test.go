// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// This file tells a story of 40 seconds: a ring of three grows to five, and
// while it grows the leader's volume is lost. The story is told as events; the observations, the operations and the evidence
// follow from them.

const (
	old35 = "v3.5.35"
	new36 = "v3.6.16"
)

// story builds a history. Its noise is a hash of a counter: no chance in it.
type story struct {
	history  ringproof.History
	machines []ringproof.MachineView
	members  []ringproof.MemberView
	version  string
	noise    uint64
	silences [][2]float64 // when clients get no answer
}

func newStory(subject string, seed uint64) *story {
	s := &story{version: new36, noise: seed}
	s.history.Plan = growPlan(subject, seed)
	s.history.Tools = growTools()
	for i := range 6 {
		s.machines = append(s.machines, ringproof.MachineView{Name: fmt.Sprintf("m%d", i+1), Address: fmt.Sprintf("10.77.0.%d", i+11), Up: true, Disk: 1, Agent: true})
	}
	return s
}

func growTools() ringproof.Tools {
	return ringproof.Tools{Ringproof: "v0.1.0", Go: "go1.26.8", Etcd: map[string]string{
		old35: "0b3f6d1c9a52e7488f4d1be0c55a9d3e7c2f1a6b8d904e5f3a7c6b1d2e8f9a04",
		new36: "9c1d7e42b06fa835d4e9c8b17f20a6539e4d8c7b1a0f6e5d4c3b2a1908f7e6d5",
	}}
}

func growPlan(subject string, seed uint64) ringproof.Plan {
	none := 0
	return ringproof.Plan{
		Cell: fmt.Sprintf("volume-lost-while-growing-3-to-5[etcd=%s,victim=leader]#%d", new36, seed), Scenario: "volume-lost-while-growing-3-to-5",
		Source: "scenarios/volume-lost-while-growing-3-to-5.yaml", Hypothesis: "No acknowledged write is lost, quorum holds, and the ring ends with five voters.",
		Matrix: map[string]string{"etcd": new36, "victim": "leader"}, Seed: seed, Subject: subject, World: "local",
		Ring:        ringproof.RingSpec{Size: 3, Machines: 6, Version: new36, Security: "tls"},
		Workload:    ringproof.Workload{Profile: "kv-txn-watch", Clients: 5, Keys: 8, Rate: 60},
		Assumptions: ringproof.Assumptions{MinAcked: 500, FaultsFired: true},
		Invariants: []ringproof.Invariant{{Check: "linearizable"}, {Check: "one-cluster-identity"},
			{Check: "quorum-margin", Params: map[string]string{"min": "0"}}, {Check: "available", Params: map[string]string{"maxGap": "2s"}}},
		Steps: []ringproof.Step{
			{Name: "grow", Op: &ringproof.Op{Kind: ringproof.OpScale, To: 5}, Detach: true},
			{Name: "lose", After: &ringproof.Trigger{Event: ringproof.EventMemberAdded, Nth: 1, Timeout: ringproof.Duration(5 * time.Minute)},
				Fault: &ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "leader", Leave: "nothing"}},
			{Name: "settle", Join: []string{"grow"}, Assert: &ringproof.Assert{Within: ringproof.Duration(5 * time.Minute), Voters: 5, Learners: &none, HashKV: "equal"}},
		},
	}
}

func instant(seconds float64) ringproof.Instant {
	return ringproof.Instant(math.Round(seconds * 1e9))
}

func (s *story) tell(at float64, e ringproof.Event) {
	e.At = instant(at)
	s.history.Events = append(s.history.Events, e)
}

func memberID(n int) ringproof.MemberID {
	return ringproof.MemberID(0x8e9e05c52164694d + uint64(n)*0x1357924680ace1)
}

func (s *story) charge(at float64, what string, used, left int) {
	s.history.Evidence.Budget = append(s.history.Evidence.Budget, ringproof.Budget{At: instant(at), What: what, Used: used, Left: left})
}

// The acts, as the world, the subject and the executor would tell them.

func (s *story) start(at float64, machine string) {
	s.tell(at, ringproof.Event{Kind: ringproof.EventProcessStarted, Machine: machine, Text: "etcd " + s.version + " pid 41" + machine[1:]})
}

func (s *story) lead(at float64, machine string, member int) {
	e := ringproof.Event{Kind: ringproof.EventLeaderChanged, Machine: machine}
	if member > 0 {
		e.Member = memberID(member)
	}
	s.tell(at, e)
}

func (s *story) action(from, to float64, action, machine, command string) {
	s.tell(from, ringproof.Event{Kind: ringproof.EventActionBegun, Action: action, Machine: machine, Command: command})
	s.tell(to, ringproof.Event{Kind: ringproof.EventActionDone, Action: action, Machine: machine})
}

// join adds a learner, starts it, and promotes it.
func (s *story) join(at float64, machine string, member int, caughtUp float64) {
	s.action(at, at+0.14, "add-learner", machine, "ringadm member add --learner "+machine)
	s.tell(at+0.14, ringproof.Event{Kind: ringproof.EventMemberAdded, Machine: machine, Member: memberID(member), Learner: true})
	s.start(at+0.4, machine)
	s.tell(at+1.1, ringproof.Event{Kind: ringproof.EventMemberStarted, Machine: machine, Member: memberID(member)})
	s.tell(at+1.2, ringproof.Event{Kind: ringproof.EventWaiting, Machine: machine, Text: "the learner on " + machine + " is 1,204 entries behind"})
	s.action(caughtUp-0.12, caughtUp, "promote", machine, "ringadm member promote "+memberID(member).String())
	s.tell(caughtUp, ringproof.Event{Kind: ringproof.EventMemberPromoted, Machine: machine, Member: memberID(member)})
}

func (s *story) step(from, to float64, name string) {
	s.tell(from, ringproof.Event{Kind: ringproof.EventStepBegun, Step: name})
	s.tell(to, ringproof.Event{Kind: ringproof.EventStepDone, Step: name})
}

func (s *story) create() {
	for i, m := range []string{"m1", "m2", "m3"} {
		s.start(0.31+0.04*float64(i), m)
		s.tell(1.30+0.02*float64(i), ringproof.Event{Kind: ringproof.EventMemberStarted, Machine: m, Member: memberID(i + 1)})
	}
	s.lead(1.18, "m1", 1)
	s.tell(1.42, ringproof.Event{Kind: ringproof.EventRingCreated})
}

// referenceStory is the reference under the plan: the gap is one election.
func referenceStory(subject string, seed uint64) *ringproof.History {
	return newStory(subject, seed).replace().finish(40, 2000)
}

// stalledStory goes on with a follower that is paused for three seconds.
func stalledStory(subject string, seed uint64) *ringproof.History {
	s := newStory(subject, seed).replace()
	stall := ringproof.Step{Name: "stall", Join: []string{"grow"},
		Fault: &ringproof.Fault{Kind: ringproof.FaultPause, Target: "follower", Scope: "process", For: ringproof.Duration(3 * time.Second)}}
	s.history.Plan.Steps = slices.Insert(s.history.Plan.Steps, 2, stall)
	s.pause(24.0, 27.0, "m3", 3)
	s.tell(27.9, ringproof.Event{Kind: ringproof.EventConverged})
	return s.finish(40, 2000)
}

func (s *story) replace() *story {
	s.create()
	s.step(5.0, 19.1, "grow")
	s.join(5.2, "m4", 4, 8.1)
	s.step(5.4, 5.62, "lose")
	s.loseLeader(5.6)
	s.lead(6.38, "m2", 2)
	s.tell(6.6, ringproof.Event{Kind: ringproof.EventWaiting, Text: "m1's disk is empty: replaced once the learner on m4 votes"})
	s.action(8.6, 8.74, "remove", "m1", "ringadm member remove "+memberID(1).String())
	s.tell(8.74, ringproof.Event{Kind: ringproof.EventMemberRemoved, Machine: "m1", Member: memberID(1)})
	s.join(9.3, "m1", 6, 12.4)
	s.join(13.0, "m5", 5, 16.2)
	s.tell(18.9, ringproof.Event{Kind: ringproof.EventConverged})
	s.tell(30.0, ringproof.Event{Kind: ringproof.EventHealPhase})
	s.tell(31.2, ringproof.Event{Kind: ringproof.EventConverged})
	s.step(30.0, 33.2, "settle")
	s.charge(1.5, "membership: 3 voters", 0, 1)
	s.charge(5.5, "volume-loss of m1", 1, 0)
	s.charge(8.2, "membership: 4 voters", 1, 0)
	s.charge(8.8, "lost member "+memberID(1).String()+" (m1) has left", 0, 1)
	s.charge(16.3, "membership: 5 voters", 0, 2)
	s.silences = [][2]float64{{5.6, 6.41}}
	return s
}

func (s *story) loseLeader(at float64) {
	s.tell(at, ringproof.Event{Kind: ringproof.EventFaultLanded, Step: "lose", Fault: ringproof.FaultVolumeLoss, Machine: "m1", Text: "unmounted; /var/lib/etcd holds 0 files, 14 before"})
	s.tell(at+0.01, ringproof.Event{Kind: ringproof.EventProcessExited, Machine: "m1", Text: "signal: killed"})
	s.tell(at+0.05, ringproof.Event{Kind: ringproof.EventDiskReplaced, Machine: "m1", Text: "disk 2"})
	s.tell(at+0.1, ringproof.Event{Kind: ringproof.EventMemberDown, Machine: "m1", Member: memberID(1)})
	s.tell(at+0.2, ringproof.Event{Kind: ringproof.EventBoot, Machine: "m1", Text: "wait: the disk is empty and the ring still lists this machine"})
}

func (s *story) pause(from, to float64, machine string, member int) {
	s.tell(from, ringproof.Event{Kind: ringproof.EventStepBegun, Step: "stall"})
	s.tell(from+0.02, ringproof.Event{Kind: ringproof.EventFaultLanded, Step: "stall", Fault: ringproof.FaultPause, Machine: machine, Text: "state T in /proc/413/stat"})
	s.tell(from+1.1, ringproof.Event{Kind: ringproof.EventMemberDown, Machine: machine, Member: memberID(member)})
	s.tell(to, ringproof.Event{Kind: ringproof.EventFaultHealed, Step: "stall", Fault: ringproof.FaultPause, Machine: machine})
	s.tell(to+0.1, ringproof.Event{Kind: ringproof.EventMemberUp, Machine: machine, Member: memberID(member)})
	s.tell(to+0.15, ringproof.Event{Kind: ringproof.EventStepDone, Step: "stall"})
}

// resetStory is a subject that starts every member again when one disk is
// lost: the ring answers nobody for ten seconds.
func resetStory(subject string, seed uint64) *ringproof.History {
	s := newStory(subject, seed)
	s.create()
	s.step(5.0, 26.2, "grow")
	s.join(5.2, "m4", 4, 8.1)
	s.step(5.4, 5.62, "lose")
	s.loseLeader(5.6)
	s.lead(6.38, "m2", 2)
	s.tell(8.4, ringproof.Event{Kind: ringproof.EventActionBegun, Action: "reset-all", Command: "ringadm reset --all"})
	for i, m := range []string{"m2", "m3", "m4"} {
		at := 8.6 + 0.3*float64(i)
		s.tell(at, ringproof.Event{Kind: ringproof.EventProcessExited, Machine: m, Text: "signal: terminated"})
		s.tell(at+0.05, ringproof.Event{Kind: ringproof.EventMemberDown, Machine: m, Member: memberID(i + 2)})
		s.start(at+5.5+1.1*float64(i), m)
		s.tell(at+6.5+1.1*float64(i), ringproof.Event{Kind: ringproof.EventMemberUp, Machine: m, Member: memberID(i + 2)})
	}
	s.lead(16.9, "m3", 3)
	s.tell(17.2, ringproof.Event{Kind: ringproof.EventActionFailed, Action: "reset-all", Text: "context deadline exceeded: m1 did not come back"})
	s.action(17.6, 17.9, "remove", "m1", "ringadm member remove "+memberID(1).String())
	s.tell(17.9, ringproof.Event{Kind: ringproof.EventMemberRemoved, Machine: "m1", Member: memberID(1)})
	s.join(18.4, "m1", 6, 21.2)
	s.join(21.8, "m5", 5, 24.9)
	s.tell(26.0, ringproof.Event{Kind: ringproof.EventConverged})
	s.tell(30.0, ringproof.Event{Kind: ringproof.EventHealPhase})
	s.step(30.0, 33.2, "settle")
	s.tell(33.0, ringproof.Event{Kind: ringproof.EventConverged})
	s.charge(1.5, "membership: 3 voters", 0, 1)
	s.charge(5.5, "volume-loss of m1", 1, 0)
	s.charge(8.5, "machine-loss of m2 m3 refused: of 4 voters 1 would keep their log, a quorum is 3", 1, 0)
	s.silences = [][2]float64{{5.6, 6.41}, {8.7, 17.04}}
	s.history.Trace = "9f86d081884c7d65, 48213 events"
	return s.finish(40, 2000)
}

func (s *story) finish(seconds float64, operations int) *ringproof.History {
	s.tell(seconds, ringproof.Event{Kind: ringproof.EventRunEnds})
	slices.SortStableFunc(s.history.Events, func(a, b ringproof.Event) int { return int(a.At - b.At) })
	for i := range s.history.Events {
		s.history.Events[i].Seq = i + 1
	}
	s.observe(seconds)
	s.operate(seconds, operations)
	s.history.Measures = map[string]float64{MeasureWall: seconds + 1.2}
	return &s.history
}

// observe looks every quarter of a second at what the events have made.
func (s *story) observe(until float64) {
	next := 0
	for at := 0.25; at <= until; at += 0.25 {
		for next < len(s.history.Events) && s.history.Events[next].At <= instant(at) {
			s.happen(s.history.Events[next])
			next++
		}
		s.history.Observations = append(s.history.Observations, ringproof.Observation{
			At: instant(at), Machines: slices.Clone(s.machines), Members: slices.Clone(s.members), Fresh: true})
	}
}

func (s *story) happen(e ringproof.Event) {
	machine, member := s.machine(e.Machine), s.member(e.Member)
	switch e.Kind {
	case ringproof.EventRingCreated:
		for i := range s.members {
			s.members[i].Serving = true
		}
	case ringproof.EventProcessStarted:
		machine.Etcd = true
	case ringproof.EventProcessExited:
		machine.Etcd = false
	case ringproof.EventDiskReplaced:
		machine.Disk++
	case ringproof.EventMemberAdded, ringproof.EventMemberStarted, ringproof.EventMemberUp:
		s.welcome(e, member)
	case ringproof.EventMemberPromoted:
		member.Learner = false
	case ringproof.EventMemberDown:
		member.Serving, member.Leader = false, false
	case ringproof.EventMemberRemoved:
		s.members = slices.DeleteFunc(s.members, func(m ringproof.MemberView) bool { return m.ID == e.Member })
	case ringproof.EventLeaderChanged:
		for i := range s.members {
			s.members[i].Leader = s.members[i].ID == e.Member
		}
		s.leads(e.Member)
	}
}

func (s *story) welcome(e ringproof.Event, member *ringproof.MemberView) {
	if member.ID == 0 {
		s.members = append(s.members, ringproof.MemberView{ID: e.Member, Name: e.Machine, Machine: e.Machine, Learner: e.Learner})
		member = &s.members[len(s.members)-1]
		member.Leader = e.Machine == "m1" && e.At < instant(2)
	}
	if e.Kind != ringproof.EventMemberAdded {
		member.Serving, member.Version = true, s.version[1:]
	}
}

func (s *story) leads(id ringproof.MemberID) { s.member(id).Serving = true }

func (s *story) machine(name string) *ringproof.MachineView {
	for i := range s.machines {
		if s.machines[i].Name == name {
			return &s.machines[i]
		}
	}
	return &ringproof.MachineView{}
}

func (s *story) member(id ringproof.MemberID) *ringproof.MemberView {
	for i := range s.members {
		if s.members[i].ID == id {
			return &s.members[i]
		}
	}
	return &ringproof.MemberView{}
}

// chance is the next number of the story's noise, in [0, 1).
func (s *story) chance() float64 {
	s.noise += 0x9e3779b97f4a7c15
	z := (s.noise ^ s.noise>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

func (s *story) operate(until float64, n int) {
	const first = 1.5
	for i := range n {
		call := first + (until-first-0.5)*(float64(i)+0.6*s.chance())/float64(n)
		took := 0.0016 * math.Exp(1.1*s.chance()+2.2*math.Pow(s.chance(), 9))
		s.history.Operations = append(s.history.Operations, s.operation(i, call, took))
	}
}

func (s *story) operation(i int, call, took float64) ringproof.Operation {
	kinds := []ringproof.RequestKind{ringproof.RequestPut, ringproof.RequestGet, ringproof.RequestTxn, ringproof.RequestGet, ringproof.RequestRange}
	o := ringproof.Operation{ID: i + 1, Client: i % 5, Endpoint: fmt.Sprintf("m%d", i%3+1), Call: instant(call),
		Request: ringproof.Request{Kind: kinds[i%len(kinds)], Key: fmt.Sprintf("/ringproof/k%d", i%8), Value: fmt.Sprintf("v%d", i)}}
	for _, silent := range s.silences {
		if call+took < silent[0] || call > silent[1] {
			continue
		}
		wait := silent[1] - call
		switch {
		case i%7 == 0:
			o.Refused, o.Err, took = true, "connection refused", 0.004+0.01*s.chance()
		case wait > 1 || i%3 == 0:
			o.Err, took = "context deadline exceeded", math.Min(1, wait+0.2)
		default:
			took = wait + 0.003 + 0.05*s.chance()
		}
	}
	o.Return = instant(call + took)
	if o.Err == "" {
		o.Response = &ringproof.Response{ClusterID: 0xc0ffee, Revision: int64(i + 2), Term: 2}
	}
	return o
}

// growReport is a report with a cell of every outcome.
func growReport() Report {
	at, low := instant(17.04), instant(9.25)
	reference := CellOf(referenceStory("reference", 7), []ringproof.Finding{
		{Check: "linearizable", Verdict: ringproof.Pass, Message: "1,981 operations on 8 keys, in 41 ms"},
		{Check: "one-cluster-identity", Verdict: ringproof.Pass, Message: "c0ffee on 6 disks"},
		{Check: "quorum-margin", Verdict: ringproof.Pass, Message: "never below 0"},
		{Check: "available", Verdict: ringproof.Pass, Message: "longest gap 0.80s, allowed 2s"},
		{Check: "converges", Verdict: ringproof.Pass, Message: "5 voters, 0 learners, hashes equal at revision 2001"},
	})
	reset := CellOf(resetStory("reference+reset-all", 7), []ringproof.Finding{
		{Check: "linearizable", Verdict: ringproof.Pass, Message: "1,572 operations on 8 keys, in 38 ms"},
		{Check: "available", Verdict: ringproof.Fail, At: &at, Message: "clients waited 8.34s for an answer, 2s is allowed: the subject stopped every member at once, so no quorum was left to elect a leader",
			Evidence: []string{"   8.400s  action-begun      reset-all  ringadm reset --all", "   8.600s  process-exited    m2  signal: terminated", "   8.900s  process-exited    m3  signal: terminated", "   9.200s  process-exited    m4  signal: terminated", "  17.040s  first answer      put /ringproof/k3 by client 2"}},
		{Check: "quorum-margin", Verdict: ringproof.Fail, At: &low, Message: "the subject lowered the margin to −3 at 9.25s: of 4 voters 0 served", Attached: "cells/reset-all#7/porcupine.html"},
	})
	short := CellOf(stalledStory("reference", 8), []ringproof.Finding{
		{Check: "linearizable", Verdict: ringproof.Inconclusive, Message: "the checker ran out of its 60s: 1,203 of 1,981 operations were ordered"},
		{Check: "available", Verdict: ringproof.Pass, Message: "longest gap 0.80s, allowed 2s"},
	})
	report := Report{Subject: "reference", World: "local", Command: "bin/ringproof run --world local --out out", Started: time.Date(2026, 11, 20, 19, 0, 0, 0, time.UTC), Tools: growTools()}
	for i, c := range []Cell{reference, reset, short} {
		name := strings.NewReplacer("[", "-", "]", "", ",", "-").Replace(c.Name)
		c.PlanFile, c.HistoryFile = fmt.Sprintf("cells/%d/plan.json", i+1), "cells/"+name+"/history.jsonl"
		c.Replay = fmt.Sprintf("ringproof replay --subject %s out/%s", c.Subject, c.PlanFile)
		report.Cells = append(report.Cells, c)
	}
	report.Cells = append(report.Cells, Cell{Name: "partition-during-grow[etcd=v3.6.16]#7", Scenario: "partition-during-grow", Subject: "reference", World: "local", Seed: 7,
		NotApplicable: "this host gives no user namespaces: on loopback addresses a partition can't be made"})
	return report
}
