// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// What an operator does is the same in every world; only whether a process does
// it differs.

// specOf is what a plan's ring begins as.
func specOf(r ringproof.RingSpec) store.Spec {
	millis := func(d ringproof.Duration) int { return int(d.Std().Milliseconds()) }
	return store.Spec{Nodes: r.Size, Version: r.Version, Security: cmp.Or(r.Security, "tls"), SnapshotCount: r.SnapCount,
		ReplaceAfterMillis: millis(r.ReplaceAfter), HeartbeatMillis: millis(r.Heartbeat), ElectionMillis: millis(r.Election)}
}

// pairs writes a spec as ringadm reads it.
func pairs(s store.Spec) []string {
	all := []string{fmt.Sprintf("nodes=%d", s.Nodes), "version=" + s.Version, "security=" + s.Security}
	for _, p := range []struct {
		key    string
		millis int
	}{{"replace-after", s.ReplaceAfterMillis}, {"heartbeat", s.HeartbeatMillis}, {"election", s.ElectionMillis}} {
		if p.millis > 0 {
			all = append(all, p.key+"="+(time.Duration(p.millis)*time.Millisecond).String())
		}
	}
	if s.SnapshotCount > 0 {
		all = append(all, fmt.Sprintf("snapshot-count=%d", s.SnapshotCount))
	}
	return all
}

// change is the spec that an operation asks for, and how ringadm is told.
func change(s store.Spec, op ringproof.Op, targets []string) (changed store.Spec, pair string) {
	if op.Kind == ringproof.OpScale {
		s.Nodes = op.To
		return s, fmt.Sprintf("nodes=%d", op.To)
	}
	s.Retire = targets[:1]
	return s, "retire=" + targets[0]
}

// clientURLs lists where the machines' members would answer.
func clientURLs(ctx context.Context, s store.Store, security string) ([]string, error) {
	machines, err := auto.Machines(ctx, s)
	if err != nil {
		return nil, err
	}
	scheme := "https"
	if security == "plain" {
		scheme = "http"
	}
	var urls []string
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		urls = append(urls, auto.URL(scheme, machines[name].Address, 2379))
	}
	return urls, nil
}

// memberOn returns who is on the machine.
func memberOn(members []ring.Member, machine string) (ring.ID, error) {
	for _, m := range members {
		if m.Machine == machine {
			return m.ID, nil
		}
	}
	return 0, fmt.Errorf("no member is on %s", machine)
}

// issue makes the harness's client certificate.
func issue(ctx context.Context, s store.Store, now time.Time) (pki.Authority, pki.Pair, error) {
	n, record, err := store.Log[store.Authority]{Store: s, Prefix: auto.AuthorityPrefix}.Latest(ctx)
	if err != nil || n == 0 {
		return pki.Authority{}, pki.Pair{}, fmt.Errorf("the store holds %d authorities: %w", n, err)
	}
	authority, err := pki.ParseAuthority(record.CertPEM, record.KeyPEM)
	if err != nil {
		return pki.Authority{}, pki.Pair{}, err
	}
	pair, err := authority.IssueClient(now, pki.Subject{CommonName: "ringproof"}, 0)
	return authority, pair, err
}

// heard are the agents' events that the harness has the same names for.
var heard = map[host.Event]ringproof.EventKind{
	host.EventWaiting: ringproof.EventWaiting, host.EventHalted: ringproof.EventHalted, host.EventRefused: ringproof.EventRefused,
	host.EventBoot: ringproof.EventBoot, host.EventActionBegun: ringproof.EventActionBegun, host.EventActionDone: ringproof.EventActionDone,
	host.EventActionFailed: ringproof.EventActionFailed, host.EventDiskReplaced: ringproof.EventDiskReplaced,
	EventFaultLanded: ringproof.EventFaultLanded,
}

// hear turns a line of an agent's log into an event.
func hear(l host.Line) (ringproof.Event, bool) {
	kind, ok := heard[l.Event]
	if !ok {
		return ringproof.Event{}, false
	}
	e := ringproof.Event{Kind: kind, Machine: l.Machine, Action: l.Action, Command: l.Command, Text: l.Text, Step: l.Step}
	if l.Member != "" {
		_ = e.Member.UnmarshalText([]byte(l.Member))
	}
	if l.Target != "" && l.Target != l.Machine {
		// An action is told of the machine that it is about.
		e.Machine, e.Text = l.Target, strings.TrimPrefix(l.Text+", by "+l.Machine, ", ")
	}
	return e, true
}
