// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"time"

	"github.com/ringproof/ringproof"
)

// available measures from when somebody waits, not from the last answer: idle
// clients are no outage. Serializable reads don't count, as a member without
// a leader answers them too.
var available = Check{
	Name:   "available",
	Claim:  "Clients that ask are never without an acknowledged operation for longer than the budget.",
	Source: "etcd's failure modes: a fault costs about one election timeout; etcd-launcher restarts every member",
	Timed:  true,
	Params: []Param{
		{"maxGap", "15s", "the longest time without an acknowledged operation while clients ask"},
		{"realGap", "15s", "the same outside the simulated world, where a slow machine is not the subject's doing; no less than maxGap"},
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
		if h.Evidence.Starved.Overran(given, budget) == ringproof.Fail {
			return fail(given.From, "expected an acknowledged operation at least every %s, saw none for %s", budget, given.Length())
		}
		if longest.Length() > budget {
			return starved(h, longest, "no operation was acknowledged for %s, and %s are allowed", longest.Length(), budget)
		}
		return pass("longest time without an acknowledged operation %s, from %s", longest.Length(), longest.From)
	},
	suits: func(p ringproof.Plan) bool { return safely(p) && p.Workload.Profile != "none" },
}

// longestGap walks the returns. Somebody waits from the last acknowledgement,
// or from the first call after it, until the next acknowledgement; that of a
// keep-alive is none, as a leader that is cut off gives it too. given is the
// gap that is longest without the host's starvation: an outage of 20 s in which
// the host gave 18 s is worse than one of 30 s in which it gave 3.
func longestGap(h *ringproof.History) (longest, given ringproof.Span, asked bool) {
	most := time.Duration(0)
	ops := h.Operations
	begins := ringproof.Instant(0)
	if made := events(h, ringproof.EventRingCreated); len(made) > 0 {
		begins = made[0].At
	}
	weigh := func(from, to ringproof.Instant) {
		gap := ringproof.Span{From: from, To: to}
		if to == ringproof.Forever || gap.Length() <= most {
			return
		}
		if gap.Length() > longest.Length() {
			longest = gap
		}
		if left := gap.Length() - h.Evidence.Starved.Within(gap); left > most {
			most, given = left, gap
		}
	}
	stops := ringproof.Forever
	if ends := events(h, ringproof.EventLoadEnds); len(ends) > 0 {
		stops = ends[0].At
	}
	last, waits := begins, ringproof.Forever // since when somebody waits
	for _, i := range byReturn(ops) {
		o := &ops[i]
		if o.Request.Serializable || o.Request.Kind == ringproof.RequestKeepAlive || o.Return != ringproof.Forever && o.Return < begins {
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
