// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// sec is a moment of a hand-written history.
func sec(s float64) ringproof.Instant { return ringproof.Instant(s * float64(time.Second)) }

// closedUnderAReader is how an etcd ends that is read from after its backend was closed.
const closedUnderAReader = "etcd, pid 7, panic: runtime error: invalid memory address or nil pointer dereference, in go.etcd.io/bbolt.(*Tx).Bucket"

// healthy is a run in which all goes well: three initial members, a volume of m2 lost
// at 20 s, its member replaced by a learner that is promoted, faults end at 60 s
// and the ring rests from 62 s to 70 s.
func healthy() *ringproof.History {
	h := &ringproof.History{Tools: ringproof.Tools{Virtual: true}, Plan: ringproof.Plan{
		Ring:        ringproof.RingSpec{Size: 3, Machines: 5},
		Workload:    ringproof.Workload{Profile: "kv-txn-watch", Clients: 2},
		Assumptions: ringproof.Assumptions{MinAcked: 3, FaultsFired: true, StepsTried: true},
		Steps: []ringproof.Step{
			{Name: "lose", Fault: &ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "m2"}},
			{Name: "even", Op: &ringproof.Op{Kind: ringproof.OpScale, To: 4, Refused: true}},
		},
	}}
	for i, e := range []ringproof.Event{
		{At: sec(1), Kind: ringproof.EventRingCreated},
		{At: sec(2), Kind: ringproof.EventLeads, By: "m1"},
		{At: sec(20), Kind: ringproof.EventFaultLanded, Step: "lose", Fault: ringproof.FaultVolumeLoss, Machine: "m2"},
		{At: sec(25), Kind: ringproof.EventMemberRemoved, Member: 2},
		{At: sec(29), Kind: ringproof.EventActionBegun, Action: "add-learner", By: "m1", Machine: "m2"},
		{At: sec(30), Kind: ringproof.EventMemberAdded, Member: 4, Machine: "m2", Learner: true},
		{At: sec(32), Kind: ringproof.EventMemberStarted, Member: 4, Machine: "m2"},
		{At: sec(35), Kind: ringproof.EventMemberPromoted, Member: 4},
		{At: sec(50), Kind: ringproof.EventStepBegun, Step: "even"},
		{At: sec(51), Kind: ringproof.EventRefused, Step: "even", Text: "4 voters stand no more losses than 3"},
		{At: sec(51), Kind: ringproof.EventStepDone, Step: "even"},
		{At: sec(60), Kind: ringproof.EventHealPhase},
		{At: sec(62), Kind: ringproof.EventConverged},
		{At: sec(70), Kind: ringproof.EventRunEnds},
		{At: sec(70), Kind: ringproof.EventProcessExited, Machine: "m1"},
	} {
		e.Seq = i
		h.Events = append(h.Events, e)
	}
	put := func(revision int64, key, value string) ringproof.KV {
		call := sec(float64(revision) * 5)
		h.Operations = append(h.Operations, ringproof.Operation{
			ID: len(h.Operations), Call: call, Return: call.Add(time.Second),
			Request:  ringproof.Request{Kind: ringproof.RequestPut, Key: key, Value: value},
			Response: &ringproof.Response{ClusterID: 0xc1, Member: 1, Term: 2, Revision: revision},
		})
		return ringproof.KV{Key: key, Value: value, CreateRevision: revision, ModRevision: revision, Version: 1}
	}
	w := ringproof.Watch{Start: 1, Endpoint: "m1"}
	for r, key := range []string{2: "/w/0", 3: "/w/1", 4: "/w/2", 5: "/w/3"} {
		if key != "" {
			kv := put(int64(r), key, fmt.Sprintf("v%d", r))
			h.Evidence.Dump = append(h.Evidence.Dump, kv)
			w.Events = append(w.Events, ringproof.WatchEvent{At: sec(float64(r)*5 + 2), Revision: int64(r), Create: true, KV: kv})
		}
	}
	w.Events = append(w.Events, ringproof.WatchEvent{At: sec(40), Revision: 5, Bookmark: true})
	h.Watches = []ringproof.Watch{w}
	h.Observations = []ringproof.Observation{
		seen(10, 1, 1, 2, 3), seen(21, 2, 1, 3), seen(33, 2, 1, 3, 4), seen(36, 2, 1, 3, 4), seen(65, 2, 1, 3, 4),
	}
	h.Observations[2].Members[2].Learner = true
	h.Evidence.Final = seen(70, 2, 1, 3, 4)
	h.Evidence.Spec, h.Evidence.Revision = 3, 5
	h.Evidence.Changes = []ringproof.ConfChange{
		entry("add-voter", 1, 1), entry("add-voter", 2, 1), entry("add-voter", 3, 1),
		entry("remove", 2, 25), entry("add-learner", 4, 30), entry("promote", 4, 35),
	}
	for i := range h.Evidence.Changes {
		h.Evidence.Changes[i].Index, h.Evidence.Changes[i].Initial = uint64(i+1), i < 3
	}
	h.Evidence.Logs = []ringproof.MemberLog{
		{Machine: "m1", Disk: 1, Member: 1, ClusterID: 0xc1}, {Machine: "m2", Disk: 2, Member: 4, ClusterID: 0xc1},
		{Machine: "m3", Disk: 1, Member: 3, ClusterID: 0xc1},
	}
	for _, m := range []string{"m1", "m2", "m3", "m4"} {
		flags := map[string]string{"name": m, "heartbeat-interval": "50", "strict-reconfig-check": "true"}
		h.Evidence.Etcds = append(h.Evidence.Etcds, ringproof.EtcdProcess{Machine: m, Releases: []string{"v3.6.16"}, Flags: flags})
	}
	asked := ringproof.Own{Version: "v3.6.16", Flags: map[string]string{"heartbeat-interval": "50"}}
	h.Evidence.Asked = map[string]ringproof.Own{"m1": asked, "m2": asked, "m3": asked, "m4": asked}
	h.Evidence.Hashes = []ringproof.Hash{
		{Machine: "m1", Member: 1, Version: "3.6.1", Revision: 5, Hash: 7}, {Machine: "m2", Member: 4, Version: "3.6.1", Revision: 5, Hash: 7},
	}
	return h
}

// backedUp has a backup made at 22 s, as revision 4 was the last acknowledged, with those keys.
func backedUp(revision int64, keys ...string) func(h *ringproof.History) {
	return func(h *ringproof.History) {
		b := ringproof.Backup{Asked: sec(22), Made: sec(23), Revision: revision}
		for _, kv := range h.Evidence.Dump {
			if slices.Contains(keys, kv.Key) {
				b.Keys = append(b.Keys, kv)
			}
		}
		h.Evidence.Backups = []ringproof.Backup{b}
	}
}

// lostWhenNew has a voter's disk seen for the first time half a second before it is lost, as its
// subject had emptied the machine.
func lostWhenNew(h *ringproof.History) {
	before := h.Observations[3]
	before.At, before.Machines = sec(35.5), slices.Clone(before.Machines)
	h.Observations = slices.Insert(h.Observations, 3, before)
	for i, disk := range []int{1, 1, 1, 2, 3, 3} {
		h.Observations[i].Machines[1].Disk = disk
	}
	event(h, ringproof.Event{At: sec(35.4), Kind: ringproof.EventDiskReplaced, Machine: "m2"})
	event(h, ringproof.Event{At: sec(35.9), Kind: ringproof.EventFaultLanded, Step: "lose", Fault: ringproof.FaultVolumeLoss, Machine: "m2"})
}

// joinerUnanswered has an etcd on m3 end as none of its peers answers, while those hang.
func joinerUnanswered(h *ringproof.History, hang ...string) {
	for _, machine := range []string{"m1", "m2", "m3"} {
		event(h, ringproof.Event{At: sec(38), Kind: ringproof.EventProcessStarted, Machine: machine})
	}
	for _, machine := range hang {
		event(h, ringproof.Event{At: sec(39), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultPause, Step: "lose", Machine: machine})
	}
	event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventProcessExited, Machine: "m3", Text: "etcd, pid 7, fatal: discovery failed: cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs"})
}

// suspended has an operator suspend the ring, and resume it.
func suspended(h *ringproof.History, from, to float64) {
	h.Plan.Steps = append(h.Plan.Steps,
		ringproof.Step{Name: "hold", Op: &ringproof.Op{Kind: ringproof.OpSuspend}},
		ringproof.Step{Name: "go-on", Op: &ringproof.Op{Kind: ringproof.OpResume}})
	event(h, ringproof.Event{At: sec(from), Kind: ringproof.EventStepDone, Step: "hold"})
	event(h, ringproof.Event{At: sec(to), Kind: ringproof.EventStepBegun, Step: "go-on"})
}

func entry(kind string, member ringproof.MemberID, at float64) ringproof.ConfChange {
	return ringproof.ConfChange{Kind: kind, Member: member, At: sec(at)}
}

var machineOf = map[ringproof.MemberID]string{1: "m1", 2: "m2", 3: "m3", 4: "m2", 5: "m4", 6: "m5"}

// removedBesideALearner has member 3, which nobody has seen serve since 10 s, removed at 33 s before
// learner 4 is promoted.
func removedBesideALearner(h *ringproof.History, replaceAfter time.Duration) {
	h.Plan.Ring.ReplaceAfter = ringproof.Duration(replaceAfter)
	for _, o := range h.Observations[1:] {
		for i, m := range o.Members {
			o.Members[i].Serving = m.Serving && m.ID != 3
		}
	}
	insert(h, 5, entry("remove", 3, 33))
}

// seen is an observation at which m2 is on the given disk and the members serve.
func seen(at float64, disk int, members ...ringproof.MemberID) ringproof.Observation {
	o := ringproof.Observation{At: sec(at), Fresh: true}
	for i := 1; i <= 5; i++ {
		m := ringproof.MachineView{Name: fmt.Sprintf("m%d", i), Up: true, Disk: 1, Etcd: true}
		if i == 2 {
			m.Disk = disk
		}
		o.Machines = append(o.Machines, m)
	}
	for _, id := range members {
		o.Members = append(o.Members, ringproof.MemberView{
			ID: id, Name: machineOf[id], Machine: machineOf[id], Serving: true, ClusterID: 0xc1, Term: 2, Revision: int64(at / 5), Peers: members,
		})
	}
	return o
}

// deleted has the member on m2 serve until it is removed, as an object of its was deleted,
// and its disk was not lost.
func deleted(h *ringproof.History, object string) {
	h.Plan.Steps[0].Fault = &ringproof.Fault{Kind: ringproof.FaultKubeDelete, Object: object, Target: "m2"}
	for i, e := range h.Events {
		if e.Step == "lose" && e.Kind == ringproof.EventFaultLanded {
			h.Events[i].Fault = ringproof.FaultKubeDelete
		}
	}
	h.Observations[1] = seen(21, 1, 1, 2, 3)
}

func insert(h *ringproof.History, at int, changes ...ringproof.ConfChange) {
	rest := append(changes, h.Evidence.Changes[at:]...)
	h.Evidence.Changes = append(h.Evidence.Changes[:at:at], rest...)
	for i := range h.Evidence.Changes {
		h.Evidence.Changes[i].Index = uint64(i + 1)
	}
}

func drop(h *ringproof.History, kind ringproof.EventKind) {
	var kept []ringproof.Event
	for _, e := range h.Events {
		if e.Kind != kind {
			kept = append(kept, e)
		}
	}
	h.Events = kept
}

// versions are of the ring's object, as it was read in the rest, second by second.
func versions(h *ringproof.History, all ...string) {
	for i, v := range all {
		h.Evidence.Statuses = append(h.Evidence.Statuses, ringproof.Status{At: sec(63 + float64(i)), Object: v})
	}
}

func event(h *ringproof.History, e ringproof.Event) {
	at := 0
	for at < len(h.Events) && h.Events[at].At <= e.At {
		at++
	}
	h.Events = append(h.Events[:at:at], append([]ringproof.Event{e}, h.Events[at:]...)...)
	for i := range h.Events {
		h.Events[i].Seq = i
	}
}

// look adds an observation in its place.
func look(h *ringproof.History, o ringproof.Observation) {
	at, _ := slices.BinarySearchFunc(h.Observations, o.At, func(o ringproof.Observation, at ringproof.Instant) int { return cmp.Compare(o.At, at) })
	h.Observations = slices.Insert(h.Observations, at, o)
}

// strange is a look at which the machine holds a disk that isn't its first.
func strange(at float64, machine int) ringproof.Observation {
	o := seen(at, 1, 1, 2, 3)
	o.Machines[machine-1].Disk = 2
	return o
}

// judged expects the check to pass, or to fail and say so.
func judged(t *testing.T, f ringproof.Finding, says string) {
	t.Helper()
	want := ringproof.Fail
	if says == "" {
		want = ringproof.Pass
	}
	require.Equal(t, want, f.Verdict, f.String())
	require.Contains(t, f.Message+strings.Join(f.Evidence, "\n"), says)
}

func TestHealthyHistoryPasses(t *testing.T) {
	h := healthy()
	findings := Judge(h)
	require.Equal(t, "assumptions", findings[0].Check)
	require.Len(t, findings, len(All())-15+len(Always()), "all but disaster, halts, leaves-nothing, backup-whole, upkeep, leases, upgrade-in-order, restarts-in-turn, no-plaintext-peer, status-honest, no-doomed-claim, no-trespass, no-key-printed and the two of certificates")
	for _, f := range findings {
		require.Equal(t, ringproof.Pass, f.Verdict, f.String())
	}
}

// ruined is a disaster: two of three machines lost, the subject halts.
func ruined() *ringproof.History {
	h := healthy()
	h.Plan.Mode, h.Evidence.Revision, h.Evidence.Dump = ringproof.ModeDisaster, 0, nil
	h.Evidence.Surviving = []string{"v2", "v3", "v4", "v5"}
	event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultMachineLoss, Machine: "m2"})
	event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultMachineLoss, Machine: "m3"})
	event(h, ringproof.Event{At: sec(45), Kind: ringproof.EventHalted, Text: "no quorum: 1 of 3 voters is left; restore a backup"})
	return h
}

// claimless is one whose quorum is lost with two claims, once their pods end.
func claimless() *ringproof.History {
	h := ruined()
	h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "claims", Fault: &ringproof.Fault{Kind: ringproof.FaultKubeDelete, Object: ringproof.ObjectClaim}})
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind == ringproof.EventFaultLanded {
			e.Fault, e.Step = ringproof.FaultKubeDelete, "claims"
		}
	}
	return h
}

// TestAHistoryThatBreaksOffIsNoPass: one of the last changes, that nobody could read, may be the
// one that was wrong. What is wrong before it stays so.
func TestAHistoryThatBreaksOffIsNoPass(t *testing.T) {
	for _, c := range []Check{oneChangeAtATime, learnerFirst, quorumMargin, workBounded, oneLead} {
		h := healthy()
		h.Evidence.Gap = "no log holds entry 41"
		f := c.Finding(h, nil)
		require.Equal(t, ringproof.Inconclusive, f.Verdict, f.String())
		require.Contains(t, f.Message, "no log holds entry 41")
	}
	h := healthy()
	h.Evidence.Gap = "no log holds entry 41"
	insert(h, 3, entry("add-voter", 5, 15))
	require.Equal(t, ringproof.Fail, learnerFirst.Finding(h, nil).Verdict)
}

