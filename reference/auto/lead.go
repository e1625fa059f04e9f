// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// lead takes the ring's next step, if this machine leads.
func (a *Agent) lead(ctx context.Context, view admin.View) (leads bool, err error) {
	if a.DryRun {
		return true, a.step(ctx, view, admin.Fence{}) // as who leads would see it, beside whoever leads
	}
	fence, leads, err := a.reconciler.Leads(ctx, view, a.launcher.Lease)
	if err != nil {
		return false, err
	}
	if !leads {
		if view.Lead != nil {
			a.launcher.Rest()
		}
		return false, nil
	}
	return true, a.step(ctx, view, fence)
}

// step finishes what the bootstrap left open, then takes the ring one step on.
func (a *Agent) step(ctx context.Context, view admin.View, fence admin.Fence) error {
	if known := a.launcher.Known; !known.Formed {
		if a.reconciler.Bind(ctx, view, known.Identity.Members, fence) || a.DryRun {
			return nil
		}
		a.noteFormed(ctx, view)
	}
	var err error
	if view.Registered, err = a.whoseMachines(ctx, view); err != nil {
		return err
	}
	if d := a.reconciler.Step(ctx, view, a.launcher.Known.Spec.Wanted(), fence); d.Wait != ring.Steady {
		return nil
	}
	a.launcher.Rest()
	return a.reconciler.Tidy(ctx, view, fence)
}

// whoseMachines reads which machines are the ring's, and where each ever was, while that
// matters.
func (a *Agent) whoseMachines(ctx context.Context, view admin.View) (map[string][]string, error) {
	if !view.Unrecorded() {
		return nil, nil
	}
	asking, cancel := a.host.Timeout(ctx, time.Second)
	defer cancel()
	if err := a.source.roster.read(asking, a.source.store); err != nil {
		return nil, fmt.Errorf("records are missing in the ring, and which machines are its own is not known: %w", err)
	}
	registered := map[string][]string{}
	for name, addresses := range a.source.roster.addresses { // order: a map of a map
		for _, address := range addresses {
			registered[name] = append(registered[name], a.launcher.Known.Spec.PeerURL(address))
		}
	}
	return registered, nil
}

// noteFormed tells the store, now and then, that the ring has answered: from then on
// nobody starts a member as new. A store that takes no note holds nothing up: a disk
// on which an etcd ran never starts as new anyway, and who never ran one has promised
// nothing, whenever he begins.
func (a *Agent) noteFormed(ctx context.Context, view admin.View) {
	now := a.host.Now()
	if since := now.Sub(a.noted); since >= 0 && since < notePace {
		return
	}
	a.noted = now
	known := a.launcher.Known
	if !known.FormedKnown {
		return // the launcher tells why, and asks again
	}
	record := store.Formed{ClusterID: fmt.Sprintf("%x", view.ClusterID), Epoch: known.Identity.Epoch}
	_, err := store.Log[store.Formed]{Store: a.source.store, Prefix: FormedPrefix}.Append(ctx, 0, record)
	if err == nil || errors.Is(err, store.ErrExists) {
		a.launcher.SetFormed()
		return
	}
	// Not the error: of a file store each names another file.
	a.log.Say(host.EventTrouble, "the store takes no note that the ring has answered, and is asked again; see that "+FormedPrefix+" can be written there")
}

// next decides on the ring's next change.
func (a *Agent) next(spec ring.Spec, seen ring.Observed) ring.Decision {
	return a.Brain.Next(spec, notYetAdopted(a.launcher.Known.Identity, seen))
}

// notYetAdopted marks the machines of an adopted ring whose agent nobody has started yet:
// no word comes from them, and their members serve all the same.
func notYetAdopted(identity *store.Identity, seen ring.Observed) ring.Observed {
	if identity == nil || !identity.Adopted() {
		return seen
	}
	seen.Machines = slices.Clone(seen.Machines)
	for i, machine := range seen.Machines {
		seen.Machines[i].Static = !machine.Present && slices.ContainsFunc(seen.Members, func(m ring.Member) bool {
			return m.Machine == machine.Name && m.Disk == "" && identity.Began(machine.Name, uint64(m.ID))
		})
	}
	return seen
}
