// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// release is what this machine's etcd is started with: not what is asked for, which it
// comes to in its turn, but what its member runs, as the disk remembers.
func (l *Launcher) release() ring.Version {
	spec := l.Known.Spec
	if l.apart() {
		return spec.VersionOf(l.Machine)
	}
	return cmp.Or(l.disk.Release, spec.Before(l.Machine))
}

// apart reports whether the machine has a release of its own, whatever the others run.
func (l *Launcher) apart() bool { return l.Known.Spec.Machines[l.Machine].Version != "" }

// follow has the member here run the release that its record says, and reports whether
// an etcd runs. The record may be old: its lead saw all voters serve, and this machine
// looks again before it ends the etcd of one. An agent that dies midway leaves an etcd that is ended, and the next one
// reads the record again: until the disk says otherwise it starts what ran before.
func (l *Launcher) follow(ctx context.Context, look Look) (running bool, err error) {
	id, b, recorded := recordOf(look.View, l.Machine, l.disk.ID)
	if !recorded || b.Release == "" || b.Release == l.disk.Release || l.apart() {
		return look.running, nil
	}
	if _, ok := l.Binaries[b.Release]; !ok {
		l.log.Say(host.EventTrouble, fmt.Sprintf("the member here is to run etcd %s, and this machine has %v: install it and restart the agent", b.Release, l.versions))
		return look.running, nil
	}
	var seen ring.Observed
	if look.running {
		seen = l.observe(ctx, look.View)
		if away := slices.IndexFunc(seen.Voters(), func(m ring.Member) bool { return m.ID != id && !m.Serving }); away >= 0 {
			l.log.Say(host.EventWaiting, fmt.Sprintf("the member here is to restart with etcd %s, and voter %s does not answer", b.Release, seen.Voters()[away]))
			return true, nil
		}
	}
	a := ring.Action{Kind: ring.Upgrade, Member: id, Version: b.Release}
	err = l.act("restart", a.String(), id.String(), func() error {
		if look.running {
			l.handOver(ctx, seen)
			if err := l.host.Process().Stop(ctx, stopGrace); err != nil {
				return err
			}
		}
		d := l.disk
		d.Release = b.Release
		if err := d.write(l.host); err != nil {
			return fmt.Errorf("noting on the disk which release its member runs: %w", err)
		}
		l.disk, l.starts = d, starts{} // what came of the other release's says nothing of this one's
		return nil
	})
	return look.running && l.log.DryRun, err
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
