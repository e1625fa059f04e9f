// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"slices"

	"github.com/ringproof/ringproof"
)

// turn is something that every member is asked for, which each comes to in its turn: to
// run another release, or to speak TLS to its peers.
type turn struct {
	name string
	op   ringproof.Op
	at   int    // after so many other operations
	join string // and after the turn of that name
	way  []ringproof.Trigger
}

// inTurn reports whether an operation is one that every member comes to in its turn.
func inTurn(kind ringproof.OpKind) bool {
	return kind == ringproof.OpUpgrade || kind == ringproof.OpPeers
}

// Members are restarted so often in a turn, each a quarter of a minute at most after the last.
const eachTurn = 15 * second

// inTurn chooses whether the ring is upgraded, and whether its peers are moved to TLS. It is
// drawn apart from the other operations, so that all else that a seed gives stays as it was.
func (c *composer) inTurn(ops int) {
	if c.draw("ring/upgrades", 8) == 7 {
		c.upgrades(ops)
	}
	if c.plan.Ring.Security == "tls" && c.draw("ring/encrypts", 8) == 7 {
		c.plan.Ring.Peers = "plain"
		c.turns = append(c.turns, turn{name: "encrypt", op: ringproof.Op{Kind: ringproof.OpPeers, Peers: "tls"}, at: c.draw("ring/encrypt-at", ops+1),
			way: beginnings("listen", 2*c.plan.Ring.Size, "update", 1)})
	}
}

// upgrades asks for the next minor, and every other time for the one after it once that is
// done, if there is one. Of a ring that is suspended nobody waits for it.
func (c *composer) upgrades(ops int) {
	if newer[c.plan.Ring.Version] == "" {
		c.plan.Ring.Version = versions[0]
	}
	c.release = newer[c.plan.Ring.Version]
	begin := func(name, join string, earliest int) (at int) {
		at = max(earliest, c.draw("ring/"+name+"-at", ops+1))
		c.turns = append(c.turns, turn{name: name, join: join, op: ringproof.Op{Kind: ringproof.OpUpgrade, Version: c.release}, at: at,
			way: beginnings("upgrade", c.plan.Ring.Size, "move-leader", 1)})
		return at
	}
	at := begin("upgrade", "", 0)
	if next := newer[c.release]; next != "" && !slices.Contains(c.ops, ringproof.OpSuspend) && c.draw("ring/upgrades-on", 2) == 1 {
		c.release = next
		begin("upgrade-on", "upgrade", at)
	}
}

// beginnings is the way of a turn: so many actions of a kind, so many of another, and the
// restarts between.
func beginnings(action string, times int, other string, others int) (way []ringproof.Trigger) {
	for _, event := range []ringproof.EventKind{ringproof.EventActionBegun, ringproof.EventActionDone} {
		for n := range times {
			way = append(way, ringproof.Trigger{Event: event, Action: action, Nth: n + 1, Timeout: 20 * second})
		}
		for n := range others {
			way = append(way, ringproof.Trigger{Event: event, Action: other, Nth: n + 1, Timeout: 20 * second})
		}
	}
	for _, event := range []ringproof.EventKind{ringproof.EventProcessExited, ringproof.EventProcessStarted} {
		way = append(way, ringproof.Trigger{Event: event, Nth: 1, Timeout: 20 * second})
	}
	return way
}

// begin asks for the turns that come after so many operations, and returns what happens on
// the way of the last.
func (c *composer) begin(at int) (way []ringproof.Trigger) {
	for _, t := range c.turns {
		if t.at != at {
			continue
		}
		label := func(what string) string { return "ring/" + t.name + "-" + what }
		step := ringproof.Step{Name: t.name, Op: &t.op, Detach: c.draw(label("detach"), 4) > 0}
		if t.join == "" {
			step.After = c.soon(label)
		} else {
			step.Timeout = c.takingTurns()
		}
		if slices.Contains(c.joins, t.join) {
			step.Join = []string{t.join}
		}
		c.add(step)
		way = t.way
	}
	return way
}

// takingTurns is how long the turns take when nothing else happens.
func (c *composer) takingTurns() ringproof.Duration {
	restarts, snapshot := 0, ringproof.Duration(0)
	for _, t := range c.turns {
		restarts++
		if t.op.Kind == ringproof.OpPeers {
			restarts++
		}
		if t.join != "" {
			snapshot = 2 * 60 * second // by some ten thousand entries before the first turn
		}
	}
	return snapshot + eachTurn*ringproof.Duration(restarts*c.most)
}
