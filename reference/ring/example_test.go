// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring_test

import (
	"fmt"
	"time"

	"github.com/ringproof/ringproof/reference/ring"
)

// A machine of three is gone for longer than a spare waits. Three voters spare one, so the lost one is let go
// before the spare is added: with four listed and one of them gone the next loss would cost the quorum.
func ExampleNext() {
	spec := ring.Spec{Nodes: 3, Version: "v3.6.16", ReplaceAfter: 30 * time.Second}
	o := ring.Observed{Listed: true}
	for n, name := range []string{"m1", "m2", "m3", "m4"} {
		url := fmt.Sprintf("https://%s:2380", name)
		o.Machines = append(o.Machines, ring.Machine{Name: name, PeerURL: url, Disk: "disk-" + name, Present: true, Registered: true, Versions: []ring.Version{spec.Version}})
		if name != "m4" {
			o.Members = append(o.Members, ring.Member{ID: ring.ID(n + 1), Name: name, Machine: name, Disk: "disk-" + name, PeerURL: url,
				Serving: true, Ready: true, Leader: n == 0, Version: spec.Version, Release: spec.Version})
		}
	}
	fmt.Println(ring.Next(spec, o))

	o.Members[2].Serving, o.Members[2].Silent = false, time.Minute
	o.Machines[2].Present, o.Machines[2].Absent = false, time.Minute
	fmt.Println(ring.Next(spec, o))

	o.Listed, o.Why = false, "no endpoint answered"
	fmt.Println(ring.Next(spec, o))
	// Output:
	// wait: steady
	// ringadm member remove 3
	// wait: the member list could not be read with a quorum: no endpoint answered
}
