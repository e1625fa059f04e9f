// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"fmt"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

// The decisions of a brain.
const (
	DecidesNext = "next" // what the ring should do next
	DecidesBoot = "boot" // how etcd is started
)

// views is what one life of an agent was shown.
type views struct {
	ring  []ring.Observed
	start []launcher.Evidence // since the last start
}

// remember adds the present view, the latest last.
func remember[V any](seen []V, now V) []V {
	return append(seen[max(0, len(seen)-faults.MostBack):], now)
}

// ago returns the view of some decisions ago, or the oldest one, and how many
// decisions ago that was.
func ago[V any](seen []V, back int) (V, int) {
	back = min(max(back, 1), len(seen)-1)
	return seen[len(seen)-1-back], back
}

// outer lies around the mutants: a view that is old is so for all of a brain.
func (x *injector) outer() layer {
	return layer{brain: func(_ host.Host, b auto.Brain) auto.Brain {
		b.Next, b.Boot = x.next(b.Next), x.boot(b.Boot)
		return b
	}}
}

func (x *injector) next(inner next) next {
	return func(spec ring.Spec, o ring.Observed) ring.Decision {
		x.views.ring = remember(x.views.ring, o)
		d := x.decideNext(inner, spec, o)
		x.decided(DecidesNext, d, d.Action != nil)
		return d
	}
}

// decided records a decision; change reports whether it changes anything.
func (x *injector) decided(decision string, what fmt.Stringer, change bool) {
	if who, recorded := x.recorded(x.set()); recorded {
		x.journal.Decided(who, decision, what.String(), change)
	}
}

func (x *injector) decideNext(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
	s, hit := x.turn(DecidesNext)
	switch {
	case !hit:
		return inner(spec, o)
	case s.Fault.Kind == ringproof.FaultSkippedView:
		x.tell(s, "what is to be done next is not decided")
		return wait("a fault keeps this agent from deciding")
	}
	old, back := ago(x.views.ring, s.Fault.Back)
	d := inner(spec, old)
	x.stale(s, back, d)
	return d
}

func (x *injector) boot(inner boot) boot {
	return func(e launcher.Evidence) launcher.Boot {
		x.views.start = remember(x.views.start, e)
		b := x.decideBoot(inner, e)
		x.decided(DecidesBoot, b, b.Do != launcher.Wait)
		if b.Do == launcher.Start {
			x.views.start = nil
		}
		return b
	}
}

func (x *injector) decideBoot(inner boot, e launcher.Evidence) launcher.Boot {
	s, hit := x.turn(DecidesBoot)
	switch {
	case !hit:
		return inner(e)
	case s.Fault.Kind == ringproof.FaultSkippedView:
		x.tell(s, "how etcd is started is not decided")
		return launcher.Boot{Do: launcher.Wait, Why: "a fault keeps this agent from deciding"}
	}
	old, back := ago(x.views.start, s.Fault.Back)
	b := inner(elsewhere(e, old))
	x.stale(s, back, b)
	return b
}

// elsewhere is the evidence with what comes from other machines as it was.
// What a machine reads of its own disk is never old.
func elsewhere(now, old launcher.Evidence) launcher.Evidence {
	now.Listed, now.Why, now.Cluster, now.Members = old.Listed, old.Why, old.Cluster, old.Members
	now.LetGo, now.Recorded = old.LetGo, old.Recorded
	now.Identity, now.Formed, now.Unknown = old.Identity, old.Formed, old.Unknown
	return now
}

// turn counts the decision, and returns what is set for it.
func (x *injector) turn(decision string) (hit seam.Setting, found bool) {
	for _, s := range x.set().Set {
		f := s.Fault
		if !x.hits(f, ringproof.FaultStaleView, ringproof.FaultSkippedView) {
			continue
		}
		if f.Decision != decision && (f.Decision != "" || decision != DecidesNext) {
			continue
		}
		first, last := max(f.Nth, 1), max(f.Nth, 1)+max(f.Count, 1)-1
		if n := x.tally.Next(s.Series, last); !found && n >= first && n <= last {
			hit, found = s, true
		}
	}
	return hit, found
}

// stale tells of a view that was old. The first view of a life is not.
func (x *injector) stale(s seam.Setting, back int, decided fmt.Stringer) {
	if back > 0 {
		x.tell(s, fmt.Sprintf("decided on the view of %d decisions ago: %s", back, decided))
	}
}

// tell says once that the step's fault has landed.
func (x *injector) tell(s seam.Setting, text string) {
	if !x.told[s.Step] {
		x.told[s.Step] = true
		x.landed(s.Step, "", text)
	}
}
