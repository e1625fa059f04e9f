// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// phases says in one sentence what the two phases of a run came to: safety
// under faults, then convergence without what stayed dead. A run that never came
// to the end of all faults has no second phase to speak of: "".
func phases(h *ringproof.History) string {
	healed := -1
	for i, e := range h.Events {
		if e.Kind == ringproof.EventHealPhase {
			healed = i // the last: it is the one that convergence is judged from
		}
	}
	if healed < 0 {
		return ""
	}
	first, rest := "no fault in", "the ring"
	if slices.ContainsFunc(h.Events[:healed], landed) {
		first, rest = "safety under faults until", "every fault had ended, and the ring"
	}
	if dead := stayedDead(h.Events[:healed]); len(dead) > 0 {
		rest = listed(dead) + " stayed dead and the rest"
	}
	at := seconds(h.Events[healed].At)
	return fmt.Sprintf("%s %s; then %s %s", first, secs(&at), rest, healedText(h, healed))
}

func landed(e ringproof.Event) bool { return e.Kind == ringproof.EventFaultLanded }

// healedText is what became of the ring once all faults had ended.
func healedText(h *ringproof.History, healed int) string {
	if h.Plan.Mode == ringproof.ModeDisaster {
		return "was asked to stop and say so, not to converge"
	}
	since := h.Events[healed].At
	for _, e := range h.Events[healed:] {
		if e.Kind == ringproof.EventConverged {
			return "converged in " + secs(figure(seconds(e.At-since)))
		}
	}
	return "did not converge in the " + secs(figure(seconds(end(h)-since))) + " that were left"
}

// stayedDead are the machines lost for good, those among them that were only
// killed and then left so.
func stayedDead(events []ringproof.Event) []string {
	var dead []string
	for _, e := range events {
		if landed(e) && e.Fault == ringproof.FaultMachineLoss {
			dead = append(dead, machines(e)...)
		}
	}
	slices.SortFunc(dead, natural)
	return slices.Compact(dead)
}

// listed prints "m1, m2 and m3".
func listed(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// spent prints "1 of 1": what is used of what the ledger would give. Before a
// membership was seen it would give nothing.
func spent(b ringproof.Budget) string {
	return fmt.Sprintf("%d of %d", b.Used, max(b.Used+b.Left, 0))
}
