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
	Params: []Param{{"maxGap", "15s", "the longest time without an acknowledged operation while clients ask"}},
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		gap, ok := longestGap(h)
		if !ok {
			return unknown("no client asked for anything")
		}
		budget := params.Duration("maxGap")
		if gap.length > budget {
			return fail(gap.from, "expected an acknowledged operation at least every %s, saw none for %s", budget, gap.length)
		}
		return pass("longest time without an acknowledged operation %s, from %s", gap.length, gap.from)
	},
	suits: func(p ringproof.Plan) bool { return safely(p) && p.Workload.Profile != "none" },
}

type gap struct {
	from   ringproof.Instant
	length time.Duration
}

// longestGap walks the returns. Somebody waits from the last acknowledgement,
// or from the first call after it, until the next acknowledgement.
func longestGap(h *ringproof.History) (longest gap, asked bool) {
	ops := h.Operations
	begins := ringproof.Instant(0)
	if made := events(h, ringproof.EventRingCreated); len(made) > 0 {
		begins = made[0].At
	}
	weigh := func(from, to ringproof.Instant) {
		if length := to.Sub(from); to != ringproof.Forever && length > longest.length {
			longest = gap{from, length}
		}
	}
	last, waits := begins, ringproof.Forever // since when somebody waits
	for _, i := range byReturn(ops) {
		o := &ops[i]
		if o.Request.Serializable || o.Return != ringproof.Forever && o.Return < begins {
			continue
		}
		asked = true
		waits = min(waits, max(o.Call, last))
		if o.Acked() {
			weigh(waits, o.Return)
			last, waits = o.Return, ringproof.Forever
		}
	}
	if waits != ringproof.Forever {
		weigh(waits, lastMoment(h))
	}
	return longest, asked
}

// lastMoment is when the run, or failing that its last answer or error, ended.
func lastMoment(h *ringproof.History) ringproof.Instant {
	var last ringproof.Instant
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Return != ringproof.Forever {
			last = max(last, o.Return)
		}
	}
	return last
}
