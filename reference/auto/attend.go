// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// attend keeps this machine present in the ring and, if it leads, takes the
// next step.
func (a *Agent) attend(ctx context.Context, view admin.View) error {
	a.known.members = view.ClientURLs()
	if err := a.keepAlive(ctx); err != nil {
		return err
	}
	if err := a.present(ctx, view); err != nil {
		return err
	}
	leads, err := a.lead(ctx, view)
	if err != nil || !leads {
		a.leading = false
		if err == nil && view.Lead != nil {
			a.sleepOn()
		}
		return err
	}
	if !a.leading {
		a.leading = true
		a.watch = admin.Observer{Ring: a.ring}
		a.host.Log(host.Line{Event: host.EventLeads})
	}
	return a.step(ctx, view)
}

// keepAlive holds the lease that this machine's records live by, or gets one.
func (a *Agent) keepAlive(ctx context.Context) error {
	if a.lease != 0 {
		err := a.ring.Renew(ctx, a.lease)
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return err
		}
		a.lease = 0
	}
	lease, err := a.ring.Grant(ctx, leaseTTL)
	a.lease = lease
	return err
}

func (a *Agent) revoke(ctx context.Context) {
	if a.lease != 0 {
		_ = a.ring.Revoke(ctx, a.lease)
	}
}

// present says that the machine is there, and which disk is in it.
func (a *Agent) present(ctx context.Context, view admin.View) error {
	p := admin.Presence{Machine: a.Machine, PeerURL: a.peerURL(), ClientURL: a.clientURL(), Disk: a.disk.ID, Versions: a.versions()}
	return a.ring.Present(ctx, p, view, a.lease)
}

// lead tells whether this machine leads the automation: it created the lead's
// record, under its own lease.
func (a *Agent) lead(ctx context.Context, view admin.View) (bool, error) {
	if view.Lead == nil {
		text, err := json.Marshal(admin.Lead{Holder: a.Machine, Nonce: a.nonce})
		if err != nil {
			return false, err
		}
		return false, a.ring.Campaign(ctx, string(text), a.lease) // the next view tells who won
	}
	a.ring.Fence = []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(admin.LeadKey), "=", view.LeadRevision)}
	return view.Lead.Nonce == a.nonce, nil
}

// step finishes what the founding left open, then does what the brain says.
func (a *Agent) step(ctx context.Context, view admin.View) error {
	if done, err := a.form(ctx, view); !done || err != nil {
		return err
	}
	spec := ring.Spec{Nodes: a.known.spec.Nodes, Retire: a.known.spec.Retire, Paused: a.known.spec.Paused,
		ReplaceAfter:   time.Duration(a.known.spec.ReplaceAfterMillis) * time.Millisecond,
		AddWhileSilent: addsWhileSilent(a.known.spec.Version)}
	if spec.ReplaceAfter == 0 {
		spec.ReplaceAfter = time.Minute
	}
	viewed := a.host.Now()
	seen := a.watch.Observe(ctx, view, a.known.spec.Version)
	if a.host.Now().Sub(viewed) > leaseTTL*time.Second/2 {
		// Member changes can't be fenced by a comparison. A lead that looked for
		// so long may no longer be it: it looks again.
		return nil
	}
	d := a.Brain.Next(spec, seen)
	switch {
	case d.Halt != "" && a.said[host.EventHalted] == d.Halt: // said already
	case d.Halt != "":
		a.said[host.EventHalted] = d.Halt
		for _, command := range d.Commands {
			a.host.Log(host.Line{Event: host.EventHalted, Text: d.Halt, Command: command})
		}
	case d.Action == nil:
		a.say(host.EventWaiting, d.Wait)
		if d.Wait == ring.Steady {
			a.sleepOn()
		}
	default:
		return a.carryOut(ctx, *d.Action, seen.Members)
	}
	return nil
}

// sleepOn says that nothing is to be done in the ring. The machine's own etcd is
// looked after all the same.
func (a *Agent) sleepOn() { a.rest = a.host.Now().Add(restPace) }

func (a *Agent) carryOut(ctx context.Context, action ring.Action, decided []ring.Member) error {
	if a.DryRun {
		a.say(host.EventWaiting, "dry run: "+action.String())
		return nil
	}
	a.said[host.EventWaiting] = ""
	line := host.Line{Event: host.EventActionBegun, Action: string(action.Kind), Command: action.String(), Target: action.Machine, Text: action.Why}
	if action.Member != 0 {
		line.Member = action.Member.String()
	}
	a.ring.Decided = ring.Roles(decided)
	err := a.logged(line, func() error { return a.Brain.Do(ctx, a.ring, action) })
	a.ring.Decided = nil
	if err != nil {
		// etcd refuses while members are not connected for five seconds; what
		// it refused now it will refuse again at once.
		_ = a.host.Sleep(ctx, 500*time.Millisecond)
	}
	return nil
}

// addsWhileSilent tells whether the release lets a member be added while a
// voter doesn't answer (etcd#21640).
func addsWhileSilent(version string) bool {
	v, err := semver.NewVersion(strings.TrimPrefix(version, "v"))
	if err != nil {
		return false
	}
	since := map[int64]int64{5: 31, 6: 12} // minor of 3 → patch
	patch, bounded := since[v.Minor]
	return v.Major > 3 || v.Minor > 6 || bounded && v.Patch >= patch
}

// form binds the founders to their disks, and tells the store that the ring
// has answered: from then on nobody starts a member as new. Members are only
// added after both.
func (a *Agent) form(ctx context.Context, view admin.View) (bool, error) {
	if a.known.identity == nil {
		return false, nil
	}
	for _, m := range view.RingMembers() {
		if m.Disk != "" {
			continue
		}
		for _, f := range a.known.identity.Members {
			if !a.known.formed && f.Name == m.Name && f.PeerURL == m.PeerURL {
				bind := ring.Action{Kind: ring.Bind, Member: m.ID, Machine: f.Machine, Disk: f.Disk}
				return false, a.carryOut(ctx, bind, view.RingMembers())
			}
		}
	}
	if a.known.formed {
		return true, nil
	}
	if a.DryRun {
		return false, nil
	}
	if !a.known.formedKnown {
		return false, errors.New("whether the ring was formed before is not known: " + a.known.trouble)
	}
	record := store.Formed{ClusterID: fmt.Sprintf("%x", view.ClusterID), Epoch: a.known.identity.Epoch}
	_, err := store.Log[store.Formed]{Store: a.store, Prefix: FormedPrefix}.Append(ctx, 0, record)
	if err == nil || errors.Is(err, store.ErrExists) {
		a.known.formed, a.known.formedKnown = true, true
		a.remember()
		return true, nil
	}
	return false, err
}
