// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
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
	spec := store.Spec{Nodes: r.Size, Version: ring.Version(r.Version), Security: cmp.Or(ring.Security(r.Security), ring.TLS), Peers: ring.Security(r.Peers), SnapshotCount: r.SnapCount,
		ReplaceAfterMillis: millis(r.ReplaceAfter), HeartbeatMillis: millis(r.Heartbeat), ElectionMillis: millis(r.Election), CertificateMillis: millis(r.Certificates), Flags: r.Flags}
	for machine, own := range r.Members { // order: each is a key of its own
		for name, value := range own.Flags { // order: the same
			spec.SetFlag(r.Host(machine), name, value)
		}
		spec.SetVersion(r.Host(machine), ring.Version(own.Version))
	}
	return spec
}

// pairs writes a spec as ringadm reads it.
func pairs(s store.Spec) []string {
	all := []string{fmt.Sprintf("nodes=%d", s.Nodes), "version=" + string(s.Version), "security=" + string(s.Security)}
	if s.Peers != "" {
		all = append(all, "peers="+string(s.Peers))
	}
	for _, p := range []struct {
		key    string
		millis int
	}{{"replace-after", s.ReplaceAfterMillis}, {"heartbeat", s.HeartbeatMillis}, {"election", s.ElectionMillis}, {"certificates", s.CertificateMillis}} {
		if p.millis > 0 {
			all = append(all, p.key+"="+(time.Duration(p.millis)*time.Millisecond).String())
		}
	}
	if s.SnapshotCount > 0 {
		all = append(all, fmt.Sprintf("snapshot-count=%d", s.SnapshotCount))
	}
	all = append(all, flagPairs("", s.Flags)...)
	for _, machine := range slices.Sorted(maps.Keys(s.Machines)) {
		own := s.Machines[machine]
		if own.Version != "" {
			all = append(all, machine+".version="+string(own.Version))
		}
		all = append(all, flagPairs(machine+".", own.Flags)...)
	}
	return all
}

func flagPairs(of string, flags map[string]string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		all = append(all, of+"flag."+name+"="+flags[name])
	}
	return all
}

// hosts are the machines as the subject knows them.
func hosts(r ringproof.RingSpec, machines []string) []string {
	named := make([]string, len(machines))
	for i, machine := range machines {
		named[i] = r.Host(machine)
	}
	return named
}

// change is the spec that an operation asks for, and how ringadm is told. What ringadm
// refuses without asking the ring is an error.
func change(s store.Spec, op ringproof.Op, targets []string) (changed store.Spec, pairs []string, err error) {
	switch op.Kind {
	case ringproof.OpScale:
		s.Nodes = op.To
		return s, []string{fmt.Sprintf("nodes=%d", op.To)}, nil
	case ringproof.OpUpgrade:
		err = s.Ask(ring.Version(op.Version))
		return s, []string{"version=" + op.Version}, err
	case ringproof.OpPeers:
		err = s.AskPeers(ring.Security(op.Peers))
		return s, []string{"peers=" + op.Peers}, err
	case ringproof.OpRestart:
		changed, pairs = renew(s, op, targets[0])
		return changed, pairs, changed.CheckOwn(s)
	case ringproof.OpSuspend, ringproof.OpResume:
		s.Paused = op.Kind == ringproof.OpSuspend
		return s, []string{fmt.Sprintf("paused=%t", s.Paused)}, nil
	case ringproof.OpCancelReplace:
		s.Decommission = nil
		return s, []string{"decommission="}, nil
	}
	s.Decommission = targets
	return s, []string{"decommission=" + strings.Join(targets, ",")}, nil
}

// renew gives a machine another release, or other flags.
func renew(s store.Spec, op ringproof.Op, machine string) (changed store.Spec, pairs []string) {
	if op.Version != "" {
		s.SetVersion(machine, ring.Version(op.Version))
		pairs = append(pairs, machine+".version="+op.Version)
	}
	for _, name := range slices.Sorted(maps.Keys(op.Flags)) {
		s.SetFlag(machine, name, op.Flags[name])
		pairs = append(pairs, machine+".flag."+name+"="+op.Flags[name])
	}
	return s, pairs
}

