// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof/reference/ring"
)

func TestHops(t *testing.T) {
	for _, hop := range []struct {
		from, to ring.Version
		refused  string // "": it isn't
	}{
		{"v3.5.19", "v3.5.21", ""},
		{"v3.5.26", "v3.6.16", ""},
		{"v3.5.35", "v3.6.0", ""},
		{"v3.6.11", "v3.7.0", ""},
		{"v3.6.16", "v3.6.16", ""},
		{"v3.7.0", "v3.8.1", ""},
		{"v3.5.19", "v3.6.4", "only from v3.5.26 on"},
		{"v3.5.21", "v3.6.4", "etcd#20793"},
		{"v3.5.25", "v3.6.16", "etcd#20967"},
		{"v3.6.10", "v3.7.3", "only from v3.6.11 on"},
		{"v3.5.35", "v3.7.3", "go by a release of v3.6"},
		{"v3.6.16", "v4.0.0", "a minor is left out"},
		{"v3.6.16", "v3.6.11", "isn't taken back"},
		{"v3.6.16", "v3.5.35", "isn't taken back"},
	} {
		why := hop.from.Hop(hop.to)
		if hop.refused == "" {
			assert.Empty(t, why, "%s to %s", hop.from, hop.to)
			continue
		}
		assert.Contains(t, why, hop.refused, "%s to %s", hop.from, hop.to)
	}
}

// TestUpgradesConverge asks for one release after the other and injects faults
// meanwhile, fairly. No step of it may be another's than the rules say; each that is
// begun must leave all other voters serving; and in the end all run what was asked for.
func TestUpgradesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := &upgrades{world: drawUpgraded(t)}
		story := u.drawStory(t, u.drawFault, u.run)
		u.heal()
		story = append(story, "healed: "+u.String())
		u.converge(t, &story, u.run)
		for _, m := range u.members {
			if m.version != u.spec.Version {
				t.Fatalf("%s runs %s, and %s is asked for\n%s", m.machine, m.version, u.spec.Version, strings.Join(story, "\n"))
			}
		}
	})
}

// upgrades is a world in which somebody asks for another release now and then.
type upgrades struct {
	*world
	at int // in the chain
}

func drawUpgraded(t *rapid.T) *world {
	n := rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "voters")
	w := newWorld(ring.Spec{Nodes: n, Version: chain[0], ReplaceAfter: 10 * time.Second, SnapshotCount: 500})
	for i := range n + rapid.IntRange(0, 3).Draw(t, "spares") {
		if b := w.put(i + 1); i < n {
			w.found(b, i+1)
		}
	}
	w.elect()
	return w
}

func (u *upgrades) drawFault(t *rapid.T) string {
	if rapid.IntRange(0, 2).Draw(t, "asks") > 0 {
		return u.world.drawFault(t)
	}
	if u.at+1 == len(chain) || !slices.Equal(u.spread(), chain[u.at:u.at+1]) {
		return "" // whoever asks waits for the one before
	}
	u.at++
	spec := u.spec
	spec.Version = chain[u.at]
	u.ask(spec)
	return "asked for " + string(spec.Version)
}

// spread lists the releases that the voters run.
func (u *upgrades) spread() (all []ring.Version) {
	for _, m := range u.voters() {
		if !slices.Contains(all, m.version) && m.version != "" {
			all = append(all, m.version)
		}
	}
	return all
}

func (u *upgrades) run(t *rapid.T, story *[]string, seconds int) {
	for range seconds {
		o := u.observe()
		d := ring.Next(u.spec, o)
		*story = append(*story, fmt.Sprintf("%3.0fs %s", u.now.Sub(u.begun).Seconds(), d))
		wrong := ""
		if d.Action != nil {
			wrong = breaks(u.spec, o, *d.Action)
			_ = u.do(*d.Action)
		}
		u.pass(1)
		if stopped := u.count(func(m *entry) bool { return m.down }); stopped > 1 {
			wrong = fmt.Sprintf("%d voters are restarted at once", stopped)
		}
		for _, v := range u.spread() {
			if !v.Beside(u.spec.Version) {
				wrong = fmt.Sprintf("a voter runs %s, and %s is asked for", v, u.spec.Version)
			}
		}
		if d.Halt != "" && !strings.Contains(d.Halt, "does not come up") {
			wrong = "it halts"
		}
		if wrong != "" {
			t.Fatalf("%s: %s\n%s", d, wrong, strings.Join(*story, "\n"))
		}
	}
}

// TestWhoNeverRanWasNotUpgraded: a voter was added by hand on a machine where somebody had put
// the log of another, and bound while the ring is upgraded. No etcd starts there: that says
// nothing of the release, nor of how it is to listen, and the member has no log to wait for.
func TestWhoNeverRanWasNotUpgraded(t *testing.T) {
	for _, spec := range []ring.Spec{
		{Nodes: 3, Version: "v3.7.3", From: "v3.6.16", ReplaceAfter: 10 * time.Second},
		{Nodes: 3, Version: "v3.6.16", Encrypt: true, ReplaceAfter: 10 * time.Second},
	} {
		o := ring.Observed{Listed: true}
		for i, name := range []string{"m1", "m2", "m3", "m4"} {
			o.Members = append(o.Members, ring.Member{ID: ring.ID(i + 1), Name: name, Machine: name, Disk: "d" + name, PeerURL: url(name), Serving: true, Leader: i == 0,
				Version: "v3.6.16", Schema: "v3.6", Peers: ring.Plain})
			o.Machines = append(o.Machines, ring.Machine{Name: name, PeerURL: url(name), Disk: "d" + name, Present: true, Told: true, ToldV2: true, Versions: []ring.Version{"v3.6.16", "v3.7.3"}})
		}
		never := &o.Members[3]
		never.Name, never.Serving, never.Version, never.Schema, never.Peers = "", false, "", "", ""
		never.Release, never.Silent = spec.Version, time.Minute
		if spec.Encrypt {
			never.Listen = ring.Mixed
		}
		o.Machines[3].Failing = "the disk holds a log of member 2"
		d := ring.Next(spec, o)
		assert.Equal(t, "ringadm member remove 4", d.String())
	}
}
