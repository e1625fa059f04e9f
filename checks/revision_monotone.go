// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringproof/ringproof"
)

// revisionMonotone lets three things go backwards, as they may in a correct
// ring. A member that has just restarted serves its store while it still
// replays its log. A member that heard of a candidate has a higher term than
// the next one a client asks. A serializable read is of any past.
var revisionMonotone = Check{
	Name:   "revision-monotone",
	Claim:  "The revision that a client is told, and the revision and term of a member on its disk, never go backwards.",
	Source: "etcd's API guarantees: revisions are monotonic; a backup restored beneath live clients breaks them (kubernetes#132358)",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if f, bad := clientsGoBack(h); bad {
			return f
		}
		views, f, bad := membersGoBack(h)
		if bad {
			return f
		}
		if h.Acked() == 0 && views == 0 {
			return unknown("no operation was acknowledged and no member was seen serving")
		}
		return pass("over %s and %s of serving members", ringproof.Counted(h.Acked(), "acknowledged operation"), ringproof.Counted(views, "view"))
	},
}

// clientsGoBack compares each client's answers with its earlier ones, and the
// terms of each member's answers.
func clientsGoBack(h *ringproof.History) (ringproof.Finding, bool) {
	streams := map[string][]*ringproof.Operation{}
	for i := range h.Operations {
		o := &h.Operations[i]
		if _, ok := tells(o); !ok {
			continue
		}
		if !o.Request.Serializable {
			who := fmt.Sprintf("client %d", o.Client)
			streams[who] = append(streams[who], o)
		}
		if o.Response.Member != 0 && o.Response.Term != 0 {
			who := "member " + o.Response.Member.String()
			streams[who] = append(streams[who], o)
		}
	}
	return firstBackwards(streams)
}

func firstBackwards(streams map[string][]*ringproof.Operation) (ringproof.Finding, bool) {
	var found []ringproof.Finding
	for who, ops := range streams {
		revision := func(o *ringproof.Operation) int64 { return o.Response.Revision }
		word := "revision"
		if who[0] == 'm' {
			word, revision = "term", func(o *ringproof.Operation) int64 { return int64(o.Response.Term) }
		}
		if a, b, bad := backwards(ops, revision); bad {
			found = append(found, with(fail(b.Return, "expected %s to be told a %s of at least %d, saw %d",
				who, word, revision(a), revision(b)), operationText(a), operationText(b)))
		}
	}
	if len(found) == 0 {
		return ringproof.Finding{}, false
	}
	return slices.MinFunc(found, func(a, b ringproof.Finding) int {
		return cmp.Or(cmp.Compare(*a.At, *b.At), cmp.Compare(a.Message, b.Message))
	}), true
}

// backwards finds an answer that is lower than one held before its call.
func backwards(ops []*ringproof.Operation, figure func(*ringproof.Operation) int64) (before, after *ringproof.Operation, bad bool) {
	returned := slices.Clone(ops)
	slices.SortStableFunc(ops, func(a, b *ringproof.Operation) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(returned, func(a, b *ringproof.Operation) int { return cmp.Compare(a.Return, b.Return) })
	next := 0
	for _, o := range ops {
		for ; returned[next].Return < o.Call; next++ {
			if before == nil || figure(returned[next]) > figure(before) {
				before = returned[next]
			}
		}
		if before != nil && figure(o) < figure(before) {
			return before, o, true
		}
	}
	return nil, nil, false
}

func membersGoBack(h *ringproof.History) (views int, f ringproof.Finding, bad bool) {
	type seat struct {
		member ringproof.MemberID
		home   home
	}
	last := map[seat]ringproof.MemberView{}
	when := map[seat]ringproof.Instant{}
	for i := range h.Observations {
		o := &h.Observations[i]
		for _, m := range o.Members {
			machine, _ := o.Machine(m.Machine)
			at := seat{m.ID, home{m.Machine, machine.Runs()}}
			if !m.Serving {
				continue
			}
			views++
			was, since := last[at], when[at]
			if m.Term < was.Term {
				return views, fail(o.At, "expected member %s on %s in term %d or later, saw %d", m.ID, m.Machine, was.Term, m.Term), true
			}
			if m.Revision < was.Revision && !restarted(h, m.Machine, since, o.At) {
				return views, fail(o.At, "expected member %s on %s at revision %d or later, saw %d without a restart",
					m.ID, m.Machine, was.Revision, m.Revision), true
			}
			last[at], when[at] = m, o.At
		}
	}
	return views, f, false
}

func restarted(h *ringproof.History, machine string, from, to ringproof.Instant) bool {
	return slices.ContainsFunc(h.Events, func(e ringproof.Event) bool {
		return e.Machine == machine && e.At >= from && e.At <= to &&
			(e.Kind == ringproof.EventProcessStarted || e.Kind == ringproof.EventProcessExited)
	})
}
