// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/scenarios"
)

// Scenario is the name of generated plans.
const Scenario = "explore"

const (
	mostOps    = 4
	mostFaults = 8
	mostVoters = 5
	second     = ringproof.Duration(time.Second)

	// restart is how long a ring without a voter to spare may miss the one that is
	// restarted: its agent asks each member first, and etcd those that are lost, five
	// seconds each, whether their data are the same.
	restart = 20 * second
)

// Plan composes the genome's plan. Its noise is that of the seed.
func (g Genome) Plan(seed uint64) ringproof.Plan { return Compose(g.Draw, seed) }

// Compose makes a plan of draws. Every plan is fair: it asks for sizes that a
// correct subject takes, has the machines for what it loses, and allows the
// time that its own harm takes; what else would be unfair, the ledger
// downgrades at run time.
func Compose(draw Draw, seed uint64) ringproof.Plan {
	c := composer{draw: draw, plan: ringproof.Plan{
		Cell: scenarios.Cell{Scenario: Scenario, Seed: seed, Seeded: true}.String(), Scenario: Scenario, Seed: seed,
		Subject: "reference", World: "sim",
		Hypothesis: "Under fair harm no acknowledged write is lost, the quorum is kept, and the ring becomes what was asked for.",
	}}
	c.ring()
	if weighted(draw, "ring/mode", 15, 1) == 1 {
		c.disaster()
	} else {
		c.safe()
	}
	c.load()
	c.judged()
	return c.plan
}

// composer is a plan in the making.
type composer struct {
	draw Draw
	plan ringproof.Plan

	kinds  []faults.Entry // the harm of this plan
	ops    []ringproof.OpKind
	asked  int // voters that were asked for last
	fewest int // voters that there may be now
	most   int // voters ever asked for
	spares int // machines that harm and operations use up
	aims   int // 1 when a fault aims at a spare
	harm   ringproof.Duration
	joins  []string
}

var (
	versions  = []string{"v3.6.16", "v3.5.35", "v3.7.3"}
	retention = []ringproof.Duration{10 * second, 5 * second, 60 * second} // no less than a member takes to come up
	snapshots = []int{0, 10, 50, 500}
	profiles  = []string{"kv-txn-watch", "kv", "patient-watch", "progress-watch", "tombstone-watch"}
)

func (c *composer) ring() {
	size := []int{1, 3, 5}[weighted(c.draw, "ring/size", 1, 6, 3)]
	c.asked, c.fewest, c.most = size, size, size
	c.plan.Ring = ringproof.RingSpec{
		Size: size, Version: versions[weighted(c.draw, "ring/version", 2, 1, 1)],
		Security:     []string{"plain", "tls"}[weighted(c.draw, "ring/security", 1, 2)],
		ReplaceAfter: one(c.draw, "ring/replaceAfter", retention...),
		SnapCount:    one(c.draw, "ring/snapCount", snapshots...),
		Volume:       512 << 20,
	}
	if c.draw("ring/fast", 3) == 2 {
		c.plan.Ring.Heartbeat, c.plan.Ring.Election = ringproof.Duration(50*time.Millisecond), ringproof.Duration(500*time.Millisecond)
	}
}

func (c *composer) load() {
	c.plan.Assumptions.MinAcked = 10
	c.plan.Workload = ringproof.Workload{
		Profile: profiles[weighted(c.draw, "load/profile", 10, 3, 1, 1, 1)],
		Clients: 1 + c.draw("load/clients", 6),
		Keys:    one(c.draw, "load/keys", 8, 1, 3, 20),
		Rate:    one(c.draw, "load/rate", 20.0, 40, 80),
	}
}

// safe is a plan whose harm a correct subject survives.
func (c *composer) safe() {
	c.swarm()
	ops, harms := 0, 0
	if len(c.ops) > 0 {
		ops = c.draw("ops/count", mostOps+1)
	}
	if len(c.kinds) > 0 {
		harms = c.draw("faults/count", mostFaults+1)
	}
	places := make([][]int, ops+1)
	for i := range harms {
		at := c.draw(fmt.Sprintf("fault/%d/place", i+1), ops+1)
		places[at] = append(places[at], i+1)
	}
	for at, here := range places {
		var way []ringproof.Trigger // the first fault after an operation may meet it on its way
		if at > 0 {
			way = c.operation(at)
		}
		for _, n := range here {
			c.fault(n, way)
			way = nil
		}
	}
	c.settle()
	c.plan.Ring.Machines = c.most + c.spares + max(c.aims, c.draw("ring/spares", 2))
}