// respecs reports whether an operator asks for it by writing the next spec.
func respecs(kind ringproof.OpKind) bool {
	switch kind {
	case ringproof.OpScale, ringproof.OpUpgrade, ringproof.OpPeers, ringproof.OpReplace, ringproof.OpRestart, ringproof.OpCancelReplace, ringproof.OpSuspend, ringproof.OpResume:
		return true
	}
	return false
}

// reset empties a disk as an operator does who isn't told whose it is: the first
// refusal names the member, and he takes the refusal at its word.
func reset(run func(member string) (string, error)) (string, error) {
	said, err := run("")
	command := "ringadm reset"
	if err != nil {
		if named := memberNamed.FindStringSubmatch(err.Error()); named != nil {
			command += " " + named[1]
			said, err = run(named[1])
		}
	}
	if err != nil && strings.Contains(err.Error(), "reset refused") {
		return "", fmt.Errorf("%w by the subject: %s: %w", ringproof.ErrRefused, command, err)
	}
	return command + ": " + said, err
}

var memberNamed = regexp.MustCompile(`say so: ringadm reset ([0-9a-f]+)`)

// clientURLs lists where the members of the machines, or of one of them, would answer.
func clientURLs(ctx context.Context, s store.Store, security, one string) ([]string, error) {
	machines, err := auto.Machines(ctx, s)
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		if one != "" && name != one {
			continue
		}
		urls = append(urls, ring.Security(security).URL(machines[name].Address, 2379))
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

// issue makes the harness's client certificate. It lasts as long as any may: whoever
// judges what became of the ring's certificates must not be kept out by its own.
func issue(ctx context.Context, s store.Store, now time.Time) (pki.Authority, pki.Pair, error) {
	n, record, err := store.Log[store.Authority]{Store: s, Prefix: auto.AuthorityPrefix}.Latest(ctx)
	if err != nil || n == 0 {
		return pki.Authority{}, pki.Pair{}, fmt.Errorf("the store holds %d authorities: %w", n, err)
	}
	authority, err := pki.ParseAuthority(record.CertPEM, record.KeyPEM)
	if err != nil {
		return pki.Authority{}, pki.Pair{}, err
	}
	pair, err := authority.IssueClient(now, pki.Subject{CommonName: "ringproof"}, pki.AuthorityLifetime)
	return authority, pair, err
}

// heard are the agents' events that the harness has the same names for.
var heard = map[host.Event]ringproof.EventKind{
	host.EventWaiting: ringproof.EventWaiting, host.EventHalted: ringproof.EventHalted, host.EventRefused: ringproof.EventRefused,
	host.EventBoot: ringproof.EventBoot, host.EventActionBegun: ringproof.EventActionBegun, host.EventActionDone: ringproof.EventActionDone,
	host.EventActionFailed: ringproof.EventActionFailed, host.EventDiskReplaced: ringproof.EventDiskReplaced,
	EventFaultLanded: ringproof.EventFaultLanded, host.EventLeads: ringproof.EventLeads, EventTrespass: ringproof.EventTrespass,
	EventReached: ringproof.EventMutantReached,
}

// hear turns a line of an agent's log into an event, of machines as the plan names them.
func hear(l host.Line, r ringproof.RingSpec) (ringproof.Event, bool) {
	kind, ok := heard[l.Event]
	if !ok {
		return ringproof.Event{}, false
	}
	l.Machine, l.Target = r.Machine(l.Machine), r.Machine(l.Target)
	e := ringproof.Event{Kind: kind, Machine: l.Machine, Action: l.Action, Command: l.Command, Text: l.Text, Step: l.Step, By: l.Machine}
	if l.Member != "" {
		_ = e.Member.UnmarshalText([]byte(l.Member))
	}
	if l.Target != "" && l.Target != l.Machine {
		// An action is told of the machine that it is about.
		e.Machine, e.Text = l.Target, strings.TrimPrefix(l.Text+", by "+l.Machine, ", ")
	}
	return e, true
}