// TestWhatIsMissingInALogAccusesNobody: who votes may have been promoted, and whose etcd has ended may have
// been removed, by an entry that nobody could read. The only member of a ring was replaced, and cleared its disk.
func TestWhatIsMissingInALogAccusesNobody(t *testing.T) {
	for c, plant := range map[*Check]func(*ringproof.History){ // order: each by itself
		&learnerFirst: func(h *ringproof.History) { h.Evidence.Changes = h.Evidence.Changes[:5] },
		&workBounded: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventProcessExited, Machine: "m3"})
		},
	} {
		h := healthy()
		plant(h)
		require.Equal(t, ringproof.Fail, c.Finding(h, nil).Verdict, c.Name)
		h.Evidence.Gap = "no log holds entry 41"
		f := c.Finding(h, nil)
		require.Equal(t, ringproof.Inconclusive, f.Verdict, f.String())
		require.Contains(t, f.Message, "no log holds entry 41")
	}
}

// TestAClaimTakesWhatItsPodWrote until that ends, and not only what it had when it was deleted.
func TestAClaimTakesWhatItsPodWrote(t *testing.T) {
	h := claimless()
	event(h, ringproof.Event{At: sec(42), Kind: ringproof.EventProcessExited, Machine: "m2"})
	l := newLedger(h)
	require.True(t, l.taken("m2", sec(41)))
	require.False(t, l.taken("m2", sec(43)))
	require.True(t, l.taken("m3", sec(43)), "its pod runs on")
	require.False(t, l.taken("m1", sec(41)))
}

// leaves has a fault make the machine's log that of a ring of one.
func leaves(h *ringproof.History, machine string) {
	h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "force", Fault: &ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Leave: ringproof.LeaveForced}})
	event(h, ringproof.Event{At: sec(20), Kind: ringproof.EventFaultLanded, Step: "force", Fault: ringproof.FaultVolumeLoss, Machine: machine})
}

// TestConvergenceSaysWhatItShowed: a ring that faults had left whole has mended
// nothing after it. One whose last fault nobody had looked at yet may have.
func TestConvergenceSaysWhatItShowed(t *testing.T) {
	const idle = "nothing was left to mend"
	message := func(plant func(*ringproof.History)) string {
		h := healthy()
		plant(h)
		f := converges.Finding(h, nil)
		require.Equal(t, ringproof.Pass, f.Verdict, "%s", f.Message)
		return f.Message
	}
	require.Contains(t, message(func(*ringproof.History) {}), idle)
	require.NotContains(t, message(func(h *ringproof.History) { h.Observations[3].Members[2].Serving = false }), idle)
	require.NotContains(t, message(func(h *ringproof.History) { h.Observations[3].Fresh = false }), idle)
	require.NotContains(t, message(func(h *ringproof.History) {
		event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultKill, Machine: "m1"})
	}), idle)
}

func TestDisasterPasses(t *testing.T) {
	h := ruined()
	for _, name := range []string{"disaster", "halts", "acknowledged-writes-survive"} {
		c, _ := Lookup(name)
		f := c.Finding(h, nil)
		require.Equal(t, ringproof.Pass, f.Verdict, f.String())
	}
}

// TestADisasterAsksForWhatLiesWithinATransaction as for what was put alone.
func TestADisasterAsksForWhatLiesWithinATransaction(t *testing.T) {
	for name, c := range map[string]struct {
		surviving, unknown []string
		want               ringproof.Verdict
		says               string
	}{
		"it is there": {[]string{"v2", "v3", "v4", "v5"}, nil, ringproof.Pass, "all 4 keys"},
		"it is gone":  {[]string{"v2", "v3", "v4"}, nil, ringproof.Fail, "1 of 4 keys are gone"},
		"nobody read": {nil, []string{"the log of m1: wal: crc mismatch"}, ringproof.Inconclusive, "not read"},
	} {
		t.Run(name, func(t *testing.T) {
			h := ruined()
			last := &h.Operations[len(h.Operations)-1]
			inner := ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{last.Request}}
			last.Request = ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{inner}}
			last.Response.Succeeded, last.Response.Results = true, []ringproof.Response{{Succeeded: true, Results: []ringproof.Response{{}}}}
			h.Evidence.Surviving, h.Evidence.Unknown = c.surviving, c.unknown
			for _, check := range []Check{disaster, acknowledgedWritesSurvive} {
				f := check.Finding(h, nil)
				require.Equal(t, c.want, f.Verdict, f.String())
				require.Contains(t, f.Message, c.says)
			}
		})
	}
}

// ending is of a ring that was deleted in the end.
func ending(e ringproof.Ending) func(*ringproof.History) {
	return func(h *ringproof.History) { h.Plan.End, h.Evidence.End = &ringproof.End{Within: 60e9}, &e }
}

