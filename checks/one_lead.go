// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"slices"

	"github.com/ringproof/ringproof"
)

// oneLead judges deeds, not beliefs: who was paused while it led believes so
// until it has looked, and what it was about may still take effect. Who begins
// another change after that has looked, and leads beside the other.
var oneLead = Check{
	Name:   "one-lead",
	Claim:  "No two processes of the subject change the membership in turns: who is followed by another lead makes at most the change that it was about.",
	Source: "the fencing token of distributed locks; etcd-launcher and etcdadm act on every machine at once",
	counts: true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if len(events(h, ringproof.EventLeads)) == 0 {
			return unled(h)
		}
		w, n := leads{last: map[string]int{}, after: map[string]int{}}, 0
		for _, e := range h.Events {
			if f, bad := w.step(e); bad {
				return f
			}
			if w.changes(e) {
				n++
			}
		}
		if n == 0 && len(made(h)) > 0 {
			return with(unknown("the membership was changed, and of no change it is told who began it"), texts(made(h))...)
		}
		return pass("%s begun, by whoever led then; the lead was taken %s", ringproof.Counted(n, "change"), ringproof.Counted(len(events(h, ringproof.EventLeads)), "time"))
	},
	hears: []ringproof.EventKind{ringproof.EventLeads, ringproof.EventActionBegun},
	suits: safely,
}

// unled judges a run in which nobody is known to have led. One that is over before
// somebody could, as the lease of a lead that never heard of it outlives a leader's loss,
// has no change that somebody else could have made. The members' logs must say so: a
// subject that tells nothing may have done anything.
func unled(h *ringproof.History) ringproof.Finding {
	var w leads
	if len(h.Evidence.Changes) > 0 && len(made(h)) == 0 && !slices.ContainsFunc(h.Events, w.changes) {
		return pass("nobody led, and nobody changed the membership")
	}
	return unknown("the subject doesn't say who of its processes leads")
}

// leads is who took the lead when, and what they did since another did.
type leads struct {
	lead   string
	taken  ringproof.Event
	last   map[string]int // the changes that each began
	after  map[string]int // those since another leads
	others []ringproof.Event
}

func (w *leads) changes(e ringproof.Event) bool {
	// The actions of the one who leads: launching and clearing are each machine's own.
	return e.Kind == ringproof.EventActionBegun && (e.ChangesMembership() || e.Action == bind) && e.By != ""
}

func (w *leads) step(e ringproof.Event) (ringproof.Finding, bool) {
	switch {
	case e.Kind == ringproof.EventLeads:
		w.lead, w.taken, w.others = e.By, e, nil
		w.after = map[string]int{}
	case w.changes(e) && e.By != w.lead:
		w.after[e.By]++
		w.others = append(w.others, e)
		if w.after[e.By] > 1 {
			return with(fail(e.At, "expected %s to stop changing the ring once %s leads, since %s; saw it begin %s since",
				e.By, w.lead, w.taken.At, ringproof.Counted(w.after[e.By], "change")), append([]string{w.taken.String()}, lines(w.others)...)...), true
		}
	}
	return ringproof.Finding{}, false
}
