// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// available measures from when somebody waits, not from the last answer: idle
// clients are no outage. Serializable reads don't count, as a member without
// a leader answers them too.
var available = Check{
	Name:   "available",
	Claim:  "Clients that ask are never without an acknowledged operation for longer than the budget, but while faults themselves keep the voters from a quorum.",
	Source: "etcd's failure modes: a fault costs about one election timeout; etcd-launcher restarts every member",
	Timed:  true,
	Params: []Param{
		{"maxGap", "15s", "the longest time without an acknowledged operation while clients ask"},
		{"realGap", "15s", "the same in real time, where a slow machine is not the subject's doing; no less than maxGap"},
	},
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		longest, given, ok := longestGap(h)
		if !ok {
			return unknown("no client asked for anything")
		}
		budget := params.Duration("maxGap")
		if !h.Tools.Virtual {
			budget = max(budget, params.Duration("realGap"))
		}
		if given.charged(h.Plan.Ring) > budget {
			return fail(given.From, "expected an acknowledged operation at least every %s, saw none for %s%s", budget, given.Length(), given.while())
		}
		if longest.counted > budget {
			return starved(h, longest.Span, "no operation was acknowledged for %s, and %s are allowed", longest.counted, budget)
		}
		return pass("longest time without an acknowledged operation %s, from %s%s", longest.Length(), longest.From, longest.while())
	},
	suits: func(p ringproof.Plan) bool { return safely(p) && p.Workload.Profile != "none" },
}

// longestGap walks the returns. Somebody waits from the last acknowledgement,
// or from the first call after it, until the next acknowledgement; that of a
// keep-alive is none, as a leader that is cut off gives it too. given is the
// gap that is longest without the host's starvation: an outage of 20 s in which
// the host gave 18 s is worse than one of 30 s in which it gave 3.
func longestGap(h *ringproof.History) (longest, given gap, asked bool) {
	held := slices.SortedFunc(slices.Values(append(heldDown(h), hanging(h)...)), func(a, b ringproof.Span) int { return cmp.Compare(a.From, b.From) })
	ops := h.Operations
	begins := ringproof.Instant(0)
	if made := events(h, ringproof.EventRingCreated); len(made) > 0 {
		begins = made[0].At
	}
	weigh := func(from, to ringproof.Instant) {
		if to == ringproof.Forever || to.Sub(from) <= given.charged(h.Plan.Ring) {
			return
		}
		g := gapOf(h, ringproof.Span{From: from, To: to}, held)
		if g.counted > longest.counted {
			longest = g
		}
		if g.charged(h.Plan.Ring) > given.charged(h.Plan.Ring) {
			given = g
		}
	}
	stops := ringproof.Forever
	if ends := events(h, ringproof.EventLoadEnds); len(ends) > 0 {
		stops = ends[0].At
	}
	last, waits := begins, ringproof.Forever // since when somebody waits
	for _, i := range byReturn(ops) {
		o := &ops[i]
		if !byQuorum(o.Request) || o.Return != ringproof.Forever && o.Return < begins {
			continue
		}
		asked = true
		if o.Call > stops && waits <= stops { // the rest, in which nobody asks
			weigh(waits, stops)
			last, waits = stops, ringproof.Forever
		}
		waits = min(waits, max(o.Call, last))
		if o.Acked() {
			weigh(waits, o.Return)
			last, waits = o.Return, ringproof.Forever
		}
	}
	if waits != ringproof.Forever {
		weigh(waits, lastMoment(h))
	}
	return longest, given, asked
}

// byQuorum reports whether nobody answers the request without a quorum: a member alone does a
// serializable read, and a leader that is cut off keeps a lease alive.
func byQuorum(r ringproof.Request) bool {
	return !r.Serializable && r.Kind != ringproof.RequestKeepAlive
}

// gap is a time in which clients asked and had no answer: how much of it counts, as
// faults held no quorum down, and how much of that the host took.
type gap struct {
	ringproof.Span
	counted, lost time.Duration
}

// charged is how much of the gap is nobody's but the subject's. A host that takes an election
// timeout from a ring may have taken its leader: then another is elected first, which lasts up to
// two of them (raft draws each between one and two).
func (g gap) charged(r ringproof.RingSpec) time.Duration {
	election := cmp.Or(r.Election.Std(), etcdElection)
	if g.lost < election {
		return g.counted - g.lost
	}
	return max(0, g.counted-g.lost-2*election)
}

// etcdElection is etcd's default of --election-timeout.
const etcdElection = time.Second

// while says how much of the gap doesn't count.
func (g gap) while() string {
	if g.counted == g.Length() {
		return ""
	}
	return fmt.Sprintf("; faults held the quorum down for %s of it", readable(g.Length()-g.counted))
}

func gapOf(h *ringproof.History, whole ringproof.Span, held []ringproof.Span) gap {
	g := gap{Span: whole}
	count := func(from, to ringproof.Instant) {
		if from < to {
			g.counted += to.Sub(from)
			g.lost += h.Evidence.Starved.Within(ringproof.Span{From: from, To: to})
		}
	}
	from := whole.From
	for _, s := range held {
		count(from, min(s.From, whole.To))
		from = max(from, s.To)
	}
	count(from, whole.To)
	return g
}

// lastMoment is until when clients asked: the end of the workload, or else of
// the run, and no earlier than the last answer or error. One whose request never
// returns asks till then.
func lastMoment(h *ringproof.History) ringproof.Instant {
	var last ringproof.Instant
	if ends := events(h, ringproof.EventLoadEnds, ringproof.EventRunEnds); len(ends) > 0 {
		last = ends[0].At
	}
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Return != ringproof.Forever {
			last = max(last, o.Return)
		}
	}
	return last
}