// TestPlantedBugs plants one bug, or takes away one piece of evidence, in a
// history that is otherwise good.
func TestPlantedBugs(t *testing.T) {
	const bug, gap, ok = ringproof.Fail, ringproof.Inconclusive, ringproof.Pass
	judged := map[string][]ringproof.Verdict{}
	defer func() {
		for _, c := range append(All(), Always()...) {
			want := []ringproof.Verdict{ok, bug, gap}
			if c.Doubts {
				want = []ringproof.Verdict{ok, gap} // it never fails
			}
			if c.Finding(healthy(), nil).Verdict == ok {
				judged[c.Name] = append(judged[c.Name], ok)
			}
			require.Subset(t, judged[c.Name], want, "%s: show a history that it passes, one that it fails, and one that is too little to tell", c.Name)
		}
	}()
	for _, test := range []struct {
		check  string
		name   string
		want   ringproof.Verdict
		plant  func(h *ringproof.History)
		says   string
		params map[string]string
	}{
		{check: "assumptions", name: "too few answers", want: gap, plant: func(h *ringproof.History) { h.Plan.Assumptions.MinAcked = 99 }, says: "at least 99"},
		{check: "assumptions", name: "fault downgraded", want: gap, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(19.9), Kind: ringproof.EventFaultDowngraded, Step: "lose", Fault: ringproof.FaultVolumeLoss, Text: `to "kill": unfair`})
		}, says: "as it is written, lose did not"},
		{check: "assumptions", name: "fault missed on one target", want: gap, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(20), Kind: ringproof.EventFaultMissed, Step: "lose", Machine: "m5"})
		}, says: "lose did not"},
		{check: "assumptions", name: "fault missed", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventFaultLanded) }, says: "lose"},

		{check: "steps", name: "a step failed", want: bug, plant: func(h *ringproof.History) {
			drop(h, ringproof.EventStepDone)
			event(h, ringproof.Event{At: sec(51), Kind: ringproof.EventStepFailed, Step: "even", Text: "expected 7 voters, saw 3"})
		}, says: "step even: expected 7 voters, saw 3"},
		{check: "steps", name: "a step could not be tried", want: gap, plant: func(h *ringproof.History) {
			drop(h, ringproof.EventStepDone)
			event(h, ringproof.Event{At: sec(51), Kind: ringproof.EventStepMissed, Step: "even", Text: "nobody leads"})
		}, says: "not tried: nobody leads"},
		{check: "steps", name: "an operation that nobody asked for, in a disaster", want: gap, plant: func(h *ringproof.History) {
			h.Plan.Mode = ringproof.ModeDisaster
			drop(h, ringproof.EventStepDone)
			event(h, ringproof.Event{At: sec(51), Kind: ringproof.EventStepMissed, Step: "even", Text: "leader-changed did not come for the 20th time"})
		}, says: "step even was not tried: leader-changed did not come"},
		{check: "steps", name: "a step that never began", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventStepDone) }, says: "the run ended before it"},
		{check: "steps", name: "nothing asked", want: gap, plant: func(h *ringproof.History) { h.Plan.Steps = h.Plan.Steps[:1] }, says: "asks for nothing"},
		{check: "steps", name: "no end", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventRunEnds) }, says: "cut off"},

		{check: "linearizable", name: "two writes at one revision", want: bug, plant: func(h *ringproof.History) {
			h.Operations[1].Call, h.Operations[1].Response.Revision = sec(10.5), 2
		}, says: "its own"},
		{check: "linearizable", name: "order against real time", want: bug, plant: func(h *ringproof.History) {
			h.Operations[0].Response.Revision, h.Operations[3].Response.Revision = 5, 2
		}, says: "before the call"},
		{check: "linearizable", name: "invented value", want: bug, plant: func(h *ringproof.History) {
			h.Watches[0].Events = append(h.Watches[0].Events, ringproof.WatchEvent{Revision: 9, KV: ringproof.KV{Key: "/w/0", Value: "ghost"}})
		}, says: "only values that clients wrote"},
		{check: "linearizable", name: "refused write applied", want: bug, plant: func(h *ringproof.History) {
			h.Operations[2].Response, h.Operations[2].Refused = nil, true
		}, says: "refused"},
		{check: "linearizable", name: "no answers", want: gap, plant: func(h *ringproof.History) { h.Operations = nil }, says: "nothing to judge"},

		{check: "acknowledged-writes-survive", name: "key missing", want: bug, plant: func(h *ringproof.History) { h.Evidence.Dump = h.Evidence.Dump[1:] }, says: "/w/0"},
		{check: "acknowledged-writes-survive", name: "ring rolled back", want: bug, plant: func(h *ringproof.History) { h.Evidence.Revision = 4 }, says: "revision 5 or later"},
		{check: "acknowledged-writes-survive", name: "watch passed over", want: bug, plant: func(h *ringproof.History) {
			h.Watches[0].Events = append(h.Watches[0].Events[:1:1], h.Watches[0].Events[2:]...)
		}, says: "revision 3"},
		{check: "acknowledged-writes-survive", name: "no dump", want: gap, plant: func(h *ringproof.History) { h.Evidence.Revision, h.Evidence.Dump = 0, nil }, says: "not read"},

		{check: "watch", name: "disordered", want: bug, plant: func(h *ringproof.History) {
			e := h.Watches[0].Events
			e[0], e[1] = e[1], e[0]
		}, says: "Resumable"},
		{check: "watch", name: "out of order", want: bug, plant: func(h *ringproof.History) {
			h.Watches[0].Start = 0
			e := h.Watches[0].Events
			e[1], e[2], e[3] = e[3], e[1], e[2]
		}, says: "Reliable"},
		{check: "watch", name: "twice", want: bug, plant: func(h *ringproof.History) {
			e := h.Watches[0].Events
			h.Watches[0].Events = append(e[:2:2], e[1:]...)
		}, says: "Unique"},
		{check: "watch", name: "goes back", want: bug, plant: func(h *ringproof.History) {
			e := h.Watches[0].Events
			h.Watches[0].Events = append(e[:2:2], e[0], e[2])
		}, says: "Ordered"},
		{check: "watch", name: "one missing", want: bug, plant: func(h *ringproof.History) {
			e := h.Watches[0].Events
			h.Watches[0].Events = append(e[:1:1], e[2:]...)
		}, says: "Reliable"},
		{check: "watch", name: "first missing", want: bug, plant: func(h *ringproof.History) { h.Watches[0].Events = h.Watches[0].Events[1:] }, says: "Resumable"},
		{check: "watch", name: "bookmark too early", want: bug, plant: func(h *ringproof.History) {
			e := h.Watches[0].Events
			e[3], e[4] = e[4], e[3]
		}, says: "Bookmarkable"},
		{check: "watch", name: "revision torn", want: bug, plant: func(h *ringproof.History) {
			whole := h.Watches[0]
			whole.Events = append(whole.Events[:4:4], ringproof.WatchEvent{Revision: 6, KV: ringproof.KV{Key: "/ringadm/a"}}, ringproof.WatchEvent{Revision: 6, KV: ringproof.KV{Key: "/ringadm/b"}})
			torn := whole
			torn.Events = whole.Events[:5]
			h.Watches = []ringproof.Watch{whole, torn}
		}, says: "Atomic"},
		{check: "watch", name: "wrong previous value", want: bug, plant: func(h *ringproof.History) {
			e := &h.Watches[0].Events[2]
			e.KV.CreateRevision, e.Create, e.Prev = 1, false, &ringproof.KV{Key: "/w/9", ModRevision: 1}
		}, says: "PrevKV"},
		{check: "watch", name: "creation denied", want: bug, plant: func(h *ringproof.History) { h.Watches[0].Events[2].Create = false }, says: "IsCreate"},
		{check: "watch", name: "another prefix", want: bug, plant: func(h *ringproof.History) { h.Watches[0].Prefix = "/x/" }, says: "Filter"},
		{check: "watch", name: "no streams", want: gap, plant: func(h *ringproof.History) { h.Watches = nil }, says: "no watch stream"},

		{check: "revision-monotone", name: "client told less", want: bug, plant: func(h *ringproof.History) { h.Operations[3].Response.Revision = 3 }, says: "client 0"},
		{check: "revision-monotone", name: "member's term falls", want: bug, plant: func(h *ringproof.History) { h.Observations[3].Members[0].Term = 1 }, says: "term 2"},
		{check: "revision-monotone", name: "member's revision falls", want: bug, plant: func(h *ringproof.History) { h.Observations[3].Members[0].Revision = 1 }, says: "without a restart"},
		{check: "revision-monotone", name: "nothing seen", want: gap, plant: func(h *ringproof.History) { h.Operations, h.Observations = nil, nil }, says: "no operation"},

		{check: "hash-equal", name: "hashes differ", want: bug, plant: func(h *ringproof.History) { h.Evidence.Hashes[1].Hash = 8 }, says: "revision 5"},
		{check: "hash-equal", name: "releases that hash otherwise", want: gap, plant: func(h *ringproof.History) {
			h.Evidence.Hashes[0].Version, h.Evidence.Hashes[1].Version, h.Evidence.Hashes[1].Hash = "v3.5.15", "v3.5.16", 8
		}, says: "hash alike"},
		{check: "hash-equal", name: "a third that gave no answer", want: gap, plant: func(h *ringproof.History) {
			h.Evidence.Hashes = append(h.Evidence.Hashes, ringproof.Hash{Machine: "m3", Member: 3, Version: "3.6.1", Revision: 5, Err: "context deadline exceeded"})
		}, says: "m3"},
		{check: "hash-equal", name: "a third at another compaction", want: gap, plant: func(h *ringproof.History) {
			h.Evidence.Hashes = append(h.Evidence.Hashes, ringproof.Hash{Machine: "m3", Member: 3, Version: "3.6.1", Revision: 5, Compact: 4, Hash: 9})
		}, says: "m3"},
		{check: "hash-equal", name: "a third that hashes otherwise", want: ok, plant: func(h *ringproof.History) {
			h.Evidence.Hashes = append(h.Evidence.Hashes, ringproof.Hash{Machine: "m3", Member: 3, Version: "3.5.21", Revision: 5, Hash: 9})
		}},
		{check: "hash-equal", name: "hashes differ beside one that gave no answer", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Hashes = append([]ringproof.Hash{{Machine: "m3", Member: 3, Version: "3.6.1", Revision: 5, Err: "context deadline exceeded"}}, h.Evidence.Hashes...)
			h.Evidence.Hashes[1].Hash = 8
		}, says: "revision 5"},
		{check: "hash-equal", name: "one hash of three", want: gap, plant: func(h *ringproof.History) { h.Evidence.Hashes = h.Evidence.Hashes[:1] }, says: "no two members"},

		{check: "available", name: "outage", want: bug, plant: func(h *ringproof.History) {
			h.Operations[2].Response, h.Operations[1].Response, h.Operations[1].Return = nil, nil, sec(19)
		}, says: "none for 11s", params: map[string]string{"maxGap": "10s"}},
		{check: "available", name: "outage that lasts to the end", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(68), Kind: ringproof.EventLoadEnds})
			h.Operations = append(h.Operations, ringproof.Operation{Call: sec(30), Return: ringproof.Forever, Request: ringproof.Request{Kind: ringproof.RequestGet, Key: "/w/0"}})
		}, says: "saw none for 38s"},
		{check: "available", name: "nobody asks", want: gap, plant: func(h *ringproof.History) { h.Operations = nil }, says: "no client"},

		{check: "one-cluster-identity", name: "a discarded disk of another ring", want: bug, plant: func(h *ringproof.History) { h.Evidence.Logs[1].ClusterID = 0xc2 }, says: "saw 2"},
		{check: "one-cluster-identity", name: "a log that somebody made that of a ring of one", want: bug, plant: func(h *ringproof.History) { h.Evidence.Logs[1].Forced = 40 }, says: "ring of one"},
		{check: "one-cluster-identity", name: "a log that a fault made so", want: ok, plant: func(h *ringproof.History) {
			h.Evidence.Logs[1].Forced = 40
			leaves(h, h.Evidence.Logs[1].Machine)
		}},
		{check: "one-cluster-identity", name: "a log that is like one that a fault made so elsewhere", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Logs[1].Forced = 40
			leaves(h, h.Evidence.Logs[0].Machine)
		}, says: "ring of one"},
		{check: "one-cluster-identity", name: "an answer of another ring", want: bug, plant: func(h *ringproof.History) { h.Operations[2].Response.ClusterID = 0xc2 }, says: "saw 2"},
		{check: "one-cluster-identity", name: "nothing tells", want: gap, plant: func(h *ringproof.History) {
			*h = ringproof.History{Plan: h.Plan}
		}, says: "no answer"},

		{check: "quorum-margin", name: "voter before it starts", want: bug, plant: func(h *ringproof.History) {
			insert(h, 3, entry("add-voter", 5, 15))
		}, says: "4 voters, 3 intact, quorum 3"},
		{check: "quorum-margin", name: "a healthy voter's removal that etcd refused", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Rejected = []ringproof.Rejection{{At: sec(40), Machine: "m1", Kind: "remove", Member: 3, Why: "etcdserver: unhealthy cluster"}}
		}, says: "2 voters, 2 intact, quorum 2; etcd refused it: etcdserver: unhealthy cluster"},
		{check: "quorum-margin", name: "the lost one's removal, which etcd refused at first", want: ok, plant: func(h *ringproof.History) {
			h.Evidence.Rejected = []ringproof.Rejection{{At: sec(23), Machine: "m1", Kind: "remove", Member: 2, Why: "etcdserver: unhealthy cluster"}}
		}},
		{check: "quorum-margin", name: "a learner that etcd would not take", want: ok, plant: func(h *ringproof.History) {
			h.Evidence.Rejected = []ringproof.Rejection{{At: sec(23), Machine: "m1", Kind: "add-learner", Member: 9, Why: "etcdserver: unhealthy cluster"}}
		}},
		{check: "quorum-margin", name: "one whose volume was deleted under it", want: ok, plant: func(h *ringproof.History) {
			deleted(h, ringproof.ObjectVolume)
		}},
		{check: "quorum-margin", name: "one whose pod was deleted", want: bug, plant: func(h *ringproof.History) {
			deleted(h, ringproof.ObjectPod)
		}, says: "remove of 2"},
		{check: "quorum-margin", name: "a voter that etcd would not take", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Rejected = []ringproof.Rejection{{At: sec(40), Machine: "m1", Kind: "add-voter", Member: 9, Why: "etcdserver: unhealthy cluster"}}
		}, says: "etcd refused it"},
		{check: "quorum-margin", name: "healthy voter removed", want: bug, plant: func(h *ringproof.History) {
			insert(h, 3, entry("remove", 3, 15))
		}, says: "2 voters"},
		{check: "quorum-margin", name: "voter wiped on a disk that has replaced a lost one", want: bug, plant: func(h *ringproof.History) { h.Observations[4].Machines[1].Disk = 3 }, says: "without a fault"},
		{check: "quorum-margin", name: "disk lost twice at once", want: ringproof.Pass, plant: func(h *ringproof.History) {
			h.Observations[1].Machines[1].Disk = 3
			again := h.Events[2]
			again.At = again.At.Add(time.Second / 2)
			event(h, again)
		}},
		{check: "quorum-margin", name: "disk lost a moment after its machine had said that it was new", want: ringproof.Pass, plant: func(h *ringproof.History) {
			lostWhenNew(h)
		}},
		{check: "quorum-margin", name: "voter wiped a moment after its disk was lost", want: bug, plant: func(h *ringproof.History) {
			lostWhenNew(h)
			drop(h, ringproof.EventDiskReplaced)
		}, says: "without a fault"},
		{check: "quorum-margin", name: "voter wiped", want: bug, plant: func(h *ringproof.History) { h.Observations[4].Machines[0].Disk = 2 }, says: "without a fault"},
		{check: "quorum-margin", name: "no logs", want: gap, plant: func(h *ringproof.History) { h.Evidence.Changes = nil }, says: "logs"},

		{check: "one-change-at-a-time", name: "two learners", want: bug, plant: func(h *ringproof.History) {
			insert(h, 5, entry("add-learner", 5, 31))
		}, says: "before add-learner of 5"},
		{check: "one-change-at-a-time", name: "healthy member removed meanwhile", want: bug, plant: func(h *ringproof.History) {
			insert(h, 5, entry("remove", 3, 31))
		}, says: "before remove of 3"},
		{check: "one-change-at-a-time", name: "member that is away for good removed meanwhile", want: ringproof.Pass, plant: func(h *ringproof.History) { removedBesideALearner(h, 5*time.Second) }},
		{check: "one-change-at-a-time", name: "member that may come back removed meanwhile", want: bug, plant: func(h *ringproof.History) { removedBesideALearner(h, time.Minute) }},
		{check: "one-change-at-a-time", name: "no logs", want: gap, plant: func(h *ringproof.History) { h.Evidence.Changes = nil }, says: "logs"},

		{check: "learner-first", name: "voter added", want: bug, plant: func(h *ringproof.History) { insert(h, 6, entry("add-voter", 5, 40)) }, says: "as a voter"},
		{check: "learner-first", name: "votes without promotion", want: bug, plant: func(h *ringproof.History) { h.Evidence.Changes = h.Evidence.Changes[:5] }, says: "no entry"},
		{check: "learner-first", name: "no logs", want: gap, plant: func(h *ringproof.History) { h.Evidence.Changes = nil }, says: "logs"},

		{check: "no-ghost-members", name: "never started", want: bug, plant: func(h *ringproof.History) { h.Evidence.Final.Members[2].Name = "" }, says: "no name"},
		{check: "no-ghost-members", name: "machine lost", want: bug, plant: func(h *ringproof.History) { h.Evidence.Final.Machines[0].Lost = true }, says: "lost"},
		{check: "no-ghost-members", name: "doesn't serve", want: bug, plant: func(h *ringproof.History) { h.Evidence.Final.Members[0].Serving = false }, says: "serve"},
		{check: "no-ghost-members", name: "lists differ", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Final.Members[0].Peers = []ringproof.MemberID{1, 2, 3}
		}, says: "list"},
		{check: "no-ghost-members", name: "list not read", want: gap, plant: func(h *ringproof.History) { h.Evidence.Final.Fresh = false }, says: "quorum"},

		{check: "no-identity-reuse", name: "same ID on a new disk", want: bug, plant: func(h *ringproof.History) {
			h.Observations[2] = seen(33, 2, 1, 2, 3)
		}, says: "member 2 on one disk"},
		{check: "no-identity-reuse", name: "serves after removal", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventMemberUp, Member: 2})
		}, says: "after its removal"},
		{check: "no-identity-reuse", name: "answers after removal", want: bug, plant: func(h *ringproof.History) {
			h.Operations[3].Response.Member, h.Evidence.Changes[3].At = 2, sec(21)
		}, says: "after its removal"},
		{check: "no-identity-reuse", name: "tells of itself after removal", want: ok, plant: func(h *ringproof.History) {
			h.Operations[3].Request.Kind = ringproof.RequestStatus
			h.Operations[3].Response.Member, h.Evidence.Changes[3].At = 2, sec(21)
		}},
		{check: "no-identity-reuse", name: "no disk read", want: gap, plant: func(h *ringproof.History) { h.Evidence.Logs = nil }, says: "no member's log was found"},
		{check: "no-identity-reuse", name: "nothing seen", want: gap, plant: func(h *ringproof.History) { h.Evidence.Logs, h.Observations = nil, nil }, says: "no member"},

		{check: "refusals", name: "not refused", want: bug, plant: func(h *ringproof.History) { drop(h, ringproof.EventRefused) }, says: "to be refused"},
		{check: "refusals", name: "half done", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(50.5), Kind: ringproof.EventMemberAdded, Member: 5})
		}, says: "unchanged"},
		{check: "refusals", name: "clears a disk meanwhile", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(50.5), Kind: ringproof.EventActionBegun, Action: "clear", Machine: "m9"})
		}, says: "unchanged"},
		{check: "refusals", name: "clears the disk of a member that left before", want: ok, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(49.9), Kind: ringproof.EventMemberRemoved, Member: 9, Machine: "m9"})
			event(h, ringproof.Event{At: sec(50.5), Kind: ringproof.EventActionBegun, Action: "clear", Machine: "m9"})
		}},
		{check: "refusals", name: "clears it twice", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(49.9), Kind: ringproof.EventMemberRemoved, Member: 9, Machine: "m9"})
			event(h, ringproof.Event{At: sec(50.4), Kind: ringproof.EventActionBegun, Action: "clear", Machine: "m9"})
			event(h, ringproof.Event{At: sec(50.5), Kind: ringproof.EventActionBegun, Action: "clear", Machine: "m9"})
		}, says: "unchanged"},
		{check: "refusals", name: "never asked", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventStepBegun) }, says: "never began"},

		{check: "converges", name: "too late", want: bug, plant: func(h *ringproof.History) {}, says: "within 1s", params: map[string]string{"within": "1s"}},
		{check: "converges", name: "never", want: bug, plant: func(h *ringproof.History) { drop(h, ringproof.EventConverged) }, says: "at the end only", params: map[string]string{"within": "9s"}},
		{check: "converges", name: "on the machine that was to be vacated", want: bug, plant: func(h *ringproof.History) { h.Evidence.Vacant = []string{"m3"} }, says: "member 3 on m3, which was to be replaced"},
		{check: "converges", name: "on a machine that is lost", want: bug, plant: func(h *ringproof.History) { h.Evidence.Final.Machines[2].Lost = true }, says: "member 3 on m3, which is lost"},
		{check: "converges", name: "on a machine that is off", want: bug, plant: func(h *ringproof.History) { h.Evidence.Final.Machines[2].Up = false }, says: "member 3 on m3, which is off"},
		{check: "converges", name: "on files that were removed", want: bug, plant: func(h *ringproof.History) { h.Evidence.Final.Machines[2].Open = 1 }, says: "member 3 on m3, whose data were removed"},
		{check: "converges", name: "beside an object that says nothing", want: bug, plant: func(h *ringproof.History) { h.Evidence.Final.Amiss = []string{"services/etcd"} }, says: "services/etcd not set right"},
		{check: "converges", name: "removed without effect", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Spec = 1
			event(h, ringproof.Event{At: sec(64), Kind: ringproof.EventActionDone, Action: "remove", Member: 3, Machine: "m3"})
		}, says: "says that it removed 3 on m3 1 times"},
		{check: "converges", name: "to another size", want: bug, plant: func(h *ringproof.History) { h.Evidence.Spec = 5 }, says: "5 voters"},
		{check: "converges", name: "no end of all faults", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventHealPhase) }, says: "heal-phase"},
		{check: "converges", name: "cut short", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventConverged) }, says: "before the 45s"},
		{check: "converges", name: "disaster", want: gap, plant: func(h *ringproof.History) { h.Plan.Mode = ringproof.ModeDisaster }, says: "isn't asked"},

		{check: "quiescent", name: "acts on", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(65), Kind: ringproof.EventActionBegun, Action: "restart"})
		}, says: "action-begun"},
		{check: "quiescent", name: "membership changes", want: bug, plant: func(h *ringproof.History) { insert(h, 6, entry("remove", 3, 66)) }, says: "remove of 3"},
		{check: "quiescent", name: "object written as records are made anew", want: ok, plant: func(h *ringproof.History) {
			versions(h, "1", "2", "3", "4", "5")
			event(h, ringproof.Event{At: sec(64.5), Kind: ringproof.EventActionBegun, Action: "bind", Member: 3})
		}},
		{check: "quiescent", name: "object written for ever", want: bug, plant: func(h *ringproof.History) { versions(h, "1", "2", "3", "4", "5") }, says: "written anew before each of 3 looks"},
		{check: "quiescent", name: "object written by two until the convergence is seen", want: bug, plant: func(h *ringproof.History) {
			for i, v := range []string{"1", "2", "3", "4", "4"} {
				h.Evidence.Statuses = append(h.Evidence.Statuses, ringproof.Status{At: sec(60.1 + float64(i)/5), Object: v})
			}
		}, says: "written anew before each of 3 looks"},
		{check: "quiescent", name: "status that follows", want: ok, plant: func(h *ringproof.History) { versions(h, "1", "2", "3", "3", "") }},
		{check: "quiescent", name: "not watched long", want: gap, plant: func(h *ringproof.History) {}, says: "8s", params: map[string]string{"atLeast": "10s"}},
		{check: "quiescent", name: "no rest", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventConverged) }, says: "no rest"},

		{check: "no-leftovers", name: "etcd left", want: bug, plant: func(h *ringproof.History) { h.Evidence.Leftovers = []string{"etcd 4711"} }, says: "saw 1"},
		{check: "no-leftovers", name: "run not ended", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventRunEnds) }, says: "run-ends"},

		{check: "disaster", name: "second ring", want: bug, plant: func(h *ringproof.History) { *h = *ruined(); h.Evidence.Logs[2].ClusterID = 0xc2 }, says: "second ring"},
		{check: "disaster", name: "ring of one", want: bug, plant: func(h *ringproof.History) { *h = *ruined(); h.Evidence.Logs[0].Forced = 40 }, says: "ring of one"},
		{check: "disaster", name: "answers again", want: bug, plant: func(h *ringproof.History) {
			*h = *ruined()
			o := h.Operations[len(h.Operations)-1]
			o.Call, o.Return = sec(60), sec(60.1)
			h.Operations = append(h.Operations, o)
		}, says: "no answer"},
		{check: "disaster", name: "answers who asked before it", want: ok, plant: func(h *ringproof.History) {
			*h = *ruined()
			o := h.Operations[len(h.Operations)-1]
			o.Call, o.Return = sec(39), sec(60)
			h.Operations = append(h.Operations, o)
		}},
		{check: "disaster", name: "the pods of the deleted claims run on", want: gap, plant: func(h *ringproof.History) { *h = *claimless() }, says: "no pod has ended"},
		{check: "disaster", name: "the pods of the deleted claims end", want: ok, plant: func(h *ringproof.History) {
			*h = *claimless()
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventActionBegun, Machine: "m1", Action: "add-learner"})
			for _, m := range []string{"m2", "m3"} {
				event(h, ringproof.Event{At: sec(42), Kind: ringproof.EventProcessExited, Machine: m})
			}
		}},
		{check: "halts", name: "silent", want: bug, plant: func(h *ringproof.History) { *h = *ruined(); drop(h, ringproof.EventHalted) }, says: "no such halt"},
		{check: "disaster", name: "last copy deleted", want: bug, plant: func(h *ringproof.History) { *h = *ruined(); h.Evidence.Surviving = nil }, says: "gone"},
		{check: "halts", name: "waits only", want: bug, plant: func(h *ringproof.History) {
			*h = *ruined()
			drop(h, ringproof.EventHalted)
			event(h, ringproof.Event{At: sec(45), Kind: ringproof.EventWaiting, Text: "steady"})
		}, says: "no such halt"},
		{check: "halts", name: "halts for another reason", want: bug, plant: func(h *ringproof.History) {
			*h = *ruined()
			drop(h, ringproof.EventHalted)
			event(h, ringproof.Event{At: sec(45), Kind: ringproof.EventHalted, Text: "the spec asks for 4 nodes"})
		}, says: "no such halt"},
		{check: "halts", name: "halted before it", want: bug, plant: func(h *ringproof.History) {
			*h = *ruined()
			drop(h, ringproof.EventHalted)
			event(h, ringproof.Event{At: sec(39), Kind: ringproof.EventHalted, Text: "no quorum"})
		}, says: "no such halt"},
		{check: "disaster", name: "changes the ring after it", want: bug, plant: func(h *ringproof.History) {
			*h = *ruined()
			event(h, ringproof.Event{At: sec(50), Kind: ringproof.EventActionBegun, Action: "remove", Machine: "m2"})
		}, says: "saw remove begun"},
		{check: "disaster", name: "what clients reach it by is made anew", want: ok, plant: func(h *ringproof.History) {
			*h = *ruined()
			event(h, ringproof.Event{At: sec(60), Kind: ringproof.EventActionBegun, Action: "kube create service"})
			event(h, ringproof.Event{At: sec(61), Kind: ringproof.EventActionBegun, Action: "kube replace secret"})
			event(h, ringproof.Event{At: sec(62), Kind: ringproof.EventActionBegun, Action: "kube annotate statefulset"})
		}},
		{check: "disaster", name: "its pods are to be others", want: bug, plant: func(h *ringproof.History) {
			*h = *ruined()
			event(h, ringproof.Event{At: sec(60), Kind: ringproof.EventActionBegun, Action: "kube replace statefulset"})
		}, says: "saw kube replace statefulset begun"},
		{check: "disaster", name: "a certificate is deleted", want: bug, plant: func(h *ringproof.History) {
			*h = *ruined()
			event(h, ringproof.Event{At: sec(60), Kind: ringproof.EventActionBegun, Action: "kube delete secret"})
		}, says: "saw kube delete secret begun"},
		{check: "disaster", name: "nothing known to survive", want: gap, plant: func(h *ringproof.History) {
			*h = *ruined()
			h.Observations = nil
		}, says: "nothing can be asked to survive"},

		{check: "one-lead", name: "in turns", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(22), Kind: ringproof.EventLeads, By: "m3"})
			event(h, ringproof.Event{At: sec(31), Kind: ringproof.EventActionBegun, Action: "promote", By: "m1"})
		}, says: "expected m1 to stop changing the ring once m3 leads"},
		{check: "one-lead", name: "nobody says who leads", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventLeads) }, says: "doesn't say"},
		{check: "one-lead", name: "of no change it is told who began it", want: gap, plant: func(h *ringproof.History) {
			for i := range h.Events {
				h.Events[i].Action = ""
			}
		}, says: "of no change it is told"},
		{check: "one-lead", name: "nobody led, and nothing was changed", want: ringproof.Pass, plant: func(h *ringproof.History) {
			drop(h, ringproof.EventLeads)
			drop(h, ringproof.EventActionBegun)
			h.Evidence.Changes = slices.DeleteFunc(h.Evidence.Changes, func(c ringproof.ConfChange) bool { return !c.Initial })
		}, says: "nobody led"},
		{check: "one-lead", name: "nobody led, and no log was read", want: gap, plant: func(h *ringproof.History) {
			drop(h, ringproof.EventLeads)
			drop(h, ringproof.EventActionBegun)
			h.Evidence.Changes = nil
		}, says: "doesn't say"},

		{check: "backup-whole", name: "whole", want: ringproof.Pass, plant: backedUp(4, "/w/0", "/w/1", "/w/2"), says: "1 backup: all that was acknowledged before"},
		{check: "backup-whole", name: "of a member that was cut off", want: bug, plant: backedUp(3, "/w/0", "/w/1"), says: "expected a backup of revision 4 or later"},
		{check: "backup-whole", name: "without a key", want: bug, plant: backedUp(4, "/w/0", "/w/2"), says: `expected /w/1 to be "v3" written at revision 3 (create 3, version 1) in a backup of revision 4, saw absent`},
		{check: "backup-whole", name: "with what came later", want: bug, plant: backedUp(4, "/w/0", "/w/1", "/w/2", "/w/3"), says: `expected /w/3 to be absent in a backup of revision 4, saw /w/3="v5" written at revision 5`},
		{check: "backup-whole", name: "with another value", want: bug, plant: func(h *ringproof.History) {
			backedUp(4, "/w/0", "/w/1", "/w/2")(h)
			h.Evidence.Backups[0].Keys[1].Value = "v9"
		}, says: `expected /w/1 to be "v3" written at revision 3 (create 3, version 1) in a backup of revision 4, saw /w/1="v9"`},
		{check: "backup-whole", name: "with what was deleted", want: bug, plant: func(h *ringproof.History) {
			backedUp(4, "/w/0", "/w/1", "/w/2")(h)
			h.Operations[2].Request, h.Operations[2].Response.Deleted = ringproof.Request{Kind: ringproof.RequestDelete, Key: "/w/1"}, 1
			h.Watches[0].Events[2] = ringproof.WatchEvent{At: sec(22), Revision: 4, Delete: true, KV: ringproof.KV{Key: "/w/1", ModRevision: 4}}
		}, says: `expected /w/1 to be absent in a backup of revision 4, saw /w/1="v3"`},
		{check: "backup-whole", name: "unreadable", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Backups = []ringproof.Backup{{Asked: sec(22), Made: sec(23), Err: "its sum is not that of what it holds"}}
		}, says: "nothing can be read: its sum"},
		{check: "backup-whole", name: "of a ring that nobody wrote to", want: gap, plant: func(h *ringproof.History) {
			backedUp(4)(h)
			h.Operations = nil
		}, says: "a backup has nothing to lack"},
		{check: "backup-whole", name: "none", want: gap, plant: func(h *ringproof.History) {}, says: "no backup was made"},
		{check: "work-bounded", name: "too many changes", want: bug, plant: func(h *ringproof.History) {}, says: "at most 2 membership changes, saw 3", params: map[string]string{"changes": "2"}},
		{check: "work-bounded", name: "a ring that is bootstrapped by growing", want: ringproof.Pass, plant: func(h *ringproof.History) {
			h.Evidence.Changes = grown(3)
		}, params: map[string]string{"changes": "0"}},
		{check: "work-bounded", name: "a ring that grows further than asked", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Changes = grown(4)
		}, says: "at most 0 membership changes, saw 2", params: map[string]string{"changes": "0"}},
		{check: "work-bounded", name: "growth of a ring whose initial members no log has", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Changes = grown(3)[1:]
		}, says: "at most 0 membership changes, saw 4", params: map[string]string{"changes": "0"}},
		{check: "work-bounded", name: "more than the faults explain", want: bug, plant: func(h *ringproof.History) {
			insert(h, 3, append(append(grow(5), entry("remove", 5, 12)), append(grow(6), entry("remove", 6, 14))...)...)
		}, says: "at most 6 membership changes, saw 9"},
		{check: "work-bounded", name: "more than an alarm explains", want: bug, plant: func(h *ringproof.History) {
			h.Plan.Ring.ReplaceAfter = ringproof.Duration(10 * time.Second)
			hitEarly(h, ringproof.Fault{Kind: ringproof.FaultAlarmRaised, Target: "m3"})
		}, says: "at most 8 membership changes, saw 9"},
		{check: "work-bounded", name: "more than the store's outage explains", want: bug, plant: func(h *ringproof.History) {
			h.Plan.Ring.ReplaceAfter = ringproof.Duration(10 * time.Second)
			hitEarly(h, ringproof.Fault{Kind: ringproof.FaultStoreOutage})
		}, says: "at most 8 membership changes, saw 9"},
		{check: "work-bounded", name: "more than a lost store explains", want: bug, plant: func(h *ringproof.History) {
			h.Plan.Ring.ReplaceAfter = ringproof.Duration(10 * time.Second)
			hitEarly(h, ringproof.Fault{Kind: ringproof.FaultStoreLost})
		}, says: "at most 8 membership changes, saw 9"},
		{check: "work-bounded", name: "more than a pause explains for which nobody is replaced", want: bug, plant: func(h *ringproof.History) {
			h.Plan.Ring.ReplaceAfter = ringproof.Duration(10 * time.Second)
			hitEarly(h, ringproof.Fault{Kind: ringproof.FaultPause, Target: "m3", For: ringproof.Duration(3 * time.Second)})
		}, says: "at most 8 membership changes, saw 9"},
		{check: "work-bounded", name: "what a pause explains for which somebody is replaced", want: ringproof.Pass, plant: func(h *ringproof.History) {
			h.Plan.Ring.ReplaceAfter = ringproof.Duration(10 * time.Second)
			hitEarly(h, ringproof.Fault{Kind: ringproof.FaultPause, Target: "m3", For: ringproof.Duration(12 * time.Second)})
		}, says: "9 membership changes of 12"},
		{check: "work-bounded", name: "what short pauses explain that were one long absence", want: ringproof.Pass, plant: func(h *ringproof.History) {
			h.Plan.Ring.ReplaceAfter = ringproof.Duration(10 * time.Second)
			hitEarly(h, ringproof.Fault{Kind: ringproof.FaultPause, Target: "m2", For: ringproof.Duration(6 * time.Second)})
		}, says: "9 membership changes of 11"},
		{check: "work-bounded", name: "an absence that was asked for", want: ringproof.Pass, plant: func(h *ringproof.History) {
			replacedInARestart(h, 10*time.Second)
		}, says: "9 membership changes of 12"},
		{check: "work-bounded", name: "an absence too short to count", want: bug, plant: func(h *ringproof.History) {
			replacedInARestart(h, 9*time.Second)
		}, says: "at most 6 membership changes, saw 9"},
		{check: "work-bounded", name: "a restart of what is well", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventProcessExited, Machine: "m1"})
		}, says: "expected at most 0 ends of etcd"},
		{check: "work-bounded", name: "a restart of what is well while the control plane isn't", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(39), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultKubeKill, Step: "lose"})
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventProcessExited, Machine: "m1"})
		}, says: "expected at most 0 ends of etcd"},
		{check: "work-bounded", name: "a restart where faults hit the controller alone", want: bug, plant: func(h *ringproof.History) {
			h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "late", Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Scope: ringproof.ScopeController}})
			event(h, ringproof.Event{At: sec(39), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultAgentCrash, Step: "late", Machine: "m1"})
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventProcessExited, Machine: "m1"})
		}, says: "expected at most 0 ends of etcd"},
		{check: "work-bounded", name: "a start that fails by itself", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventProcessStarted, Machine: "m3"})
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventProcessExited, Machine: "m3"})
		}, says: "expected at most 0 ends of etcd"},
		{check: "work-bounded", name: "a start that a change overtakes", want: ringproof.Pass, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventProcessStarted, Machine: "m3"})
			event(h, ringproof.Event{At: sec(40.5), Kind: ringproof.EventMemberRemoved, Machine: "m1"})
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventProcessExited, Machine: "m3"})
		}, says: "0 needless ends"},
		{check: "work-bounded", name: "a start that an old list ends", want: ringproof.Pass, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventProcessExited, Machine: "m3", Text: "etcd, pid 7, fatal: discovery failed: error validating peerURLs {…}: member count is unequal"})
		}, says: "0 needless ends"},
		{check: "work-bounded", name: "starts that an old list ends and no fault hit", want: bug, plant: func(h *ringproof.History) {
			drop(h, ringproof.EventFaultLanded)
			h.Evidence.Changes = slices.DeleteFunc(h.Evidence.Changes, func(c ringproof.ConfChange) bool { return !c.Initial })
			for _, at := range []float64{41, 42} {
				event(h, ringproof.Event{At: sec(at), Kind: ringproof.EventProcessExited, Machine: "m3", Text: "etcd, pid 7, fatal: discovery failed: error validating peerURLs {…}: member count is unequal"})
			}
		}, says: "expected at most 0 ends of etcd on machines that no fault hit and nobody restarted, saw 1"},
		{check: "work-bounded", name: "a start that nobody answers as all hang", want: ringproof.Pass, plant: func(h *ringproof.History) {
			joinerUnanswered(h, "m1", "m2")
		}, says: "0 needless ends"},
		{check: "work-bounded", name: "a start that nobody answers though one is well", want: bug, plant: func(h *ringproof.History) {
			joinerUnanswered(h, "m1")
		}, says: "expected at most 0 ends of etcd"},
		{check: "work-bounded", name: "a start that nobody answers before anybody runs", want: bug, plant: func(h *ringproof.History) {
			joinerUnanswered(h)
			drop(h, ringproof.EventProcessStarted)
		}, says: "expected at most 0 ends of etcd"},
		{check: "work-bounded", name: "a start that its flags end", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventProcessExited, Machine: "m3", Text: "etcd, pid 7, fatal: listen tcp: address already in use"})
		}, says: "expected at most 0 ends of etcd"},
		{check: "work-bounded", name: "a change of a ring that is suspended", want: bug, plant: func(h *ringproof.History) {
			suspended(h, 15, 40)
		}, says: "expected nothing to be changed while the ring is suspended, saw add-learner"},
		{check: "work-bounded", name: "a change that nobody tells of", want: bug, plant: func(h *ringproof.History) {
			suspended(h, 3, 40)
			drop(h, ringproof.EventActionBegun)
		}, says: "while the ring is suspended, saw remove"},
		{check: "runs-as-asked", name: "a pod without what was asked for", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Unlike = []string{"pod r-1 without requests of 101Mi of memory"}
		}, says: "as was asked for, saw pod r-1 without requests"},
		{check: "runs-as-asked", name: "a flag that was dropped", want: bug, plant: func(h *ringproof.History) {
			delete(h.Evidence.Etcds[2].Flags, "heartbeat-interval")
		}, says: "no --heartbeat-interval, and not --heartbeat-interval=50"},
		{check: "runs-as-asked", name: "a flag with another value", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Etcds[2].Flags["heartbeat-interval"] = "100"
		}, says: "that of m3 with --heartbeat-interval=100, and not 50"},
		{check: "runs-as-asked", name: "another release", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Etcds[0].Releases = []string{"v3.5.35"}
		}, says: "etcd v3.5.35, and not v3.6.16"},
		{check: "runs-as-asked", name: "no guard", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Etcds[0].Flags["strict-reconfig-check"] = "false"
		}, says: "lets go what leaves no quorum"},
		{check: "runs-as-asked", name: "no release known", want: gap, plant: func(h *ringproof.History) {
			for i := range h.Evidence.Etcds {
				h.Evidence.Etcds[i].Releases = nil
			}
		}, says: "m1: of which release its program is, is not known"},
		{check: "runs-as-asked", name: "one of three that serves isn't known", want: gap, plant: func(h *ringproof.History) { h.Evidence.Etcds = h.Evidence.Etcds[1:] }, says: "m1: no etcd was found there"},
		{check: "runs-as-asked", name: "one of three that serves, and of which nobody knows what was asked", want: gap, plant: func(h *ringproof.History) { delete(h.Evidence.Asked, "m1") }, says: "m1: what it was last asked"},
		{check: "runs-as-asked", name: "no guard, and nobody knows what was asked", want: bug, plant: func(h *ringproof.History) {
			delete(h.Evidence.Asked, "m1")
			h.Evidence.Etcds[0].Flags["strict-reconfig-check"] = "false"
		}, says: "lets go what leaves no quorum"},
		{check: "runs-as-asked", name: "one of three that doesn't run", want: ok, plant: func(h *ringproof.History) {
			h.Evidence.Etcds = h.Evidence.Etcds[1:]
			h.Evidence.Final.Members[0].Serving = false
		}},
		{check: "runs-as-asked", name: "nothing known", want: gap, plant: func(h *ringproof.History) { h.Evidence.Etcds = nil }, says: "how it was started"},
		{check: "runs-as-asked", name: "nobody knows what was asked", want: gap, plant: func(h *ringproof.History) { h.Evidence.Asked = nil }, says: "how it was started"},
		{check: "work-bounded", name: "no logs", want: gap, plant: func(h *ringproof.History) { h.Evidence.Changes = nil }, says: "logs were not read"},
		{check: "work-bounded", name: "no end", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventRunEnds) }, says: "run-ends"},
		{check: "halts", name: "no disaster", want: gap, plant: func(h *ringproof.History) { *h = *ruined(); drop(h, ringproof.EventFaultLanded) }, says: "no fault"},
		{check: "no-false-alarm", name: "no end", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventRunEnds) }, says: "run-ends"},
		{check: "no-false-alarm", name: "nobody has answered for long", want: ok, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventHalted, Text: "no quorum has answered"})
		}},
		{check: "no-false-alarm", name: "a moment after an answer", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(18), Kind: ringproof.EventHalted, Text: "no quorum has answered"})
		}, says: "2s after one"},
		{check: "halts", name: "safe plan", want: gap, plant: func(h *ringproof.History) {}, says: "mode"},
		{check: "disaster", name: "no disaster", want: gap, plant: func(h *ringproof.History) { *h = *ruined(); drop(h, ringproof.EventFaultLanded) }, says: "no fault"},
		{check: "disaster", name: "safe plan", want: gap, plant: func(h *ringproof.History) {}, says: "mode"},
		{check: "disaster", name: "it halts", want: ok, plant: func(h *ringproof.History) { *h = *ruined() }},
		{check: "halts", name: "it halts", want: ok, plant: func(h *ringproof.History) { *h = *ruined() }},

		{check: "leases", name: "kept", want: ok, plant: func(h *ringproof.History) { *h = *tenanted() }},
		{check: "leases", name: "cut short", want: bug, plant: func(h *ringproof.History) {
			*h = *tenanted()
			for i := range h.Watches[0].Events[2:] {
				h.Watches[0].Events[2+i].At = sec(8)
			}
		}, says: "lease"},
		{check: "leases", name: "none", want: gap, plant: func(h *ringproof.History) {}, says: "granted a lease"},
		{check: "upkeep", name: "as it should be", want: ok, plant: func(h *ringproof.History) { *h = *operated() }},
		{check: "upkeep", name: "another hash", want: bug, plant: func(h *ringproof.History) {
			*h = *operated()
			h.Operations[3].Response.Upkeep.Hash = 8
		}, says: "expected equal hashes"},
		{check: "upkeep", name: "nobody asked", want: gap, plant: func(h *ringproof.History) {}, says: "no client asked"},
		{check: "no-panic", name: "a panic", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventProcessExited, Machine: "m3", Text: "etcd, pid 7, panic: assertion failed"})
		}, says: "assertion failed"},
		{check: "no-panic", name: "a read of one that has just been removed", want: ok, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventMemberRemoved, Machine: "m3"})
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventProcessExited, Machine: "m3", Text: closedUnderAReader})
		}},
		{check: "no-panic", name: "a read of one that is to stay", want: bug, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventMemberRemoved, Machine: "m2"})
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventProcessExited, Machine: "m3", Text: closedUnderAReader})
		}, says: "nil pointer"},
		{check: "no-panic", name: "no etcd", want: gap, plant: func(h *ringproof.History) { drop(h, ringproof.EventProcessExited) }, says: "no etcd process"},
		{check: "no-trespass", name: "a dry run", want: ok, plant: tempted},
		{check: "no-trespass", name: "a dry run that writes", want: bug, plant: func(h *ringproof.History) {
			tempted(h)
			event(h, ringproof.Event{At: sec(42), Kind: ringproof.EventTrespass, Machine: "m1", Text: "etcd put in a dry run"})
		}, says: "saw on m1"},
		{check: "no-trespass", name: "nothing tempted it", want: gap, plant: func(h *ringproof.History) {}, says: "no dry run"},
		{check: "peers-trust-peers", name: "it refuses", want: ok, plant: func(h *ringproof.History) { h.Evidence.PeerPorts = []ringproof.Port{{Machine: "m1"}} }},
		{check: "peers-trust-peers", name: "it admits", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.PeerPorts = []ringproof.Port{{Machine: "m1", Admits: true}}
		}, says: "to refuse a client"},
		{check: "peers-trust-peers", name: "nobody tried", want: gap, plant: func(h *ringproof.History) {}, says: "no member was tried"},
		{check: "clients-show-certificates", name: "it refuses", want: ok, plant: func(h *ringproof.History) { h.Evidence.ClientPorts = []ringproof.Port{{Machine: "m1"}} }},
		{check: "clients-show-certificates", name: "it admits", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.ClientPorts = []ringproof.Port{{Machine: "m1", Admits: true}}
		}, says: "to refuse who shows no certificate"},
		{check: "clients-show-certificates", name: "nobody tried", want: gap, plant: func(h *ringproof.History) {}, says: "no member was tried"},
		{check: "upgrade-in-order", name: "in order", want: ok, plant: func(h *ringproof.History) { *h = *rolled("3.6.16", 2, 3, 1) }},
		{check: "upgrade-in-order", name: "the leader first", want: bug, plant: func(h *ringproof.History) { *h = *rolled("3.6.16", 1, 2, 3) }, says: "the leader to be upgraded last"},
		{check: "upgrade-in-order", name: "nobody", want: gap, plant: func(h *ringproof.History) { *h = *rolled("3.6.16") }, says: "no member was seen"},
		{check: "restarts-in-turn", name: "in turn", want: ok, plant: func(h *ringproof.History) { *h = *rolled("3.5.35", 2, 3, 1) }},
		{check: "restarts-in-turn", name: "while another is away", want: bug, plant: func(h *ringproof.History) {
			*h = *rolled("3.5.35", 2, 3, 1)
			away(h, "m2", 12, 25)
		}, says: "saw m2 away"},
		{check: "restarts-in-turn", name: "nobody", want: gap, plant: func(h *ringproof.History) { *h = *rolled("3.5.35") }, says: "no voter's etcd"},
		{check: "no-plaintext-peer", name: "moved", want: ok, plant: func(h *ringproof.History) { *h = *movedToTLS() }},
		{check: "no-plaintext-peer", name: "for both", want: bug, plant: func(h *ringproof.History) {
			*h = *movedToTLS()
			h.Evidence.Final.Machines[1].Clear = ringproof.Yes
		}, says: "m2 listen for plain text"},
		{check: "no-plaintext-peer", name: "nobody asked for it", want: gap, plant: func(h *ringproof.History) {}, says: "not seen to end"},
		{check: "status-honest", name: "right", want: ok, plant: func(h *ringproof.History) { *h = *toldOf() }},
		{check: "status-honest", name: "wrong", want: bug, plant: func(h *ringproof.History) {
			*h = *toldOf()
			saying(h, 40, 140, func(s *ringproof.Status) { s.Available = "True" })
		}, says: "that the ring serves"},
		{check: "status-honest", name: "never read", want: gap, plant: func(h *ringproof.History) {}, says: "read 0 times"},
		{check: "no-key-printed", name: "none", want: ok, plant: func(h *ringproof.History) { h.Evidence.Outputs = []ringproof.Output{{Machine: "m1", Lines: 7}} }},
		{check: "no-key-printed", name: "one", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Outputs = []ringproof.Output{{Machine: "m1", Lines: 7}, {Machine: "m2", Lines: 7, Key: "line 3: starting with"}}
		}, says: "line 3: starting with"},
		{check: "no-key-printed", name: "no object has one", want: ok, plant: func(h *ringproof.History) {
			h.Evidence.Outputs, h.Evidence.Objects = []ringproof.Output{{Machine: "m1", Lines: 7}}, &ringproof.Objects{Seen: 40}
		}},
		{check: "no-key-printed", name: "an object has one", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Outputs, h.Evidence.Objects = []ringproof.Output{{Machine: "m1", Lines: 7}}, &ringproof.Objects{Seen: 40, Keys: []string{"configmaps default/r"}}
		}, says: "configmaps default/r"},
		{check: "no-key-printed", name: "objects can't be read", want: gap, plant: func(h *ringproof.History) {
			h.Evidence.Outputs, h.Evidence.Objects = []ringproof.Output{{Machine: "m1", Lines: 7}}, &ringproof.Objects{Err: "the server is gone"}
		}, says: "the server is gone"},
		{check: "no-key-printed", name: "nobody listened", want: gap, plant: func(h *ringproof.History) {}, says: "0 lines"},
		{check: "no-key-printed", name: "one machine's etcd isn't heard", want: gap, plant: func(h *ringproof.History) {
			h.Evidence.Outputs, h.Evidence.Mute = []ringproof.Output{{Machine: "m1", Lines: 7}}, []string{"m2"}
		}, says: "m2: nothing was found"},
		{check: "no-key-printed", name: "one machine's can't be read", want: gap, plant: func(h *ringproof.History) {
			h.Evidence.Outputs = []ringproof.Output{{Machine: "m1", Lines: 7}, {Machine: "m2", Err: "permission denied"}}
		}, says: "m2: permission denied"},
		{check: "no-doomed-claim", name: "none", want: ok, plant: func(h *ringproof.History) { h.Evidence.Claims = []ringproof.Claim{{Machine: "m1"}} }},
		{check: "no-doomed-claim", name: "one", want: bug, plant: func(h *ringproof.History) {
			h.Evidence.Claims = []ringproof.Claim{{Machine: "m1", Ending: []ringproof.Object{{Name: "pvc default/data-r-0", UID: "c-1"}}}}
		}, says: "being deleted under it"},
		{check: "leaves-nothing", name: "nothing", want: ok, plant: ending(ringproof.Ending{Took: 9e9})},
		{check: "leaves-nothing", name: "a claim", want: bug, plant: ending(ringproof.Ending{Took: 60e9, Left: []string{"persistentvolumeclaim/data-r-0"}, Fault: "m2 is off"}), says: "saw 1 objects after 1m0s, while m2 is off"},
		{check: "leaves-nothing", name: "the fault did not land", want: gap, plant: ending(ringproof.Ending{Err: "kill did not land"}), says: "kill did not land"},
		{check: "leaves-nothing", name: "the fault never went off", want: gap, plant: func(h *ringproof.History) {
			ending(ringproof.Ending{Took: 9e9})(h)
			h.Plan.End.Fault, h.Plan.Assumptions.FaultsFired = &ringproof.Fault{Kind: ringproof.FaultAgentCrash}, true
		}, says: "never landed"},
		{check: "leaves-nothing", name: "it was never deleted", want: gap, plant: func(h *ringproof.History) { h.Plan.End = &ringproof.End{} }, says: "over before"},
		{check: "no-doomed-claim", name: "none was read", want: gap, plant: func(h *ringproof.History) {}, says: "could not"},
	} {
		t.Run(test.check+"/"+strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			h := healthy()
			test.plant(h)
			c, known := Lookup(test.check)
			require.True(t, known)
			f := c.Finding(h, test.params)
			require.Equal(t, test.want, f.Verdict, f.String())
			judged[test.check] = append(judged[test.check], f.Verdict)
			require.Contains(t, f.Message+strings.Join(f.Evidence, "\n"), test.says)
		})
	}
}

