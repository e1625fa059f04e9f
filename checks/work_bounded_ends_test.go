// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// bounced has an operator's step from one second to another; on: the one machine that it is about.
func bounced(h *ringproof.History, op ringproof.Op, from, to float64, on string) {
	h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "operate", Op: &op})
	event(h, ringproof.Event{At: sec(from), Kind: ringproof.EventStepBegun, Step: "operate"})
	event(h, ringproof.Event{At: sec(to), Kind: ringproof.EventStepDone, Step: "operate", Machine: on})
}

// ends has the etcd of a machine end at each of the seconds.
func ends(h *ringproof.History, machine string, at ...float64) {
	for _, s := range at {
		event(h, ringproof.Event{At: sec(s), Kind: ringproof.EventProcessExited, Machine: machine})
	}
}

// TestWhatAnEndIsExcusedBy: a fault, a removal and a restart that was asked for excuse what they
// bring about, on the machines that they are about, and nothing that comes later.
func TestWhatAnEndIsExcusedBy(t *testing.T) {
	fault := func(h *ringproof.History, at float64, kind ringproof.FaultKind, machine string) {
		h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "fault", Fault: &ringproof.Fault{Kind: kind}})
		event(h, ringproof.Event{At: sec(at), Kind: ringproof.EventFaultLanded, Step: "fault", Fault: kind, Machine: machine})
	}
	early := func(h *ringproof.History, at ...float64) {
		for _, s := range at {
			event(h, ringproof.Event{At: sec(s), Kind: ringproof.EventProcessExited, Machine: "m1", Text: "etcd, pid 7, fatal: incompatible with current running cluster"})
		}
	}
	restart := ringproof.Op{Kind: ringproof.OpRestart, Target: "m3"}
	for _, test := range []struct {
		name  string
		plant func(h *ringproof.History)
		want  ringproof.Verdict
	}{
		{"a kill, and the end that it is", func(h *ringproof.History) {
			fault(h, 40, ringproof.FaultKill, "m3")
			ends(h, "m3", 40.1)
		}, ringproof.Pass},
		{"a kill, and an end long after it is over", func(h *ringproof.History) {
			fault(h, 40, ringproof.FaultKill, "m3")
			ends(h, "m3", 40.1, 66)
		}, ringproof.Fail},
		{"a pause that never ended", func(h *ringproof.History) {
			fault(h, 40, ringproof.FaultPause, "m3")
			ends(h, "m3", 66)
		}, ringproof.Pass},
		{"a pause that did", func(h *ringproof.History) {
			fault(h, 40, ringproof.FaultPause, "m3")
			event(h, ringproof.Event{At: sec(50), Kind: ringproof.EventFaultHealed, Step: "fault", Fault: ringproof.FaultPause, Machine: "m3"})
			ends(h, "m3", 66)
		}, ringproof.Fail},
		{"a fault hit all once", func(h *ringproof.History) {
			fault(h, 2, ringproof.FaultTimePasses, "")
			event(h, ringproof.Event{At: sec(5), Kind: ringproof.EventFaultHealed, Step: "fault", Fault: ringproof.FaultTimePasses})
			ends(h, "m3", 66)
		}, ringproof.Fail},
		{"its member has left", func(h *ringproof.History) { ends(h, "m2", 26) }, ringproof.Pass},
		{"another member serves where one has left", func(h *ringproof.History) { ends(h, "m2", 66) }, ringproof.Fail},
		{"an operator restarts it", func(h *ringproof.History) {
			bounced(h, restart, 40, 45, "m3")
			ends(h, "m3", 42)
		}, ringproof.Pass},
		{"an operator restarts another", func(h *ringproof.History) {
			bounced(h, restart, 40, 45, "m3")
			ends(h, "m1", 42)
		}, ringproof.Fail},
		{"an operator has restarted it long before", func(h *ringproof.History) {
			bounced(h, restart, 40, 45, "m3")
			ends(h, "m3", 66)
		}, ringproof.Fail},
		{"an operator restarts, nobody knows whom", func(h *ringproof.History) {
			bounced(h, restart, 40, 45, "")
			ends(h, "m1", 42)
		}, ringproof.Pass},
		{"a restart that never began", func(h *ringproof.History) {
			h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "operate", Op: &restart})
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventStepMissed, Step: "operate"})
			ends(h, "m1", 42)
		}, ringproof.Fail},
		{"each comes to trust other authorities", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpEdit, Params: map[string]string{"field": "spec.certificates.authority", "value": "2"}}, 40, 60, "")
			ends(h, "m1", 42, 45)
		}, ringproof.Pass},
		{"launchers are on for all, and each is given one and moved to TLS", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpEdit, Params: map[string]string{"object": "RingDefaults/default", "field": "spec.featureGates.EtcdLauncher", "value": "true"}}, 40, 60, "")
			ends(h, "m1", 42, 45)
		}, ringproof.Pass},
		{"each is moved to TLS, and closes its other port after that was done", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpPeers, Peers: "tls"}, 40, 60, "")
			ends(h, "m1", 42, 63)
		}, ringproof.Pass},
		{"each is moved to TLS, and ended once more", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpPeers, Peers: "tls"}, 40, 60, "")
			ends(h, "m1", 42, 50, 63)
		}, ringproof.Fail},
		{"each has other resources", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpEdit, Params: map[string]string{"field": "spec.resources.requests.cpu", "value": "1"}}, 40, 60, "")
			ends(h, "m1", 42, 45)
		}, ringproof.Fail},
		{"each is upgraded", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpUpgrade}, 40, 60, "")
			ends(h, "m1", 42)
			ends(h, "m3", 45)
		}, ringproof.Pass},
		{"one is ended twice for an upgrade", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpUpgrade}, 40, 60, "")
			ends(h, "m1", 42, 45)
		}, ringproof.Fail},
		{"a ring whose version is not decided on yet, as a member is off", func(h *ringproof.History) {
			fault(h, 40, ringproof.FaultSleep, "m3")
			early(h, 41)
		}, ringproof.Pass},
		{"an etcd that can't join, started again and again", func(h *ringproof.History) {
			fault(h, 40, ringproof.FaultSleep, "m3")
			early(h, 41, 43)
		}, ringproof.Fail},
		{"an etcd that can't join where all is well", func(h *ringproof.History) { early(h, 41) }, ringproof.Fail},
		{"one is upgraded, and so is the member that comes in its place", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpUpgrade}, 40, 60, "")
			ends(h, "m1", 42, 45)
			event(h, ringproof.Event{At: sec(43), Kind: ringproof.EventMemberRemoved, Machine: "m1"})
		}, ringproof.Pass},
		{"one is upgraded, and the member that comes in its place twice", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpUpgrade}, 40, 60, "")
			ends(h, "m1", 42, 45, 48)
			event(h, ringproof.Event{At: sec(43), Kind: ringproof.EventMemberRemoved, Machine: "m1"})
		}, ringproof.Fail},
		{"one is ended for each of two upgrades, of which the second was asked for before the first was carried out", func(h *ringproof.History) {
			h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "first", Op: &ringproof.Op{Kind: ringproof.OpUpgrade}})
			event(h, ringproof.Event{At: sec(39), Kind: ringproof.EventStepBegun, Step: "first"})
			bounced(h, ringproof.Op{Kind: ringproof.OpUpgrade}, 40, 60, "")
			event(h, ringproof.Event{At: sec(41), Kind: ringproof.EventStepDone, Step: "first"})
			ends(h, "m1", 42, 45)
		}, ringproof.Pass},
		{"one is ended for an upgrade, and then for TLS, which takes longer", func(h *ringproof.History) {
			h.Plan.Steps = append(h.Plan.Steps, ringproof.Step{Name: "a", Op: &ringproof.Op{Kind: ringproof.OpPeers}})
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventStepBegun, Step: "a"})
			bounced(h, ringproof.Op{Kind: ringproof.OpUpgrade}, 40, 45, "")
			event(h, ringproof.Event{At: sec(60), Kind: ringproof.EventStepDone, Step: "a"})
			ends(h, "m1", 42, 44, 46)
		}, ringproof.Pass},
		{"one is ended again after all was carried out", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpUpgrade}, 40, 60, "")
			ends(h, "m1", 61)
		}, ringproof.Fail},
		{"one is ended twice for TLS: it listens for both between", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpPeers}, 40, 60, "")
			ends(h, "m1", 42, 45)
		}, ringproof.Pass},
		{"one is ended again and again for TLS", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpPeers}, 40, 60, "")
			ends(h, "m1", 42, 45, 48)
		}, ringproof.Fail},
		{"what is killed in an upgrade is still to be upgraded", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpUpgrade}, 32, 60, "")
			fault(h, 33.5, ringproof.FaultKill, "m1")
			ends(h, "m1", 33.5, 45)
		}, ringproof.Pass},
		{"each is restarted in its turn", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpRoll}, 40, 60, "")
			ends(h, "m1", 42)
			ends(h, "m3", 45)
		}, ringproof.Pass},
		{"one is ended twice while each is restarted", func(h *ringproof.History) {
			bounced(h, ringproof.Op{Kind: ringproof.OpRoll}, 40, 60, "")
			ends(h, "m1", 42, 45)
		}, ringproof.Fail},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := healthy()
			test.plant(h)
			f := workBounded.Finding(h, nil)
			assert.Equal(t, test.want, f.Verdict, f.String())
		})
	}
}
