// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestParseVersion(t *testing.T) {
	for _, text := range []string{"v3.6.16", "v0.0.0", "v10.20.30"} {
		v, err := ParseVersion(text)
		assert.NoError(t, err)
		assert.Equal(t, text, string(v))
	}
	for _, text := range []string{"", "3.6.16", "v3.6", "v3.06.1", "v3.7.0-rc.0", "v3.6.1\n", "latest"} {
		_, err := ParseVersion(text)
		assert.ErrorContains(t, err, "refused: write it as v3.6.16", text)
	}
}

// TestVersionsCompareByNumber: as texts v3.6.9 would come after v3.6.16.
func TestVersionsCompareByNumber(t *testing.T) {
	sorted := []Version{"", "v3.4.40", "v3.5.9", "v3.5.31", "v3.6.9", "v3.6.16", "v3.10.0", "v4.0.0"}
	shuffled := slices.Clone(sorted)
	slices.Reverse(shuffled)
	slices.SortFunc(shuffled, Version.Compare)
	assert.Equal(t, sorted, shuffled)
	assert.Zero(t, Version("v3.7.0-rc.0").Compare(""), "what is no release is as none")
}

func TestVersionsOfOneRing(t *testing.T) {
	assert.Equal(t, "v3.6", Version("v3.6.16").Minor())
	assert.True(t, Version("v3.6.16").Beside("v3.5.9"))
	assert.True(t, Version("v3.5.9").Beside("v3.6.16"))
	assert.False(t, Version("v3.7.0").Beside("v3.5.31"))
	assert.False(t, Version("v4.6.0").Beside("v3.6.16"))
}

// TestAddsWhileSilent: the releases that etcd#21640 was fixed in, and those before.
func TestAddsWhileSilent(t *testing.T) {
	for v, want := range map[Version]bool{
		"": false, "v3.4.40": false, "v3.5.30": false, "v3.5.31": true, "v3.6.10": false, "v3.6.11": true, "v3.6.16": true, "v3.7.0": true, "v3.10.1": true, "v4.0.0": true,
	} {
		assert.Equal(t, want, v.addsWhileSilent(), string(v))
	}
}

// TestOwnReleases: on a machine that is to run a release of its own, that is the one
// which it must have.
func TestOwnReleases(t *testing.T) {
	spec := Spec{Nodes: 3, Version: "v3.6.16", Own: map[string]Version{"m4": "v3.5.31"}, ReplaceAfter: time.Minute}
	next := func(has ...Version) string {
		return Next(spec, Observed{Listed: true,
			Members: []Member{{ID: 1, Name: "m1", Machine: "m1", Disk: "d1", PeerURL: "https://m1:2380", Serving: true, Leader: true}},
			Machines: []Machine{{Name: "m1", PeerURL: "https://m1:2380", Disk: "d1", Present: true, Versions: []Version{"v3.6.16"}},
				{Name: "m4", PeerURL: "https://m4:2380", Disk: "d4", Present: true, Versions: has}}}).String()
	}
	assert.Equal(t, "ringadm member add m4 --peer-url https://m4:2380 --disk d4", next("v3.5.31"))
	assert.Equal(t, "wait: more voters are asked for, and no machine is free; m4 has no etcd v3.5.31", next("v3.6.16"))
}

// TestUpgradesToGrow: more voters are asked for than machines have the release, and the free ones
// have the one that is asked for: the ring is upgraded first, unless it would be down meanwhile or
// the upgrade brings nobody.
func TestUpgradesToGrow(t *testing.T) {
	next := func(voters int, free Version) string {
		spec := Spec{Nodes: 5, Version: "v3.6.16", From: "v3.5.35", ReplaceAfter: time.Minute}
		o := Observed{Listed: true}
		for i := range 5 {
			m := Machine{Name: fmt.Sprintf("m%d", i+1), Present: true, Versions: []Version{free}}
			m.PeerURL, m.Disk = TLS.URL(m.Name, 2380), "d-"+m.Name
			if i < voters {
				m.Versions = []Version{"v3.5.35", "v3.6.16"}
				o.Members = append(o.Members, Member{ID: ID(i + 1), Name: m.Name, Machine: m.Name, Disk: m.Disk, PeerURL: m.PeerURL, Serving: true, Leader: i == 0, Version: "v3.5.35"})
			}
			o.Machines = append(o.Machines, m)
		}
		return Next(spec, o).String()
	}
	assert.Equal(t, "ringadm member upgrade 2 --version v3.6.16", next(3, "v3.6.16"))
	assert.Equal(t, "wait: more voters are asked for, and no machine is free; m3 has no etcd v3.5.35; m4 has no etcd v3.5.35; m5 has no etcd v3.5.35", next(2, "v3.6.16"), "of two none can be restarted")
	assert.Equal(t, "wait: more voters are asked for, and no machine is free; m4 has no etcd v3.5.35; m5 has no etcd v3.5.35", next(3, "v3.4.9"), "the upgrade brings nobody")
}

// TestReplacesAsMembersLet: one of five is gone for good, and a spare is there. It
// joins first, unless a member that may be asked refuses that: by the release that it
// runs, and not by the one that is asked for and that it will have after a restart.
func TestReplacesAsMembersLet(t *testing.T) {
	next := func(asked, runs Version) Kind {
		spec := Spec{Nodes: 5, Version: "v3.6.16", Own: map[string]Version{"m2": asked}, ReplaceAfter: time.Minute}
		o := Observed{Listed: true}
		for i, name := range []string{"m1", "m2", "m3", "m4", "m5", "m6"} {
			machine := Machine{Name: name, PeerURL: TLS.URL(name, 2380), Disk: "d-" + name, Present: i > 0, Versions: []Version{"v3.6.16"}}
			m := Member{ID: ID(i + 1), Name: name, Machine: name, Disk: machine.Disk, PeerURL: machine.PeerURL, Serving: i > 0, Leader: i == 2}
			if i == 0 {
				machine.Absent, m.Silent = time.Hour, time.Hour
			}
			if i == 1 {
				m.Version = runs
			}
			if o.Machines = append(o.Machines, machine); i < 5 {
				o.Members = append(o.Members, m)
			}
		}
		return Next(spec, o).Action.Kind
	}
	assert.Equal(t, AddLearner, next("", ""))
	assert.Equal(t, Remove, next("v3.6.10", ""))
	assert.Equal(t, Remove, next("", "v3.6.10"))
	assert.Equal(t, Remove, next("v3.6.16", "v3.6.10"))
	assert.Equal(t, AddLearner, next("v3.6.10", "v3.6.16"))
}