// tempted is told to change nothing for a while.
func tempted(h *ringproof.History) {
	event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultDryRun, Machine: "m1"})
}

// replacedInARestart makes two replacements more, of a machine that is restarted
// with a pause in a ring that waits ten seconds for who is away.
func replacedInARestart(h *ringproof.History, pause time.Duration) {
	h.Plan.Ring.ReplaceAfter = ringproof.Duration(10 * time.Second)
	h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "off", Op: &ringproof.Op{Kind: ringproof.OpRestart, Target: "m3", Scope: "machine", For: ringproof.Duration(pause)}})
	insert(h, 3, append(append(grow(5), entry("remove", 5, 12)), append(grow(6), entry("remove", 6, 14))...)...)
}

// hitEarly has a fault land early on, and two members more come and go.
func hitEarly(h *ringproof.History, f ringproof.Fault) {
	h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "strike", Fault: &f})
	event(h, ringproof.Event{At: sec(10.5), Kind: ringproof.EventFaultLanded, Step: "strike", Fault: f.Kind, Machine: f.Target})
	insert(h, 3, append(append(grow(5), entry("remove", 5, 12)), append(grow(6), entry("remove", 6, 14))...)...)
}

// TestARefusedResetIsAnAbsence, of some seconds: a ring that waits for longer replaces nobody.
func TestARefusedResetIsAnAbsence(t *testing.T) {
	for after, says := range map[time.Duration]string{5 * time.Second: "", 10 * time.Second: "at most 6 membership changes, saw 9"} {
		h := healthy()
		replacedInARestart(h, 0)
		h.Plan.Ring.ReplaceAfter = ringproof.Duration(after)
		h.Plan.Steps[len(h.Plan.Steps)-1].Op = &ringproof.Op{Kind: ringproof.OpReset, Target: "m3"}
		judged(t, workBounded.Finding(h, nil), says)
	}
}

