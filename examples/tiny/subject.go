// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package tiny

import (
	"fmt"
	"slices"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/harness/cli"
	"github.com/ringproof/ringproof/sim"
)

// Subject is the launcher as a registry takes it: how it is put into the simulated
// world, and what can't be asked of it.
func Subject() cli.Subject {
	return cli.Subject{
		Name:     "tiny",
		Security: "plain",
		Supports: supports,
		Runs:     runs,
		Untold:   untold,
		Ways:     []any{cli.InSim(func([]string) (sim.Subject, error) { return &Launcher{}, nil })},
	}
}

// untold is what it never tells of: it leads nothing, decides nothing, and never halts.
var untold = []ringproof.EventKind{
	ringproof.EventLeads, ringproof.EventActionBegun, ringproof.EventActionDone, ringproof.EventActionFailed,
	ringproof.EventWaiting, ringproof.EventHalted, ringproof.EventDiskReplaced,
}

// changes are events of a membership that it never changes.
var changes = []ringproof.EventKind{ringproof.EventMemberAdded, ringproof.EventMemberPromoted, ringproof.EventMemberRemoved}

// supports says why it can't be tried with a step.
func supports(s ringproof.Step) error {
	switch {
	case s.Op != nil && s.Op.Kind != ringproof.OpRoll && s.Op.Kind != ringproof.OpAsk && (s.Op.Kind != ringproof.OpRestart || s.Op.Changes()):
		return fmt.Errorf("tiny can't be asked to %s", s.Op.Kind)
	case s.After != nil && slices.Contains(slices.Concat(untold, changes), s.After.Event):
		return fmt.Errorf("%s never happens with tiny", s.After.Event)
	case faults.AtSeam(s):
		return fmt.Errorf("tiny has no seams at which %s could be done", s.Fault.Kind)
	case s.Fault != nil && s.Fault.Kind == ringproof.FaultMachineLoss:
		return fmt.Errorf("tiny replaces no machine")
	case s.Fault != nil && s.Fault.Kind == ringproof.FaultForeignHand:
		return fmt.Errorf("tiny brings back nobody whom somebody removed")
	case s.Fault != nil && s.Fault.LeavesLog():
		return fmt.Errorf("tiny can't tell one log from another")
	}
	return nil
}

// runs says why it can't make the plan's ring.
func runs(p ringproof.Plan) error {
	switch {
	case p.Ring.Security != "plain":
		return fmt.Errorf("tiny knows no TLS")
	case p.Ring.Domain != "":
		return fmt.Errorf("tiny has etcd listen where it is found, and no etcd listens at a name")
	case p.Mode == ringproof.ModeDisaster:
		return fmt.Errorf("tiny halts in no disaster")
	}
	return nil
}
