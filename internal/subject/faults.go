// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// EventFaultLanded is the line that tells of a fault that landed.
const EventFaultLanded host.Event = "fault-landed"

// EventTrespass tells of an effect that an agent had in a dry run.
const EventTrespass host.Event = "trespass"

// injector does at one machine's seams what is set there, for one life of its agent.
type injector struct {
	faults  func() (seam.Faults, error)
	tally   seam.Tally
	kill    func()
	machine string        // as the journal calls it
	scope   string        // controller, where it is one
	dry     bool          // the agent was told to change nothing
	journal seam.Recorder // nil: nothing is recorded
	probed  bool          // the journal is kept only while the probe is set, which says what the machine is called
	host    host.Host     // whose log is written

	// later has something done after a while, whatever has become of the agent.
	later func(time.Duration, func(context.Context))

	open  string          // the action that the agent is about
	told  map[string]bool // steps that were told of
	past  map[string]bool // keys of the store
	since string          // the step whose past that is
	bad   string          // why the faults are not known
	views views
}

func newInjector(faults func() (seam.Faults, error), t seam.Tally, kill func()) *injector {
	return &injector{faults: faults, tally: t, kill: kill, later: afterwards, told: map[string]bool{}}
}

// afterwards is later of a process. What it has asked for and nobody has got yet is lost
// with it.
func afterwards(d time.Duration, do func(context.Context)) {
	time.AfterFunc(d, func() {
		asking, cancel := context.WithTimeout(context.Background(), seam.LateWithin)
		defer cancel()
		do(asking)
	})
}

// layers puts the injector inside and around the mutants.
func (x *injector) layers(mutants []layer) []layer {
	return slices.Concat([]layer{x.inner()}, mutants, []layer{x.outer()})
}

// inner lies next to the real thing, inside the mutants, so that it hits what a
// mutant does as well.
func (x *injector) inner() layer {
	return layer{
		host: func(h host.Host) host.Host {
			x.host = h
			return overheard{machine{Host: h, process: gatedProcess{h.Process(), x}, disk: gatedDisk{h.Disk(), x},
				client: func(c host.Etcd) host.Etcd { return gatedEtcd{c, x} }}, x}
		},
		store: func(_ host.Host, s store.Store) store.Store { return gatedStore{faultyStore{s, x}, x} },
		kube:  func(_ host.Host, c kubeclient.Client) kubeclient.Client { return gateKube(c, x) },
		brain: func(_ host.Host, b auto.Brain) auto.Brain {
			do := b.Do
			b.Do = func(ctx context.Context, r *admin.Ring, a ring.Action, f admin.Fence) error {
				return x.around(ctx, point{action: string(a.Kind)}, func(ctx context.Context) error { return do(ctx, r, a, f) })
			}
			return b
		},
	}
}

// overheard is a host whose injector knows which action the agent is about.
type overheard struct {
	machine
	injector *injector
}

func (o overheard) Log(l host.Line) {
	switch l.Event {
	case host.EventActionBegun:
		o.injector.open = l.Action
	case host.EventActionDone, host.EventActionFailed:
		o.injector.open = ""
	}
	o.machine.Log(l)
}

// set is what is set now. What can't be read is told, and hits nobody: the
// fault is missed, and the world sees that.
func (x *injector) set() seam.Faults {
	f, err := x.faults()
	if err == nil {
		return f
	}
	if x.bad != err.Error() {
		x.bad = err.Error()
		x.host.Log(host.Line{Event: host.EventTrouble, Text: "the file of faults can't be read: " + x.bad})
	}
	return seam.Faults{}
}

func (x *injector) landed(step, action, text string) {
	x.host.Log(host.Line{Event: EventFaultLanded, Step: step, Action: action, Text: text})
}

// errKilled is never seen by an agent: it is dead.
var errKilled = errors.New("killed by a fault")

// around passes a point, with the cuts that are set there.
func (x *injector) around(ctx context.Context, p point, do func(context.Context) error) error {
	note, set := -1, x.set()
	who, recorded := x.recorded(set)
	if recorded {
		note = x.journal.Reach(who, p.effect)
	}
	if p.late == nil {
		p.late = do
	}
	cuts := x.cuts(set, p)
	for _, s := range cuts {
		if s.Early() && s.Fires(x.tally) {
			return x.cut(s, p)
		}
	}
	// One that failed by itself has no reply to lose.
	if err := do(ctx); err != nil {
		return err
	}
	if recorded {
		x.journal.Done(note)
	}
	if x.dry && p.effect != "" {
		x.host.Log(host.Line{Event: EventTrespass, Text: p.effect + " in a dry run"})
	}
	for _, s := range cuts {
		if can := s.Fault.Phase != seam.Unseen || p.hide != nil; can && !s.Early() && s.Fires(x.tally) {
			return x.cut(s, p)
		}
	}
	return nil
}

// recorded reports whether the journal is to have what is done just now, and by whom.
func (x *injector) recorded(set seam.Faults) (seam.Origin, bool) {
	who := seam.Origin{Machine: x.machine, Scope: x.scope}
	if x.journal == nil || !x.probed {
		return who, x.journal != nil
	}
	probe, probed := set.Probe()
	if probed && x.scope == "" {
		who.Machine = probe.Machine
	}
	return who, probed
}

// hits reports whether a fault of this kind is to hit this program's calls.
func (x *injector) hits(f *ringproof.Fault, kinds ...ringproof.FaultKind) bool {
	return f != nil && slices.Contains(kinds, f.Kind) && (f.Scope == "" || f.Scope == x.scope)
}

func (x *injector) cuts(set seam.Faults, p point) (cuts []seam.Setting) {
	for _, s := range set.Set {
		f := s.Fault
		if !x.hits(f, ringproof.FaultAgentCrash) {
			continue
		}
		if f.Action != "" && f.Action == p.action || f.Effect != "" && f.Effect == p.effect {
			cuts = append(cuts, s)
		}
	}
	return cuts
}

func (x *injector) cut(s seam.Setting, p point) error {
	at := cmp.Or(s.Fault.Action, s.Fault.Effect)
	x.landed(s.Step, cmp.Or(s.Fault.Action, x.open), at+": "+s.Happens("the agent"))
	switch {
	case s.Fault.Phase == seam.Unseen:
		p.hide(s.UnseenFor())
		return nil
	case s.Fault.Phase == seam.Late:
		x.later(s.LateBy(), func(ctx context.Context) { _ = p.late(ctx) })
		return fmt.Errorf("%s: no reply: %w", at, context.DeadlineExceeded)
	case s.Fault.Phase == seam.ReplyLost:
		return fmt.Errorf("%s: its reply is lost: %w", at, context.DeadlineExceeded)
	case s.Fault.Phase != seam.Refused:
		x.kill()
		return errKilled
	case p.refusal != nil:
		return p.refusal
	}
	return fmt.Errorf("%s: refused by a fault", at)
}