// TestTryingWithoutAPause: thirty failures in ten seconds, of one action on one machine.
func TestTryingWithoutAPause(t *testing.T) {
	for name, test := range map[string]struct {
		every float64 // seconds
		on    int     // machines
		says  string
	}{
		"six times a second":              {0.17, 1, "expected clear to be tried again after a pause, saw it fail 30 times on m1 in 10s"},
		"twice a second":                  {0.5, 1, ""},
		"of two machines, three a second": {0.17, 2, ""},
	} {
		h := healthy()
		for i := range 40 {
			event(h, ringproof.Event{At: sec(5 + test.every*float64(i)), Kind: ringproof.EventActionFailed, Action: "clear", Machine: fmt.Sprintf("m%d", 1+i%test.on)})
		}
		t.Run(name, func(t *testing.T) { judged(t, workBounded.Finding(h, nil), test.says) })
	}
}

// TestWhatIsDoneIsDone: the same is done to one member ten times in ten seconds.
func TestWhatIsDoneIsDone(t *testing.T) {
	for name, test := range map[string]struct {
		every   float64 // seconds
		members int
		stale   float64 // until when views are; 0: they aren't
		says    string
	}{
		"six times a second":               {0.17, 1, 0, "expected upgrade of member 1 to be done once, saw it done 10 times in 10s"},
		"every two seconds":                {2, 1, 0, ""},
		"to two members, each every two":   {1.2, 2, 0, ""},
		"to nobody, as entries in the log": {0.17, 0, 0, ""},
		"by who is shown what was before":  {0.17, 1, 12, ""},
		"and goes on when that is over":    {0.17, 1, 8, "expected upgrade of member 1 to be done once, saw it done 10 times in 10s"},
	} {
		h := healthy()
		if test.stale > 0 {
			event(h, ringproof.Event{At: sec(4), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultStaleView, Step: "stale"})
			event(h, ringproof.Event{At: sec(test.stale), Kind: ringproof.EventFaultHealed, Fault: ringproof.FaultStaleView, Step: "stale"})
		}
		for i := range 40 {
			e := ringproof.Event{At: sec(5 + test.every*float64(i)), Kind: ringproof.EventActionDone, Action: "upgrade", Command: "ringadm member upgrade"}
			if test.members > 0 {
				e.Member = ringproof.MemberID(1 + i%test.members)
			}
			event(h, e)
		}
		t.Run(name, func(t *testing.T) { judged(t, workBounded.Finding(h, nil), test.says) })
	}
}