// swarm chooses what this plan may do at all: plans that each lack something
// find more than plans that all do a little of everything.
func (c *composer) swarm() {
	for _, e := range faults.All() {
		if slices.Contains(e.Worlds, "sim") && c.draw("swarm/"+string(e.Kind), 2) == 1 {
			c.kinds = append(c.kinds, e)
		}
	}
	for _, kind := range []ringproof.OpKind{ringproof.OpScale, ringproof.OpReplace, ringproof.OpRestart, ringproof.OpRoll, ringproof.OpMoveLeader} {
		if c.draw("swarm/"+string(kind), 2) == 1 {
			c.ops = append(c.ops, kind)
		}
	}
}

func (c *composer) add(s ringproof.Step) {
	s.Timeout = cmp.Or(s.Timeout, 60*second)
	c.plan.Steps = append(c.plan.Steps, s)
	if s.Detach {
		c.joins = append(c.joins, s.Name)
	}
}

// operation adds the nth operation, and returns what happens on its way. Most
// are detached, so that harm meets them half done.
func (c *composer) operation(n int) []ringproof.Trigger {
	label := func(what string) string { return fmt.Sprintf("op/%d/%s", n, what) }
	op := &ringproof.Op{Kind: one(c.draw, label("kind"), c.ops...)}
	step := ringproof.Step{Name: fmt.Sprintf("op-%d", n), Op: op, After: c.soon(label), Detach: c.draw(label("detach"), 4) > 0}
	more := 0
	switch op.Kind {
	case ringproof.OpScale:
		op.To = []int{1, 3, 5}[weighted(c.draw, label("to"), 1, 4, 4)]
		more = op.To - c.asked
		c.fewest = min(c.asked, op.To)
		c.asked, c.most = op.To, max(c.most, op.To)
		step.Timeout = 120 * second
	case ringproof.OpReplace:
		c.spares++
		fallthrough
	case ringproof.OpRestart, ringproof.OpMoveLeader:
		op.Target = one(c.draw, label("target"), c.present("leader", "follower", "voter")...)
	}
	if op.Kind == ringproof.OpRoll || op.Kind == ringproof.OpRestart {
		c.harm += restart
	}
	c.add(step)
	return milestones(*op, more)
}

// soon is a short time after the step before began; nil: at once, or at the
// beginning of all. Whichever step that was: one whose trigger never came must
// not take those after it along.
func (c *composer) soon(label func(string) string) *ringproof.Trigger {
	delay := one(c.draw, label("delay"), 0, second/5, second, 3*second, 6*second)
	if delay == 0 || len(c.plan.Steps) == 0 {
		return nil
	}
	return &ringproof.Trigger{Event: ringproof.EventStepBegun, Nth: 1, Delay: delay, Timeout: 20 * second}
}

// settle asks for what was asked for last.
func (c *composer) settle() {
	none := 0
	c.add(ringproof.Step{Name: "settle", Join: c.joins, Timeout: 120 * second,
		Assert: &ringproof.Assert{Within: 120 * second, Voters: c.asked, Learners: &none, HashKV: "equal"}})
}

// judged lists the checks that fit the mode. While harm lasts clients may have
// nobody to ask, and what is absent for replaceAfter is replaced: so much more
// time is fair.
func (c *composer) judged() {
	known := scenarios.Standard().Checks
	recovery := 60*second + c.plan.Ring.ReplaceAfter*ringproof.Duration(1+c.spares) + 20*second*ringproof.Duration(len(c.joins))
	for _, check := range known {
		i := ringproof.Invariant{Check: check.Name}
		switch {
		case !check.Fits(c.plan.Mode):
			continue
		case check.Name == "available":
			i.Params = map[string]string{"maxGap": (15*second + c.harm).String()}
		case check.Name == "converges":
			i.Params = map[string]string{"within": recovery.String()}
		}
		c.plan.Invariants = append(c.plan.Invariants, i)
	}
}
