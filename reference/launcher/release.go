// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// release is what this machine's etcd is started with: not what is asked for, which it
// comes to in its turn, but what its member runs, as the disk remembers. What it was tried
// with it keeps if the ring has come to that, or goes there: of the others' minor, etcd lets
// none of the one before in.
func (l *Launcher) release() ring.Version {
	spec := l.Known.Spec
	if l.apart() {
		return spec.VersionOf(l.Machine)
	}
	begins, tried := cmp.Or(l.disk.Release, spec.Before(l.Machine)), l.disk.Tried
	if tried.Compare(begins) > 0 && tried.Compare(spec.Version) <= 0 {
		return tried
	}
	return begins
}

// apart reports whether the machine has a release of its own, whatever the others run.
func (l *Launcher) apart() bool { return l.Known.Spec.Machines[l.Machine].Version != "" }

// peers is how this machine's etcd is started to listen for its peers. A member that a
// ring began with before it had launchers takes TLS from its first start by one: so it is
// restarted once less, and who dials it in plain text is heard as before. For an adopted ring
// nobody has asked for that.
func (l *Launcher) peers() ring.Security {
	begin := l.Known.Spec.PeersBegin()
	if i := l.Known.Identity; i != nil && i.Static && !i.Adopted() {
		begin = ring.Mixed
	}
	return cmp.Or(l.disk.Peers, begin)
}

// follow has the member here run as its record says, and reports whether
// an etcd runs. The record may be old: its lead saw all voters serve, and this machine
// looks again before it ends the etcd of one. An agent that dies midway leaves an etcd that is ended, and the next one
// reads the record again: until the disk says otherwise it starts what ran before.
func (l *Launcher) follow(ctx context.Context, look Look) (running bool, err error) {
	id, d, a := l.due(look.View)
	if id == 0 {
		return look.running, nil
	}
	var seen ring.Observed
	if look.running {
		seen = l.observe(ctx, look.View)
		if why := l.needed(seen, id); why != "" {
			l.log.Say(host.EventWaiting, fmt.Sprintf("the member here is to restart (%s), and %s", a, why))
			return true, nil
		}
	}
	if l.lately(l.unnoted) {
		return look.running, nil
	}
	l.unnoted = time.Time{}
	err = l.act("restart", a.String(), id.String(), func() error { return l.rerun(ctx, d, look.running, seen) })
	return look.running && l.log.DryRun, err
}

// needed is why the etcd of the member here is not to be ended now; "": all others serve, and are
// a quorum if as many voters are there as were asked for. A machine is lost as m2 of three is told
// to restart: once its voter was removed all others serve, and without m2 one of two was left.
func (l *Launcher) needed(seen ring.Observed, id ring.ID) string {
	voters := seen.Voters()
	if i := slices.IndexFunc(voters, func(m ring.Member) bool { return m.ID != id && !m.Serving }); i >= 0 {
		return fmt.Sprintf("voter %s does not answer", voters[i])
	}
	votes := slices.ContainsFunc(voters, func(m ring.Member) bool { return m.ID == id })
	if n, asked := len(voters), l.Known.Spec.Nodes; votes && n < asked && n-1 < ring.Quorum(n) {
		return fmt.Sprintf("of %d voters %d are there, of which no quorum is left without it", asked, n)
	}
	return ""
}

// rerun ends the etcd that runs, and notes on the disk how the next one is to. That it can
// be noted is tried before: on a full disk each member whose turn came was ended every five
// seconds, and started again as it was.
func (l *Launcher) rerun(ctx context.Context, d Disk, running bool, seen ring.Observed) error {
	if running {
		if err := l.disk.mayBecome(l.host, d); err != nil {
			return l.notNoted(err)
		}
		if err := l.end(ctx, l.handOver(ctx, seen)); err != nil {
			return err
		}
	}
	if err := d.write(l.host); err != nil {
		return l.notNoted(err)
	}
	l.disk, l.starts = d, starts{} // what came of the other's starts says nothing of this one's
	return nil
}

func (l *Launcher) notNoted(err error) error {
	l.unnoted = l.host.Now()
	return fmt.Errorf("noting on the disk how its member runs: %w", err)
}

// due is what the disk is to say once the member on it runs as its record says, and the
// action that this is; no member: it does, or can't.
func (l *Launcher) due(view admin.View) (id ring.ID, d Disk, a ring.Action) {
	id, b, _ := recordOf(view, l.Machine, l.disk.ID)
	d = l.disk
	if b.Peers != "" && b.Peers != l.peers() {
		d.Peers, a = b.Peers, ring.Action{Kind: ring.Listen, Member: id, Peers: b.Peers}
	}
	if _, here := l.Binaries[b.Release]; b.Release != "" && b.Release != d.Release && !l.apart() {
		if !here {
			l.log.Say(host.EventTrouble, fmt.Sprintf("the member here is to run etcd %s, and this machine has %v: install it and restart the agent", b.Release, l.versions))
			return 0, l.disk, ring.Action{}
		}
		d.Release, d.Tried, a = b.Release, "", ring.Action{Kind: ring.Upgrade, Member: id, Version: b.Release}
	}
	if a.Kind == "" {
		id = 0
	}
	return id, d, a
}

// recordOf returns the record of the listed member that lives on a disk.
func recordOf(view admin.View, machine, disk string) (ring.ID, admin.Binding, bool) {
	for _, m := range view.Members {
		if b := view.Bindings[ring.ID(m.ID)]; b.Machine == machine && b.Disk == disk {
			return ring.ID(m.ID), b, true
		}
	}
	return 0, admin.Binding{}, false
}