// TestStartingWithoutAPause: thirty etcds in ten seconds end by themselves on one machine. One
// that was ended says nothing of who started it.
func TestStartingWithoutAPause(t *testing.T) {
	for name, test := range map[string]struct {
		every float64 // seconds
		text  string
		says  string
	}{
		"six times a second":           {0.17, "etcd, pid 4, fatal: listen: address already in use", "expected the start of etcd to be tried again after a pause, saw it fail 30 times on m1 in 10s"},
		"twice a second":               {0.5, "etcd, pid 4, fatal: listen: address already in use", ""},
		"ended, six times a second":    {0.17, "etcd, pid 4", ""},
		"in panic, six times a second": {0.17, "etcd, pid 4, panic: tocommit is out of range", "expected the start of etcd to be tried again"},
	} {
		h := healthy()
		event(h, ringproof.Event{At: sec(4), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultStartFailure, Machine: "m1", Step: "broken"})
		for i := range 40 {
			event(h, ringproof.Event{At: sec(5 + test.every*float64(i)), Kind: ringproof.EventProcessExited, Machine: "m1", Text: test.text})
		}
		t.Run(name, func(t *testing.T) { judged(t, workBounded.Finding(h, nil), test.says) })
	}
}

// TestTwoShortRestartsMayBeOneLongAbsence: m2 serves until 10 s and is let go at 25 s.
func TestTwoShortRestartsMayBeOneLongAbsence(t *testing.T) {
	for name, test := range map[string]struct {
		restarts int
		also     func(h *ringproof.History)
		says     string
	}{
		"two": {restarts: 2},
		"one": {restarts: 1, says: "at most 6 membership changes, saw 9"},
		"one, after an etcd that took six seconds to end": {restarts: 1, also: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(17), Kind: ringproof.EventProcessExited, Machine: "m2"})
		}},
		"two, and it was seen to serve": {restarts: 2, says: "at most 6 membership changes, saw 9", also: func(h *ringproof.History) {
			look(h, seen(18, 1, 1, 2, 3))
		}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			replacedInARestart(h, 4*time.Second)
			for range test.restarts - 1 {
				h.Plan.Steps = append(h.Plan.Steps, h.Plan.Steps[len(h.Plan.Steps)-1])
			}
			if test.also != nil {
				test.also(h)
			}
			judged(t, workBounded.Finding(h, nil), test.says)
		})
	}
}

// TestYearsOutwearAnyPatience: eight learners are given up between 5 and 21 s.
func TestYearsOutwearAnyPatience(t *testing.T) {
	for name, test := range map[string]struct {
		healed float64 // seconds
		says   string
	}{
		"years pass meanwhile":   {20, ""},
		"years passed before it": {4, "at most 17 membership changes, saw 19"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			event(h, ringproof.Event{At: sec(3), Kind: ringproof.EventFaultLanded, Step: "years", Fault: ringproof.FaultTimePasses})
			event(h, ringproof.Event{At: sec(test.healed), Kind: ringproof.EventFaultHealed, Step: "years", Fault: ringproof.FaultTimePasses})
			var flaps []ringproof.ConfChange
			for id := range 8 {
				member, at := ringproof.MemberID(100+id), 5+2*float64(id)
				flaps = append(flaps, entry("add-learner", member, at), entry("remove", member, at+1))
			}
			insert(h, 3, flaps...)
			judged(t, workBounded.Finding(h, nil), test.says)
		})
	}
}

// TestTheMarginIsThatOfTheSizeAskedForThen: a ring of five was to have three voters for a while. Once
// it is to have five again, it may not be left with four.
func TestTheMarginIsThatOfTheSizeAskedForThen(t *testing.T) {
	for name, test := range map[string]struct {
		less  float64 // from when on it is to have three; 0: 3
		back  float64 // from when on it is to have five again
		plant func(h *ringproof.History)
		says  string
	}{
		"while three are asked for":                 {back: 70},
		"long after five are":                       {back: 6, says: "expected remove of 6 to leave a margin of at least 2, saw 1"},
		"just after five are":                       {back: 17},
		"as three are asked for, between two looks": {less: 18.6, back: 70, plant: func(h *ringproof.History) { h.Observations[1].At = sec(16.5) }},
		"before three are asked for":                {less: 21, back: 70, says: "expected remove of 6 to leave a margin of at least 2, saw 1"},
		"while it can't hear of the five": {back: 6, plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(5), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultStoreOutage, Step: "deaf"})
		}},
		"where two operators ask at once":           {back: 6, plant: func(h *ringproof.History) { h.Plan.Steps[2].Op.Rival = true }},
		"where it isn't known that five were taken": {back: 6, plant: func(h *ringproof.History) { drop(h, ringproof.EventStepDone) }},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			h.Plan.Ring.Size = 5
			insert(h, 3, append(grow(5, 6), entry("remove", 6, 19))...)
			for i, id := range []ringproof.MemberID{5, 6} {
				h.Evidence.Changes[3+2*i].At, h.Evidence.Changes[4+2*i].At = sec(1+float64(id)/10), sec(1.05+float64(id)/10)
			}
			look(h, seen(18, 1, 1, 2, 3, 5, 6))
			for _, s := range []struct {
				name string
				to   int
				at   float64
			}{{"less", 3, cmp.Or(test.less, 3)}, {"more", 5, test.back}} {
				h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: s.name, Op: &ringproof.Op{Kind: ringproof.OpScale, To: s.to}})
				event(h, ringproof.Event{At: sec(s.at), Kind: ringproof.EventStepBegun, Step: s.name})
				event(h, ringproof.Event{At: sec(s.at + 0.5), Kind: ringproof.EventStepDone, Step: s.name})
			}
			if test.plant != nil {
				test.plant(h)
			}
			judged(t, quorumMargin.Finding(h, nil), test.says)
		})
	}
}

// grow adds voters, one after another.
func grow(ids ...ringproof.MemberID) (all []ringproof.ConfChange) {
	for _, id := range ids {
		all = append(all, entry("add-learner", id, float64(id)), entry("promote", id, float64(id)+0.5))
	}
	return all
}

// TestMarginAllows are changes that lower or keep the margin as they may.
func TestMarginAllows(t *testing.T) {
	for name, plant := range map[string]func(h *ringproof.History){
		"growing to five by promoted learners": func(h *ringproof.History) { insert(h, 3, grow(5, 6)...) },
		"shrinking back to three": func(h *ringproof.History) {
			insert(h, 3, append(grow(5, 6), entry("remove", 6, 8), entry("remove", 5, 9))...)
		},
		"a loss just before a removal, that no subject can know of": func(h *ringproof.History) {
			insert(h, 3, append(grow(5, 6), entry("remove", 6, 20.5))...)
		},
		"a change that etcd made empty": func(h *ringproof.History) { insert(h, 6, entry("add-voter", 2, 40)) },
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			plant(h)
			f := quorumMargin.Finding(h, nil)
			require.Equal(t, ringproof.Pass, f.Verdict, f.String())
		})
	}
}

// TestAVisitEndsAnAbsenceIfItIsHeardOf: m3 is off from 4 s on, is there from 10 s for
// so long, and is off again when it is removed at 15 s.
func TestAVisitEndsAnAbsenceIfItIsHeardOf(t *testing.T) {
	for name, test := range map[string]struct {
		visit float64 // seconds
		says  string
	}{
		"a second":      {1, ""},
		"three seconds": {3, "remove of 3"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			h.Plan.Ring.ReplaceAfter = ringproof.Duration(8 * time.Second)
			for at := 3.0; at < 15; at += 0.5 {
				o := seen(at, 1, 1, 2, 3)
				o.Members[2].Serving = at <= 4 || at >= 10 && at <= 10+test.visit
				look(h, o)
			}
			insert(h, 3, entry("remove", 3, 15))
			judged(t, quorumMargin.Finding(h, nil), test.says)
		})
	}
}

// TestTheMarginOfWhoIsAway: a voter that was cut off for as long as a machine may
// be absent may go before another comes; one whose agent alone is silent may not.
func TestTheMarginOfWhoIsAway(t *testing.T) {
	for name, test := range map[string]struct {
		scope   string
		patient float64 // seconds
		back    float64 // when it is; 0: never
		silent  bool    // it doesn't serve from then on
		says    string
	}{
		"off for longer":                        {"machine", 3, 0, false, ""},
		"off for less":                          {"machine", 8, 0, false, "remove of 3"},
		"its agent is silent":                   {"agent", 3, 0, false, "remove of 3"},
		"back before anybody can have heard it": {"machine", 3, 14.5, false, ""},
		"back in time":                          {"machine", 3, 12.5, false, "remove of 3"},
		"back in time, and not heard any more":  {"machine", 4, 12.5, true, ""},
		"back in time, for less than a visit":   {"machine", 4, 11.5, true, ""},
		"back in time, for a visit":             {"machine", 4, 10.2, true, "remove of 3"},
		"back, and not heard for less in all":   {"machine", 5.5, 12.5, true, "remove of 3"},
		"back after less, though just now":      {"machine", 4.8, 14.5, false, "remove of 3"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			h.Plan.Ring.ReplaceAfter = ringproof.Duration(test.patient * float64(time.Second))
			h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "off", Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Scope: test.scope, Target: "m3"}})
			event(h, ringproof.Event{At: sec(10), Kind: ringproof.EventFaultLanded, Step: "off", Fault: ringproof.FaultKill, Machine: "m3"})
			if test.back > 0 {
				event(h, ringproof.Event{At: sec(test.back), Kind: ringproof.EventFaultHealed, Step: "off", Fault: ringproof.FaultKill, Machine: "m3"})
			}
			look(h, seen(12.4, 1, 1, 2, 3))
			o := seen(14, 1, 1, 2, 3)
			o.Members[2].Serving = !test.silent
			look(h, o)
			insert(h, 3, entry("remove", 3, 15))
			judged(t, quorumMargin.Finding(h, nil), test.says)
		})
	}
}

// TestTheMarginOfAFullDisk: m3, whose disk is full from 4 to 24 s, leaves at 15 s. If
// its etcd had ended of it, nobody was lost; if it served, a voter was.
func TestTheMarginOfAFullDisk(t *testing.T) {
	for name, test := range map[string]struct {
		ended float64 // seconds
		says  string
	}{
		"its etcd ended":       {6, ""},
		"its etcd ended later": {20, "remove of 3"},
		"ended before it":      {3, "remove of 3"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			event(h, ringproof.Event{At: sec(test.ended), Kind: ringproof.EventProcessExited, Machine: "m3"})
			for at, kind := range map[float64]ringproof.EventKind{4: ringproof.EventFaultLanded, 24: ringproof.EventFaultHealed} { // order: event sorts
				event(h, ringproof.Event{At: sec(at), Kind: kind, Step: "full", Fault: ringproof.FaultDiskFull, Machine: "m3"})
			}
			insert(h, 3, entry("remove", 3, 15))
			judged(t, quorumMargin.Finding(h, nil), test.says)
		})
	}
}

// TestTheMarginsGrace: of a loss that is younger than the grace, or a disk that
// came back since, the subject can't know.
func TestTheMarginsGrace(t *testing.T) {
	lostAt := func(loss float64) func(h *ringproof.History) {
		return func(h *ringproof.History) {
			h.Events[2].At = sec(loss) // the volume's
			insert(h, 3, append(grow(5, 6), entry("remove", 6, 24.5))...)
		}
	}
	awayAt := func(moment float64) func(h *ringproof.History) {
		return func(h *ringproof.History) {
			look(h, seen(5, 1, 1, 2, 3))
			look(h, strange(moment, 3))
			look(h, seen(14, 1, 1, 2, 3))
			event(h, ringproof.Event{At: sec(8), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultDiskSwap, Machine: "m3"})
			insert(h, 3, entry("remove", 3, 15))
		}
	}
	twoLost := func(h *ringproof.History) {
		event(h, ringproof.Event{At: sec(20), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultMachineLoss, Machine: "m3"})
		insert(h, 3, append(grow(5, 6), entry("remove", 6, 22))...)
	}
	// The removal of 6 is seen at 22 s, and two are lost at 20 s: whether before or
	// after it, only a list read with a quorum could have told.
	listedLast := func(moment float64) func(h *ringproof.History) {
		return func(h *ringproof.History) {
			h.Observations[1].Fresh = false // at 21 s
			look(h, seen(moment, 1, 1, 2, 3, 5, 6))
			twoLost(h)
		}
	}
	for name, test := range map[string]struct {
		plant  func(h *ringproof.History)
		params map[string]string
		says   string // "": it passes
	}{
		"a loss within the grace":               {plant: lostAt(19.7)},
		"a loss before the grace":               {plant: lostAt(19.3), says: "remove of 6"},
		"a loss before a shorter grace":         {plant: lostAt(19.7), params: map[string]string{"grace": "1s"}, says: "remove of 6"},
		"a disk that came back in the grace":    {plant: awayAt(12)},
		"a disk that was back before the grace": {plant: awayAt(9), says: "remove of 3"},
		"a disk back before a shorter grace":    {plant: awayAt(12), params: map[string]string{"grace": "500ms"}, says: "remove of 3"},
		"no grace below the floor":              {plant: twoLost, says: "4 voters, 2 intact, quorum 3"},
		"a lower floor":                         {plant: twoLost, params: map[string]string{"min": "-1"}},
		"a loss that may have come after":       {plant: listedLast(19.9)},
		"a loss that came before":               {plant: listedLast(20.1), says: "4 voters, 2 intact, quorum 3"},
		// They serve from 10 s on: that they didn't before the grace is no loss.
		"voters that came up within the grace": {plant: func(h *ringproof.History) {
			look(h, seen(11.5, 1, 1, 2, 3))
			insert(h, 3, entry("remove", 3, 12))
		}, says: "remove of 3"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			test.plant(h)
			judged(t, quorumMargin.Finding(h, test.params), test.says)
		})
	}
}

