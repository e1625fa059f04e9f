// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// dark is a run in which nobody has an answer from 2 s on until the given second.
func dark(until float64, voters int, faults ...ringproof.Fault) *ringproof.History {
	h := &ringproof.History{Tools: ringproof.Tools{Virtual: true}}
	for i, f := range faults {
		h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: fmt.Sprintf("fault%d", i), Fault: &f})
	}
	h.Operations = []ringproof.Operation{
		{Call: 0, Return: sec(1), Response: &ringproof.Response{}},
		{Call: sec(2), Return: sec(until), Response: &ringproof.Response{}},
	}
	h.Events = []ringproof.Event{{Kind: ringproof.EventRingCreated}, {At: sec(until + 1), Kind: ringproof.EventRunEnds}}
	h.Observations = []ringproof.Observation{votersOn(1, voters)}
	return h
}

// TestAvailableWhileARemovalHangs: a member was cut off, and somebody else removed it. A real etcd
// may send nothing for ten seconds then: no longer, not without the cut, and not for another change.
func TestAvailableWhileARemovalHangs(t *testing.T) {
	for name, test := range map[string]struct {
		until   float64
		healed  float64
		does    string
		virtual bool
		says    string
	}{
		"it hangs":            {11.5, 30, ringproof.MemberRemove, false, ""},
		"for longer":          {14.5, 30, ringproof.MemberRemove, false, "at least every 2s, saw none for 12.5s"},
		"the cut was over":    {11.5, 1.5, ringproof.MemberRemove, false, "at least every 2s, saw none for 9.5s"},
		"somebody was added":  {11.5, 30, ringproof.MemberAdd, false, "at least every 2s, saw none for 9.5s"},
		"a simulated network": {11.5, 30, ringproof.MemberRemove, true, "at least every 2s, saw none for 9.5s"},
	} {
		t.Run(name, func(t *testing.T) {
			h := dark(test.until, 3, ringproof.Fault{Kind: ringproof.FaultPartition, Shape: "isolate"}, ringproof.Fault{Kind: ringproof.FaultForeignHand, Does: test.does})
			h.Tools.Virtual = test.virtual
			hit(hit(h, 0, 1, test.healed, "m2"), 1, 2, 20, "m2")
			judged(t, available.Finding(h, Values{"maxGap": "2s", "realGap": "2s"}), test.says)
		})
	}
}

func votersOn(at float64, n int) ringproof.Observation {
	o := ringproof.Observation{At: sec(at), Fresh: true}
	for i := 1; i <= n; i++ {
		name := fmt.Sprintf("m%d", i)
		o.Machines = append(o.Machines, ringproof.MachineView{Name: name, Up: true, Disk: 1})
		o.Members = append(o.Members, ringproof.MemberView{ID: ringproof.MemberID(i), Machine: name, Serving: true})
	}
	return o
}

// hit lets the nth fault land on the machines, and heal, as one event or as one a machine.
func hit(h *ringproof.History, n int, from, to float64, machines string, each ...string) *ringproof.History {
	kind, step := h.Plan.Steps[n].Fault.Kind, h.Plan.Steps[n].Name
	event(h, ringproof.Event{At: sec(from), Kind: ringproof.EventFaultLanded, Fault: kind, Step: step, Machine: machines})
	for i, m := range each {
		event(h, ringproof.Event{At: sec(to + float64(2*i)), Kind: ringproof.EventFaultHealed, Fault: kind, Step: step, Machine: m})
	}
	if len(each) == 0 {
		event(h, ringproof.Event{At: sec(to), Kind: ringproof.EventFaultHealed, Fault: kind, Step: step, Machine: machines})
	}
	return h
}

func exits(h *ringproof.History, at float64, machine string) *ringproof.History {
	event(h, ringproof.Event{At: sec(at), Kind: ringproof.EventProcessExited, Machine: machine})
	return h
}

