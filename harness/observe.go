// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

const (
	look = 100 * time.Millisecond // between two observations
	thin = 500 * time.Millisecond // between two that are alike and kept
	poll = 20 * time.Millisecond  // between two looks at the record
)

// observer looks at the ring until ctx ends, and tells what changed.
func (r *runner) observer(ctx context.Context) {
	var before ringproof.Observation
	var listed ringproof.Instant // when the last look began that read the list with a quorum
	created := false
	served := map[ringproof.MemberID]bool{}
	for ctx.Err() == nil {
		o, err := r.world.Observe(ctx)
		if err == nil {
			r.record.observe(o)
			r.inTurn(o)
			r.ledger.Observe(o)
			if o.Fresh && !created {
				created = true
				r.record.Record(ringproof.Event{At: max(o.At, o.Until), Kind: ringproof.EventRingCreated, Text: ringproof.Counted(len(o.Members), "member")})
			}
			for _, e := range changes(before, o, listed, served) {
				r.record.Record(e)
			}
			before = remember(before, o)
			if o.Fresh {
				listed = o.At
			}
		}
		if r.world.Sleep(ctx, look+time.Duration(r.count(&r.resting, 0))*9*look) != nil {
			return
		}
	}
}

// remember keeps the last membership that was read with a quorum: a member's
// own list may be from before.
func remember(before, now ringproof.Observation) ringproof.Observation {
	if now.Fresh || len(before.Members) == 0 {
		return now
	}
	kept := before
	kept.At, kept.Machines = now.At, now.Machines
	kept.Members = nil
	for _, m := range before.Members {
		if seen, ok := now.Member(m.ID); ok {
			m.Serving, m.Leader, m.Term, m.Alarms = seen.Serving, seen.Leader, seen.Term, seen.Alarms
		} else {
			m.Serving, m.Leader = false, false
		}
		kept.Members = append(kept.Members, m)
	}
	return kept
}

// changes tells what is different between two observations. What the list shows
// is younger than the last look that read it with a quorum, all else than the
// look before.
func changes(before, now ringproof.Observation, listed ringproof.Instant, served map[ringproof.MemberID]bool) []ringproof.Event {
	var all []ringproof.Event
	tell := func(kind ringproof.EventKind, m ringproof.MemberView, text string) {
		e := ringproof.Event{At: max(now.At, now.Until), Since: before.At, Kind: kind, Machine: m.Machine, Member: m.ID, Learner: m.Learner, Text: text}
		if kind == ringproof.EventMemberAdded || kind == ringproof.EventMemberPromoted || kind == ringproof.EventMemberRemoved {
			e.Since = min(listed, before.At)
		}
		all = append(all, e)
	}
	for _, m := range now.Members {
		was, known := before.Member(m.ID)
		switch {
		case !known && (now.Fresh || len(before.Members) == 0):
			tell(ringproof.EventMemberAdded, m, strings.Join(m.PeerURLs, ","))
		case known && now.Fresh && was.Learner && !m.Learner:
			tell(ringproof.EventMemberPromoted, m, "")
		}
		all = append(all, serving(was, m, served, tell)...)
	}
	for _, m := range before.Members {
		switch _, still := now.Member(m.ID); {
		case !still && now.Fresh:
			tell(ringproof.EventMemberRemoved, m, "")
		case !still && m.Serving: // nobody who answers lists it
			tell(ringproof.EventMemberDown, m, "")
		}
	}
	led, _ := before.Leader()
	leads, ok := now.Leader()
	if ok && led.ID != leads.ID {
		tell(ringproof.EventLeaderChanged, leads, fmt.Sprintf("term %d", leads.Term))
	}
	return all
}

func serving(was, m ringproof.MemberView, served map[ringproof.MemberID]bool, tell func(ringproof.EventKind, ringproof.MemberView, string)) []ringproof.Event {
	switch {
	case m.Serving && !served[m.ID]:
		served[m.ID] = true
		tell(ringproof.EventMemberStarted, m, "etcd "+m.Version)
	case m.Serving && !was.Serving:
		tell(ringproof.EventMemberUp, m, "")
	case !m.Serving && was.Serving:
		tell(ringproof.EventMemberDown, m, "")
	}
	for _, alarm := range m.Alarms {
		if !strings.Contains(strings.Join(was.Alarms, " "), alarm) {
			tell(ringproof.EventAlarm, m, alarm)
		}
	}
	return nil
}