// swapDisks has machines have each other's disks for so long, in seconds.
func swapDisks(h *ringproof.History, step string, from, to float64, machines ...string) {
	for _, m := range machines {
		event(h, ringproof.Event{At: sec(from), Kind: ringproof.EventFaultLanded, Step: step, Fault: ringproof.FaultDiskSwap, Machine: m})
	}
	event(h, ringproof.Event{At: sec(to), Kind: ringproof.EventFaultHealed, Step: step, Fault: ringproof.FaultDiskSwap, Machine: strings.Join(machines, ",")})
}

// TestTheMarginOnASwappedDisk: m4 has the disk of m6 for so long. Member 5 is put on it,
// and is lost as the disks are back; its log is found on m6 at the end.
func TestTheMarginOnASwappedDisk(t *testing.T) {
	for name, test := range map[string]struct {
		back float64 // seconds
		says string
	}{
		"back after another left":  {18, ""},
		"back before another left": {7, "remove of 3"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			swapDisks(h, "swap", 2, test.back, "m4", "m6")
			for at := 5.5; at < 24; at++ {
				o := seen(at, 1, 1, 2, 3, 5, 6)
				m := slices.IndexFunc(o.Machines, func(m ringproof.MachineView) bool { return m.Name == "m4" })
				if at < test.back {
					o.Machines[m].Disk = 2
				}
				look(h, o)
			}
			h.Evidence.Logs = append(h.Evidence.Logs, ringproof.MemberLog{Machine: "m6", Disk: 1, Member: 5, ClusterID: 0xc1})
			insert(h, 3, append(grow(5, 6), entry("remove", 3, 15))...)
			judged(t, quorumMargin.Finding(h, nil), test.says)
		})
	}
}

// TestADiskThatASwapTakesBack: member 5 is put on the disk that m4 has of m6. As the disks are back
// that one is gone, and the subject clears the old one of m4, whose member has left: the new disk
// that m4 has then is no sign that it took member 5.
func TestADiskThatASwapTakesBack(t *testing.T) {
	for name, test := range map[string]struct {
		back float64 // seconds
		says string
	}{
		"back before it is cleared": {12, ""},
		"back after it is cleared":  {18, "expected remove of 5 to leave a margin of at least 1"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			swapDisks(h, "swap", 2, test.back, "m4", "m6")
			h.Observations = nil
			for at := 5.5; at < 24; at++ {
				members := []ringproof.MemberID{1, 2, 3, 5}
				switch {
				case at > 15:
					members = []ringproof.MemberID{1, 2}
				case at > 9:
					members = []ringproof.MemberID{1, 2, 5}
				}
				o := seen(at, 1, members...)
				m := slices.IndexFunc(o.Machines, func(m ringproof.MachineView) bool { return m.Name == "m4" })
				switch {
				case at > 14:
					o.Machines[m].Disk = 3
				case at < test.back:
					o.Machines[m].Disk = 2
				}
				look(h, o)
			}
			insert(h, 3, append(grow(5), entry("remove", 3, 9), entry("remove", 5, 15))...)
			h.Evidence.Changes = h.Evidence.Changes[:len(h.Evidence.Changes)-3]
			judged(t, quorumMargin.Finding(h, nil), test.says)
		})
	}
}

// TestOnlyAVotersDiskIsMissed: the look that shows m4 with a new disk shows the
// volume of m2 lost, so the margin falls, whoever lived on m4.
func TestOnlyAVotersDiskIsMissed(t *testing.T) {
	live := func(disk int, changes ...ringproof.ConfChange) func(h *ringproof.History) {
		return func(h *ringproof.History) {
			h.Evidence.Logs = append(h.Evidence.Logs, ringproof.MemberLog{Machine: "m4", Disk: disk, Member: 5, ClusterID: 0xc1})
			insert(h, 3, changes...)
		}
	}
	for name, test := range map[string]struct {
		plant func(h *ringproof.History)
		says  string // "": it passes
	}{
		"nobody's":            {plant: func(*ringproof.History) {}},
		"a learner's":         {plant: live(1, entry("add-learner", 5, 5))},
		"a voter's":           {plant: live(1, grow(5)...), says: "machine m4 has a new one without a fault: margin 1, then -1"},
		"a voter's that left": {plant: live(1, append(grow(5), entry("remove", 5, 8))...)},
		"another than a voter's": {plant: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(20), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultMachineLoss, Machine: "m3"})
			// the next look shows 5 a voter, and the disk gone that was in m4 before
			live(2, append(grow(6), entry("add-learner", 5, 21), entry("promote", 5, 21))...)(h)
		}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			for i := range h.Observations[1:] {
				h.Observations[i+1].Machines[3].Disk = 2
			}
			test.plant(h)
			judged(t, quorumMargin.Finding(h, nil), test.says)
		})
	}
}

// TestHearsayExcusesARemoval: member 3 is removed at 34 s, while 4 is a learner.
func TestHearsayExcusesARemoval(t *testing.T) {
	away := func(at float64, machine int) func(h *ringproof.History) {
		return func(h *ringproof.History) { look(h, strange(at, machine)) }
	}
	lost := func(h *ringproof.History) { // nobody has looked since
		event(h, ringproof.Event{At: sec(33.5), Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultMachineLoss, Machine: "m3"})
	}
	for name, test := range map[string]struct {
		change string
		plant  func(h *ringproof.History)
		says   string // "": it passes
	}{
		"machine lost":                 {change: "remove", plant: lost},
		"disk back within the hearsay": {change: "remove", plant: away(29.5, 3)},
		"disk back before the hearsay": {change: "remove", plant: away(28.5, 3), says: "before remove of 3"},
		"another's disk away":          {change: "remove", plant: away(29.5, 1), says: "before remove of 3"},
		"not a removal":                {change: "update", plant: away(29.5, 3), says: "before update of 3"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			test.plant(h)
			insert(h, 5, entry(test.change, 3, 34))
			judged(t, oneChangeAtATime.Finding(h, nil), test.says)
		})
	}
}

// TestSwappedDisks: while the disks of m3 and m4 are swapped, from 30 s to 40 s,
// a member there may run where its disk is.
func TestSwappedDisks(t *testing.T) {
	swap := func(step string, from, to float64, machines ...string) func(h *ringproof.History) {
		return func(h *ringproof.History) { swapDisks(h, step, from, to, machines...) }
	}
	on := func(o ringproof.Observation, machine string) ringproof.Observation { // puts member 3 there
		o.Members[1].Machine = machine
		return o
	}
	between := func(from, until float64) ringproof.Observation { // shows member 3 on m3, with another disk
		o := strange(from, 3)
		o.Until = sec(until)
		o.Members = o.Members[2:]
		return o
	}
	const disk, moved = "disk 2 of m3", "disk 1 of m4"
	for name, test := range map[string]struct {
		look ringproof.Observation
		also func(h *ringproof.History)
		says string // "": it passes
	}{
		"under its address":            {look: between(34, 0)},
		"under the other's address":    {look: on(seen(34, 2, 1, 3), "m4")},
		"under a third one's":          {look: on(seen(34, 2, 1, 3), "m5"), says: "disk 1 of m5"},
		"before":                       {look: between(29, 0), says: disk},
		"after":                        {look: between(41, 0), says: disk},
		"moved after":                  {look: on(seen(41, 2, 1, 3), "m4"), says: moved},
		"a look that it began in":      {look: between(29, 31)},
		"a look that it ended in":      {look: between(39, 41)},
		"after, as another still is":   {look: between(41, 0), also: swap("again", 35, 45, "m1", "m4")},
		"after, and another came then": {look: between(46, 0), also: swap("again", 45, 50, "m1", "m4"), says: disk},
		"after both":                   {look: between(46, 0), also: swap("again", 35, 45, "m1", "m4"), says: disk},
		"another fault": {look: between(41, 0), also: func(h *ringproof.History) {
			event(h, ringproof.Event{At: sec(35), Kind: ringproof.EventFaultLanded, Step: "kill", Fault: ringproof.FaultKill, Machine: "m3"})
		}, says: disk},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			swap("swap", 30, 40, "m3", "m4")(h)
			if test.also != nil {
				test.also(h)
			}
			look(h, test.look)
			judged(t, noIdentityReuse.Finding(h, nil), test.says)
		})
	}
}

// TestOnlyTheFirstBindIsSpared: the ring rests from 62 s on.
func TestOnlyTheFirstBindIsSpared(t *testing.T) {
	of := func(kind ringproof.EventKind) func(ringproof.MemberID, float64) ringproof.Event {
		return func(member ringproof.MemberID, at float64) ringproof.Event {
			return ringproof.Event{At: sec(at), Kind: kind, Action: bind, Machine: machineOf[member], Member: member}
		}
	}
	begun, done, failed := of(ringproof.EventActionBegun), of(ringproof.EventActionDone), of(ringproof.EventActionFailed)
	const second = "1  bind"
	for name, test := range map[string]struct {
		events []ringproof.Event
		says   string // "": it passes
	}{
		"first of a member":            {events: []ringproof.Event{begun(1, 65), done(1, 66)}},
		"first of each":                {events: []ringproof.Event{begun(1, 65), done(1, 65.1), begun(3, 66)}},
		"again before the rest":        {events: []ringproof.Event{begun(1, 5), done(1, 6), begun(1, 40), done(1, 41)}},
		"again":                        {events: []ringproof.Event{begun(1, 5), done(1, 6), begun(1, 65)}, says: second},
		"again in the rest":            {events: []ringproof.Event{begun(1, 64), done(1, 65), begun(1, 66)}, says: second},
		"tried again in the rest":      {events: []ringproof.Event{begun(1, 64), failed(1, 65), begun(1, 66)}, says: second},
		"after an agent died in it":    {events: []ringproof.Event{begun(1, 5), begun(1, 65)}},
		"after a fault kept it":        {events: []ringproof.Event{begun(1, 5), failed(1, 6), begun(1, 65)}},
		"of a machine, another member": {events: []ringproof.Event{begun(2, 5), done(2, 6), begun(4, 65)}},
		"after its record was damaged": {events: []ringproof.Event{begun(1, 5), done(1, 6),
			{At: sec(7), Kind: ringproof.EventFaultLanded, Step: "damage", Fault: ringproof.FaultKeysDamaged}, begun(1, 65)}},
		"after its record may have been damaged": {events: []ringproof.Event{begun(1, 5), done(1, 6),
			{At: sec(7), Kind: ringproof.EventFaultMissed, Step: "damage", Fault: ringproof.FaultKeysDamaged}, begun(1, 65)}},
		"after another action is done": {events: []ringproof.Event{
			{At: sec(6), Kind: ringproof.EventActionDone, Action: "promote", Member: 1}, begun(1, 65),
		}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			for _, e := range test.events {
				event(h, e)
			}
			judged(t, quiescent.Finding(h, nil), test.says)
		})
	}
}

// TestOnlyALeftoverIsSparedToBeCleared: the ring rests from 62 s on.
func TestOnlyALeftoverIsSparedToBeCleared(t *testing.T) {
	left := func(machine string, at float64) ringproof.Event {
		return ringproof.Event{At: sec(at), Kind: ringproof.EventMemberRemoved, Machine: machine}
	}
	clears := func(kind ringproof.EventKind, machine string, at float64) ringproof.Event {
		return ringproof.Event{At: sec(at), Kind: kind, Action: clearing, Machine: machine}
	}
	const begun, done, what = ringproof.EventActionBegun, ringproof.EventActionDone, "clear"
	launches := func(machine string, at float64) ringproof.Event {
		return ringproof.Event{At: sec(at), Kind: begun, Action: launching, Machine: machine}
	}
	ends := func(machine string, at float64) ringproof.Event {
		return ringproof.Event{At: sec(at), Kind: ringproof.EventProcessExited, Machine: machine}
	}
	for name, test := range map[string]struct {
		events []ringproof.Event
		says   string // "": it passes
	}{
		"of a member that left":          {events: []ringproof.Event{left("m5", 50), clears(begun, "m5", 65)}},
		"once it was started, and ended": {events: []ringproof.Event{left("m5", 50), launches("m5", 64), ends("m5", 64.5), clears(begun, "m5", 65)}},
		"once it was started twice":      {events: []ringproof.Event{left("m5", 50), launches("m5", 64), ends("m5", 64.1), launches("m5", 64.2), clears(begun, "m5", 65)}, says: "launch"},
		"while another's is started":     {events: []ringproof.Event{left("m5", 50), launches("m4", 64), clears(begun, "m5", 65)}, says: "launch"},
		"and its member started after":   {events: []ringproof.Event{left("m5", 50), clears(begun, "m5", 64), clears(done, "m5", 64.1), launches("m5", 65)}, says: "launch"},
		"whose log was lost before":      {events: []ringproof.Event{left("m5", 50), {At: sec(65), Kind: begun, Action: disowning, Machine: "m5"}}},
		"again in the rest":              {events: []ringproof.Event{left("m5", 50), clears(begun, "m5", 65), clears(done, "m5", 65.1), clears(begun, "m5", 66)}, says: what},
		"after it was":                   {events: []ringproof.Event{left("m5", 50), clears(done, "m5", 51), clears(begun, "m5", 65)}, says: what},
		"after it was, before the news":  {events: []ringproof.Event{clears(done, "m5", 49), left("m5", 50), clears(begun, "m5", 65)}, says: what},
		"after two had left":             {events: []ringproof.Event{left("m5", 40), clears(done, "m5", 41), left("m5", 50), clears(begun, "m5", 65)}},
		"of another machine":             {events: []ringproof.Event{left("m5", 50), clears(begun, "m4", 65)}, says: what},
		"of nobody":                      {events: []ringproof.Event{clears(begun, "m5", 65)}, says: what},
		"of one that leaves in it":       {events: []ringproof.Event{left("m5", 65), clears(begun, "m5", 66)}, says: "member-removed"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			for _, e := range test.events {
				event(h, e)
			}
			judged(t, quiescent.Finding(h, nil), test.says)
		})
	}
}