// TestFaultsThatHoldTheQuorumDown is no outage of the subject's, for as long as it does.
func TestFaultsThatHoldTheQuorumDown(t *testing.T) {
	off := ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine", For: 30}
	full, unstartable := ringproof.Fault{Kind: ringproof.FaultDiskFull}, ringproof.Fault{Kind: ringproof.FaultStartFailure}
	alarm := ringproof.Fault{Kind: ringproof.FaultAlarmRaised, Alarm: ringproof.AlarmCorrupt}
	paused := func(scope string) ringproof.Fault { return ringproof.Fault{Kind: ringproof.FaultPause, Scope: scope} }
	parted := func(shape string) ringproof.Fault {
		return ringproof.Fault{Kind: ringproof.FaultPartition, Shape: shape}
	}
	at := func(port string) ringproof.Fault {
		f := parted("isolate")
		f.Port = port
		return f
	}
	set := func(how string) ringproof.Fault {
		return ringproof.Fault{Kind: ringproof.FaultSetDeleted, How: how}
	}
	asking := func(how string) ringproof.Fault {
		return ringproof.Fault{Kind: ringproof.FaultRingDeleted, How: how}
	}
	slow := func(kind ringproof.FaultKind, by int) ringproof.Fault {
		return ringproof.Fault{Kind: kind, By: ringproof.Duration(time.Duration(by) * time.Millisecond)}
	}
	lossy := func(percent int) ringproof.Fault {
		return ringproof.Fault{Kind: ringproof.FaultPacketLoss, Percent: percent}
	}
	ended := func(h *ringproof.History, at float64) *ringproof.History {
		return exits(exits(h, at, "m1"), at, "m2")
	}
	shrunk := hit(dark(40, 5, off), 0, 2, 32, "m1,m2")
	shrunk.Observations = append(shrunk.Observations, votersOn(5, 3))
	event(shrunk, ringproof.Event{At: sec(6), Kind: ringproof.EventProcessExited, Machine: "m4"})
	servedOn := ended(hit(dark(40, 3, set("background")), 0, 2, 60, ""), 36)
	servedOn.Observations = append(servedOn.Observations, votersOn(20, 3))
	for _, test := range []struct {
		name string
		h    *ringproof.History
		want ringproof.Verdict
	}{
		{"two of three without power", hit(dark(40, 3, off), 0, 2, 32, "m1,m2"), ringproof.Pass},
		{"they come back one by one, and one is enough", hit(dark(46, 3, off), 0, 2, 32, "m1,m2", "m1", "m2"), ringproof.Pass},
		{"a subject that is slow after it", hit(dark(50, 3, off), 0, 2, 32, "m1,m2"), ringproof.Fail},
		{"one of three", hit(dark(40, 3, off), 0, 2, 32, "m1"), ringproof.Fail},
		{"two of five", hit(dark(40, 5, off), 0, 2, 32, "m1,m2"), ringproof.Fail},
		{"the subject took the voters away that were left", shrunk, ringproof.Fail},
		{"etcd alone, which is to be started again", hit(dark(40, 3, ringproof.Fault{Kind: ringproof.FaultKill, Scope: "process"}), 0, 2, 32, "m1,m2"), ringproof.Fail},
		{"paused", hit(dark(40, 3, paused("process")), 0, 2, 32, "m1,m2"), ringproof.Pass},
		{"only agents paused", hit(dark(40, 3, paused("agent")), 0, 2, 32, "m1,m2,m3"), ringproof.Fail},
		{"each cut off alone", hit(dark(40, 3, parted("isolate")), 0, 2, 32, "m1,m2"), ringproof.Pass},
		{"each at the peer port", hit(dark(40, 3, at(ringproof.PortPeer)), 0, 2, 32, "m1,m2"), ringproof.Pass},
		{"each at the client port, and members hear each other", hit(dark(40, 3, at(ringproof.PortClient)), 0, 2, 32, "m1,m2"), ringproof.Fail},
		{"two cut off together are a quorum", hit(dark(40, 3, parted("split")), 0, 2, 32, "m1,m2"), ringproof.Fail},
		{"they aren't, in five", hit(hit(dark(40, 5, parted("split"), off), 0, 2, 32, "m1,m2"), 1, 2, 32, "m3"), ringproof.Pass},
		{"cut off and without power", hit(hit(dark(40, 3, parted(""), off), 0, 2, 32, "m1"), 1, 2, 32, "m2"), ringproof.Pass},
		{"the cut heals first, and a quorum is back", hit(hit(dark(40, 3, parted(""), off), 0, 2, 12, "m1"), 1, 2, 32, "m2"), ringproof.Fail},
		{"full disks that no etcd has noticed", hit(dark(40, 3, full), 0, 2, 32, "m1,m2"), ringproof.Fail},
		{"full disks", exits(exits(hit(dark(40, 3, full), 0, 2, 32, "m1,m2"), 3, "m1"), 3, "m2"), ringproof.Pass},
		{"etcds that can't start", exits(exits(hit(dark(40, 3, unstartable), 0, 2, 32, "m1,m2"), 3, "m1"), 4, "m2"), ringproof.Pass},
		{"an alarm", hit(dark(40, 3, alarm), 0, 2, 32, "m1"), ringproof.Pass},
		{"an alarm that is taken back", hit(dark(40, 3, alarm), 0, 2, 12, "m1"), ringproof.Fail},
		{"an etcd that ended under an alarm", exits(exits(hit(dark(40, 3, alarm), 0, 2, 12, "m1,m2"), 3, "m1"), 3, "m2"), ringproof.Fail},
		{"pods that end with what makes them", ended(hit(dark(26, 3, set("background")), 0, 2, 60, ""), 12), ringproof.Pass},
		{"a subject that is slow to make it anew", ended(hit(dark(40, 3, set("foreground")), 0, 2, 60, ""), 12), ringproof.Fail},
		{"pods that are left", hit(dark(26, 3, set(ringproof.Orphan)), 0, 2, 60, ""), ringproof.Fail},
		{"no pod ended", hit(dark(26, 3, set("background")), 0, 2, 60, ""), ringproof.Fail},
		{"pods that served on, and ended for something else", servedOn, ringproof.Fail},
		{"one of three pods ended", exits(hit(dark(26, 3, set("background")), 0, 2, 60, ""), 12, "m1"), ringproof.Fail},
		{"nobody asks for the ring", ended(hit(dark(40, 3, asking("background")), 0, 2, 32, ""), 4), ringproof.Pass},
		{"nobody asks for it, and pods end later", ended(hit(dark(50, 3, asking("background")), 0, 2, 12, ""), 36), ringproof.Pass},
		{"a subject that is slow when it is asked again", ended(hit(dark(50, 3, asking("background")), 0, 2, 32, ""), 4), ringproof.Fail},
		{"nobody asks for it, and pods are left", ended(hit(dark(40, 3, asking(ringproof.Orphan)), 0, 2, 32, ""), 4), ringproof.Fail},
		{"names that are lies", hit(dark(40, 3, ringproof.Fault{Kind: ringproof.FaultNameStale}), 0, 2, 32, "m1,m2"), ringproof.Pass},
		{"the name of one is a lie", hit(dark(40, 3, ringproof.Fault{Kind: ringproof.FaultNameStale}), 0, 2, 32, "m1"), ringproof.Fail},
		{"disks too slow for a leader", hit(dark(40, 3, slow(ringproof.FaultSlowDisk, 1500)), 0, 2, 32, "m1,m2,m3"), ringproof.Pass},
		{"one disk too slow for a leader", hit(dark(40, 3, slow(ringproof.FaultSlowDisk, 1500)), 0, 2, 32, "m1"), ringproof.Fail},
		{"disks that a leader can have", hit(dark(40, 3, slow(ringproof.FaultSlowDisk, 400)), 0, 2, 32, "m1,m2,m3"), ringproof.Fail},
		{"packets too slow for a vote", hit(dark(40, 3, slow(ringproof.FaultSlowNetwork, 600)), 0, 2, 32, "m1,m2,m3"), ringproof.Pass},
		{"packets that a vote can have", hit(dark(40, 3, slow(ringproof.FaultSlowNetwork, 300)), 0, 2, 32, "m1,m2,m3"), ringproof.Fail},
		{"packets lost until a leader loses its lead", hit(dark(40, 3, lossy(15)), 0, 2, 32, "m1,m2,m3"), ringproof.Pass},
		{"packets lost that a leader can lose", hit(dark(40, 3, lossy(10)), 0, 2, 32, "m1,m2,m3"), ringproof.Fail},
		{"one machine's packets lost", hit(dark(40, 3, lossy(50)), 0, 2, 32, "m1"), ringproof.Fail},
		{"slow, and not gone", hit(dark(40, 3, ringproof.Fault{Kind: ringproof.FaultSlowNetwork}), 0, 2, 32, "m1,m2"), ringproof.Fail},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := available.Finding(test.h, nil)
			require.Equal(t, test.want, f.Verdict, f.Message)
		})
	}
}
