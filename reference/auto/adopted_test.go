// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// TestNotYetAdopted: m2 serves, and nobody has started its agent for an hour. It is no
// machine that is gone; nor is it once its etcd is ended for the agent to take over, though
// a spare is there.
func TestNotYetAdopted(t *testing.T) {
	identity := &store.Identity{Static: true, Cluster: 0xc1}
	seen := ring.Observed{Listed: true, Recorded: 2}
	for i, name := range []string{"m1", "m2", "m3"} {
		url := "http://" + name + ":2380"
		identity.Members = append(identity.Members, store.InitialMember{Name: name, Machine: name, PeerURL: url, Member: uint64(i + 1)})
		m := ring.Member{ID: ring.ID(i + 1), Name: name, Machine: name, PeerURL: url, Disk: "d-" + name, Serving: true, Leader: i == 0, Version: "v3.6.16"}
		machine := ring.Machine{Name: name, PeerURL: url, Disk: "d-" + name, Present: true, Versions: []ring.Version{"v3.6.16"}}
		if name == "m2" {
			m.Disk, machine.Disk, machine.Present, machine.Absent = "", "", false, time.Hour
		}
		seen.Members, seen.Machines = append(seen.Members, m), append(seen.Machines, machine)
	}
	seen.Machines = append(seen.Machines, ring.Machine{Name: "m4", PeerURL: "http://m4:2380", Disk: "d-m4", Present: true, Versions: []ring.Version{"v3.6.16"}})
	spec := ring.Spec{Nodes: 3, Version: "v3.6.16", ReplaceAfter: time.Minute}
	decide := func() ring.Decision { return ring.Next(spec, notYetAdopted(identity, seen)) }

	assert.Equal(t, "m2 (2) is to restart with a launcher", decide().Wait)
	seen.Members[1].Serving, seen.Members[1].Silent = false, time.Hour
	assert.Contains(t, decide().Wait, "it is to restart with a launcher")
	assert.False(t, seen.Machines[1].Static, "what was seen stays as it was")
	identity.Members[1].Member = 7
	assert.NotNil(t, decide().Halt, "who was never there before is somebody's")
}