// TestOneLeadSparesWhoWasAboutAChange: it was paused in it, and has looked since.
func TestOneLeadSparesWhoWasAboutAChange(t *testing.T) {
	h := healthy()
	event(h, ringproof.Event{At: sec(22), Kind: ringproof.EventLeads, By: "m3"})
	event(h, ringproof.Event{At: sec(29.5), Kind: ringproof.EventActionBegun, Action: "add-learner", By: "m3"})
	judged(t, oneLead.Finding(h, nil), "")
}

// TestASilentVoterHoldsAChange: three of five answer, so nobody else may go, and
// who has answered since, or was silent for a moment, holds nobody up.
func TestASilentVoterHoldsAChange(t *testing.T) {
	for name, test := range map[string]struct {
		from, until float64 // that m1 is silent
		virtual     bool
		ends        float64 // that its etcd ends; 0: it doesn't
		gone        float64 // since when m6, who is removed, doesn't answer; 0: it does
		says        string
	}{
		"ends between two looks": {from: 2, until: 40, virtual: true, ends: 24.5},
		"ends long before":       {from: 2, until: 40, virtual: true, ends: 20, says: "to wait for voters that had not answered"},
		"silent for long":        {from: 2, until: 40, virtual: true, says: "to wait for voters that had not answered"},
		"silent for a moment":    {from: 18, until: 40, virtual: true},
		"answers again":          {from: 2, until: 19, virtual: true},
		"a look that was slow":   {from: 2, until: 40},
		"never was there":        {from: 1, until: 40, virtual: true, says: "to leave a margin of at least 1"},
		"holds not who is away":  {from: 2, until: 40, virtual: true, gone: 14},
		"holds who just blipped": {from: 2, until: 40, virtual: true, gone: 20, says: "to wait for voters that had not answered"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			h.Tools.Virtual, h.Observations, h.Plan.Ring.ReplaceAfter = test.virtual, nil, ringproof.Duration(10*time.Second)
			drop(h, ringproof.EventFaultLanded)
			for at := 1; at < 30; at++ {
				members := []ringproof.MemberID{1, 2, 3, 5, 6}
				if at >= 24 {
					members = members[:4]
				}
				o := seen(float64(at), 1, members...)
				o.Members[0].Serving = float64(at) < test.from || float64(at) > test.until
				if at < 24 {
					o.Members[4].Serving = test.gone == 0 || float64(at) < test.gone
				}
				h.Observations = append(h.Observations, o)
			}
			h.Evidence.Changes = nil
			for i, member := range []ringproof.MemberID{1, 2, 3, 5, 6} {
				initialMember := entry("add-voter", member, 1)
				initialMember.Initial, initialMember.Index = true, uint64(i+1)
				h.Evidence.Changes = append(h.Evidence.Changes, initialMember)
			}
			insert(h, 5, entry("remove", 6, 24))
			if test.ends != 0 {
				event(h, ringproof.Event{At: sec(test.ends), Kind: ringproof.EventProcessExited, Machine: "m1"})
			}
			judged(t, quorumMargin.Finding(h, nil), test.says)
		})
	}
}

// TestSomebodyCameUpBetweenTwoLooks: m1's etcd starts just before a removal is asked for,
// and the next look finds it serving. Who asked may have heard it.
func TestSomebodyCameUpBetweenTwoLooks(t *testing.T) {
	for until, says := range map[float64]string{23: "", 24: "to wait for voters that had not answered", 40: "to wait for voters that had not answered"} {
		h := healthy()
		h.Tools.Virtual, h.Observations, h.Evidence.Changes = true, nil, nil
		drop(h, ringproof.EventFaultLanded)
		for at := 1; at < 30; at++ {
			o := seen(float64(at), 1, 1, 2, 3, 5, 6)
			o.Members[0].Serving = float64(at) < 2 || float64(at) > until
			h.Observations = append(h.Observations, o)
		}
		for i, member := range []ringproof.MemberID{1, 2, 3, 5, 6} {
			initialMember := entry("add-voter", member, 1)
			initialMember.Initial, initialMember.Index = true, uint64(i+1)
			h.Evidence.Changes = append(h.Evidence.Changes, initialMember)
		}
		h.Evidence.Rejected = []ringproof.Rejection{{At: sec(23.5), Machine: "m2", Kind: "remove", Member: 6, Why: "etcdserver: unhealthy cluster"}}
		judged(t, quorumMargin.Finding(h, nil), says)
	}
}

// TestWhatSomebodyElseDidIsNotTheSubjects: the same removal is the subject's own or another
// hand's.
func TestWhatSomebodyElseDidIsNotTheSubjects(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		h := healthy()
		drop(h, ringproof.EventFaultLanded)
		h.Observations, h.Evidence.Changes = nil, nil
		for at := 1; at < 30; at++ {
			h.Observations = append(h.Observations, seen(float64(at), 1, 1, 2, 3))
		}
		for i, member := range []ringproof.MemberID{1, 2, 3} {
			initialMember := entry("add-voter", member, 1)
			initialMember.Initial, initialMember.Index = true, uint64(i+1)
			h.Evidence.Changes = append(h.Evidence.Changes, initialMember)
		}
		removal := entry("remove", 3, 24)
		removal.Foreign = foreign
		insert(h, 3, entry("add-learner", 5, 23), removal)
		for check, says := range map[*Check]string{&quorumMargin: "to leave a margin", &oneChangeAtATime: "to be promoted or removed before remove of 3", &workBounded: "expected at most 1 membership change"} {
			if foreign {
				says = ""
			}
			var params map[string]string
			if check == &workBounded {
				params = map[string]string{"changes": "1"}
			}
			judged(t, check.Finding(h, params), says)
		}
	}
}

// TestWhatWasOvertaken: of five voters the subject asks one to leave, and before that is done
// two others are removed. Nobody can call a request back; but who asks when they have gone, or
// has asked for their removal as well, costs the ring a voter that it needs.
func TestWhatWasOvertaken(t *testing.T) {
	for name, test := range map[string]struct {
		asked   float64 // 0: never
		foreign bool    // the two others were removed by somebody else
		says    string
	}{
		"asked before": {20, true, ""},
		"asked after":  {23.5, true, "to leave a margin"},
		"never asked":  {0, true, "to leave a margin"},
		"its own":      {20, false, "to leave a margin"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			drop(h, ringproof.EventFaultLanded)
			drop(h, ringproof.EventActionBegun)
			h.Observations, h.Evidence.Changes = nil, nil
			for at := 1; at < 30; at++ {
				h.Observations = append(h.Observations, seen(float64(at), 1, 1, 2, 3, 4, 5))
			}
			for i, member := range []ringproof.MemberID{1, 2, 3, 4, 5} {
				initialMember := entry("add-voter", member, 1)
				initialMember.Initial, initialMember.Index = true, uint64(i+1)
				h.Evidence.Changes = append(h.Evidence.Changes, initialMember)
			}
			one, two := entry("remove", 3, 21), entry("remove", 4, 22)
			one.Foreign, two.Foreign = test.foreign, test.foreign
			insert(h, 5, one, two, entry("remove", 5, 24))
			if test.asked > 0 {
				event(h, ringproof.Event{At: sec(test.asked), Kind: ringproof.EventActionBegun, Action: "remove", Member: 5})
			}
			judged(t, quorumMargin.Finding(h, nil), test.says)
		})
	}
}

// TestWhatSomebodyElseAdded is not the subject's to have entered as a learner, nor to finish
// before anything else; the same additions are, if they are its own.
func TestWhatSomebodyElseAdded(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		h := healthy()
		drop(h, ringproof.EventFaultLanded)
		added := entry("add-voter", 5, 23)
		added.Foreign = foreign
		insert(h, 3, added, entry("add-learner", 6, 24))
		for check, says := range map[*Check]string{&learnerFirst: "expected 5 to enter as a learner", &oneChangeAtATime: "expected 5 to be promoted or removed before add-learner of 6"} {
			f := check.Finding(h, nil)
			require.Equal(t, !foreign, strings.Contains(f.Message, says), "%s: %s", check.Name, f.Message)
		}
	}
}

// TestAFounderThatNeverRan has no log, and takes nothing with it; one that served has.
func TestAFounderThatNeverRan(t *testing.T) {
	for name, test := range map[string]struct {
		until float64 // that m1 is seen to serve
		says  string
	}{
		"never ran": {0, ""},
		"has run":   {3, "remove of 1"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h := healthy()
			h.Tools.Virtual, h.Observations, h.Evidence.Changes = true, nil, nil
			drop(h, ringproof.EventFaultLanded)
			drop(h, ringproof.EventMemberStarted)
			for at := 1; at < 30; at++ {
				o := seen(float64(at), 1, 1, 2, 3)
				o.Members[0].Serving = float64(at) <= test.until
				h.Observations = append(h.Observations, o)
			}
			for i, member := range []ringproof.MemberID{1, 2, 3} {
				initialMember := entry("add-voter", member, 1)
				initialMember.Initial, initialMember.Index = true, uint64(i+1)
				h.Evidence.Changes = append(h.Evidence.Changes, initialMember)
			}
			insert(h, 3, entry("remove", 1, 24))
			judged(t, quorumMargin.Finding(h, nil), test.says)
		})
	}
}

func TestEveryCheckSaysInconclusiveOfNothing(t *testing.T) {
	for _, c := range append(All(), Always()...) {
		f := c.Finding(&ringproof.History{}, nil)
		require.Equal(t, ringproof.Inconclusive, f.Verdict, f.String())
	}
}

func TestEveryCheckIsDocumented(t *testing.T) {
	names := map[string]bool{}
	for _, c := range append(All(), Always()...) {
		require.False(t, names[c.Name], c.Name)
		names[c.Name] = true
		require.True(t, strings.HasSuffix(c.Claim, "."), c.Name)
		require.NotEmpty(t, c.Source, c.Name)
		for _, p := range c.Params {
			require.NotEmpty(t, p.Doc, c.Name)
			require.NoError(t, sameForm(p.Default, p.Default))
		}
	}
	require.Len(t, names, 38)
}

func TestJudge(t *testing.T) {
	h := healthy()
	h.Plan.Invariants = []ringproof.Invariant{
		{Check: "quorum-margin", Params: map[string]string{"min": "many"}}, {Check: "avail"},
		{Check: "available", Params: map[string]string{"gap": "1s"}}, {Check: "no-leftovers"},
	}
	findings := Judge(h)
	require.Len(t, findings, 4+len(Always()))
	findings = findings[len(Always())-1:]
	require.Equal(t, `check quorum-margin, parameter min: "many" is not a whole number such as 0`, findings[1].Message)
	require.Equal(t, "avail", findings[2].Check)
	require.Equal(t, `check available has no parameter "gap"; it has maxGap, realGap`, findings[3].Message)
	for _, f := range findings[1:4] {
		require.Equal(t, ringproof.Inconclusive, f.Verdict)
	}
	require.Equal(t, ringproof.Pass, findings[4].Verdict)
}

// TestWhatWasLetGoIsNotAsked: where the plan's assumptions let a step go, what
// rests on it is neither passed nor doubted; where they don't, it is doubted.
func TestWhatWasLetGoIsNotAsked(t *testing.T) {
	h := healthy()
	h.Plan.Steps = append(h.Plan.Steps,
		ringproof.Step{Name: "other", Fault: &ringproof.Fault{Kind: ringproof.FaultWrongRing, Target: "m1"}},
		ringproof.Step{Name: "lead", Op: &ringproof.Op{Kind: ringproof.OpMoveLeader, Target: "m1"}})
	event(h, ringproof.Event{At: sec(53), Kind: ringproof.EventStepMissed, Step: "lead", Text: "nobody answered"})
	h.Plan.Invariants = []ringproof.Invariant{{Check: "no-trespass"}}
	asked := func() map[string]ringproof.Verdict {
		verdicts := map[string]ringproof.Verdict{}
		for _, f := range Judge(h) {
			verdicts[f.Check] = f.Verdict
		}
		return verdicts
	}
	const gap, ok = ringproof.Inconclusive, ringproof.Pass
	require.Equal(t, map[string]ringproof.Verdict{"assumptions": gap, "steps": gap, "no-trespass": gap}, asked())

	h.Plan.Assumptions.FaultsFired, h.Plan.Assumptions.StepsTried = false, false
	require.Equal(t, map[string]ringproof.Verdict{"assumptions": ok, "steps": ok}, asked())

	event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventFaultLanded, Step: "other", Fault: ringproof.FaultWrongRing, Machine: "m1"})
	require.Equal(t, map[string]ringproof.Verdict{"assumptions": ok, "steps": ok, "no-trespass": ok}, asked())
}

func TestABrokenCheckNeverPasses(t *testing.T) {
	c := Check{Name: "broken", Judge: func(*ringproof.History, Values) ringproof.Finding { panic("index out of range") }}
	f := c.Finding(healthy(), nil)
	require.Equal(t, ringproof.Inconclusive, f.Verdict)
	require.Equal(t, "broken", f.Check)
	require.Contains(t, f.Message, "index out of range")
}

// grown are the changes of a ring of one that becomes one of so many.
func grown(size int) []ringproof.ConfChange {
	all := []ringproof.ConfChange{{Index: 1, Kind: "add-voter", Member: 1, Initial: true}}
	for n := 2; n <= size; n++ {
		index := uint64(10 * n)
		all = append(all, ringproof.ConfChange{Index: index, Kind: "add-learner", Member: ringproof.MemberID(n)}, ringproof.ConfChange{Index: index + 1, Kind: "promote", Member: ringproof.MemberID(n)})
	}
	return all
}

// TestAnEntryThatEtcdRefusesAddsNobody: at whose peer URL another member is reached.
func TestAnEntryThatEtcdRefusesAddsNobody(t *testing.T) {
	at := func(kind string, member ringproof.MemberID, urls ...string) ringproof.ConfChange {
		return ringproof.ConfChange{Kind: kind, Member: member, PeerURLs: urls}
	}
	c := newConfig()
	require.True(t, c.apply(at("add-voter", 1, "a")))
	require.True(t, c.apply(at("add-learner", 2, "b")))
	require.False(t, c.apply(at("add-learner", 3, "b")), "2 is there")
	require.False(t, c.apply(at("update", 1, "b")), "2 is there")
	require.True(t, c.apply(at("update", 2, "c")))
	require.True(t, c.apply(at("add-learner", 3, "b")), "2 has left it")
	require.True(t, c.apply(at("remove", 3)))
	require.True(t, c.apply(at("add-learner", 4, "b")))
}

// TestMessagesRoundTimes: "saw none for 2m36.980161035s" is more than anybody reads, and "0s" less.
func TestMessagesRoundTimes(t *testing.T) {
	long, short := 2*time.Minute+36*time.Second+980161035, 28511774*time.Nanosecond
	f := fail(ringproof.Instant(long), "none for %s, %s, since %s, until %s", long, short, ringproof.Instant(1967471127), ringproof.Forever)
	require.Equal(t, "none for 2m36.98s, 28.51ms, since 1.967s, until never", f.Message)
	require.Equal(t, ringproof.Instant(long), *f.At, "what is reckoned with is exact")
}
