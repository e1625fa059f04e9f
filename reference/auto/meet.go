// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/store"
)

// Machines reads the latest record of every machine in the store.
func Machines(ctx context.Context, s store.Store) (map[string]store.Machine, error) {
	var r roster
	err := r.read(ctx, s)
	return r.machines, err
}

// roster is what the machines last said of themselves, by name, and in which of
// their records: one that was read never changes. A clone speaks in a machine's name,
// so it also knows each address that somebody of the name was ever at.
type roster struct {
	machines  map[string]store.Machine
	numbers   map[string]int
	addresses map[string][]string
}

func (r *roster) read(ctx context.Context, s store.Store) error {
	keys, err := s.List(ctx, MachinesPrefix+"/")
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, key := range keys {
		name, _, _ := strings.Cut(strings.TrimPrefix(key, MachinesPrefix+"/"), "/")
		names[name] = true
	}
	next := roster{map[string]store.Machine{}, map[string]int{}, map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := next.add(ctx, s, name, r); err != nil {
			return err
		}
	}
	*r = next
	return nil
}

// add reads one machine's records, unless they were read before.
func (r *roster) add(ctx context.Context, s store.Store, name string, before *roster) error {
	log := store.Log[store.Machine]{Store: s, Prefix: MachinesPrefix + "/" + name}
	known, addresses := before.numbers[name], before.addresses[name]
	n, m, err := log.Since(ctx, known)
	switch {
	case err != nil:
		return err
	case n == 0:
		return nil
	case n == known:
		m = before.machines[name]
	case n == known+1:
		addresses = append(slices.Clip(addresses), m.Address)
	default:
		all, err := log.All(ctx)
		if err != nil {
			return err
		}
		addresses = nil
		for _, m := range all {
			addresses = append(addresses, m.Address)
		}
	}
	r.machines[name], r.numbers[name], r.addresses[name] = m, n, addresses
	return nil
}

// meet bootstraps the ring, if this machine's turn it is. The bootstrap record is
// created if absent, so there is one ring whoever believes to lead; the epoch
// keeps two from trying at once.
func (a *Agent) meet(ctx context.Context) error {
	initialMembers, nodes := a.initialMembers(), a.launcher.Known.Spec.Nodes
	if len(initialMembers) < nodes {
		a.log.Say(host.EventWaiting, fmt.Sprintf("%d of %d machines have come to the store", len(initialMembers), nodes))
		return nil
	}
	if a.DryRun {
		a.log.Say(host.EventWaiting, fmt.Sprintf("dry run: bootstrap with %d initial members", len(initialMembers)))
		return nil
	}
	epoch, ours, err := a.epoch(ctx)
	if err != nil || !ours {
		return err
	}
	identity := store.Identity{Token: "ring-" + a.host.Nonce(), Members: initialMembers, Epoch: epoch}
	return a.log.Act(host.Line{Action: "bootstrap", Target: a.Machine}, func() error {
		_, err := store.Log[store.Identity]{Store: a.source.store, Prefix: IdentityPrefix}.Append(ctx, 0, identity)
		if errors.Is(err, store.ErrExists) {
			return nil // another bootstrapped it: the next turn reads whom it names
		}
		return err
	})
}

// initialMembers picks the first machines, by name, that can run what is asked for.
func (a *Agent) initialMembers() []store.InitialMember {
	var all []store.InitialMember
	spec, machines := a.launcher.Known.Spec, a.source.roster.machines
	if a.DryRun { // it registers nothing, and says what would be if it did
		machines = maps.Clone(machines)
		machines[a.Machine] = a.launcher.Self()
	}
	names := slices.SortedFunc(maps.Keys(machines), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
	for _, name := range names {
		m := machines[name]
		if !slices.Contains(m.Versions, spec.Before(name)) || slices.Contains(spec.Decommission, name) || len(all) == spec.Nodes {
			continue
		}
		all = append(all, store.InitialMember{Name: name, Machine: name, Disk: m.Disk,
			PeerURL: spec.PeerURL(m.Address), ClientURL: spec.Security.URL(m.Address, 2379)})
	}
	return all
}

// epoch returns the newest epoch and whether it is ours. One that has bootstrapped
// nothing for a while is followed by the next.
func (a *Agent) epoch(ctx context.Context) (n int, ours bool, err error) {
	log := store.Log[store.Epoch]{Store: a.source.store, Prefix: EpochPrefix}
	n, latest, err := log.Latest(ctx)
	if err != nil {
		return 0, false, err
	}
	if n > 0 && latest.Nonce == a.nonce {
		return n, true, nil
	}
	if n > 0 && !a.overdue(n) {
		return n, false, nil
	}
	n, err = log.Append(ctx, n, store.Epoch{Holder: a.Machine, Nonce: a.nonce})
	if errors.Is(err, store.ErrExists) {
		return n, false, nil
	}
	return n, err == nil, err
}

// overdue reports whether this machine has seen epoch n for too long, by its own
// clock: machines need not agree on the time.
func (a *Agent) overdue(n int) bool {
	now := a.host.Now()
	if a.epochSeen != n || a.epochSince.After(now) {
		a.epochSeen, a.epochSince = n, now
	}
	return now.Sub(a.epochSince) > epochPeriod
}

// epochWatch is the epoch seen last, and since when.
type epochWatch struct {
	epochSeen  int
	epochSince time.Time
}
