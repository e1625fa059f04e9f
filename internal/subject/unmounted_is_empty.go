// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import "github.com/ringproof/ringproof/reference/host"

// The volume comes some seconds later, with the log of the member that was
// replaced meanwhile.
var unmountedIsEmpty = Mutant{
	Name:     "unmounted-is-empty",
	Hazard:   "A directory whose filesystem isn't mounted yet is taken for a new disk.",
	Source:   "any launcher that makes its data directory where it finds none",
	Check:    "work-bounded",
	Scenario: "filesystem-mounted-late",
	layer: only(layer{host: func(h host.Host) host.Host {
		return machine{Host: h, disk: anyPlace{h.Disk(), h}}
	}}),
}

// anyPlace is a disk wherever it is.
type anyPlace struct {
	host.Disk
	host host.Host
}

func (d anyPlace) Prepared() (bool, error) {
	prepared, err := d.Disk.Prepared()
	if err == nil && !prepared {
		reached(d.host)
	}
	return true, err
}
