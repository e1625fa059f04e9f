// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"encoding/json"

	"github.com/ringproof/ringproof/reference/host"
)

// A disk that was emptied is no other disk by its serial number, its UUID or its claim.
// What was bound to it is bound to it still, and starts there with nothing.
var keepsDiskID = Mutant{
	Name:     "keeps-disk-id",
	Hazard:   "A disk that was emptied keeps its ID, so that the member that lost its log there may start again.",
	Source:   "a volume's UUID or a claim's UID taken for the identity of what is on it",
	Check:    "no-identity-reuse",
	Scenario: "log-lost",
	layer: only(layer{host: func(h host.Host) host.Host {
		return machine{Host: h, disk: oneID{h.Disk(), h}}
	}}),
}

// oneID writes no other ID than the disk's first.
type oneID struct {
	host.Disk
	host host.Host
}

func (d oneID) Write(name string, content []byte) error {
	if name != "disk.json" {
		return d.Disk.Write(name, content)
	}
	var was, is map[string]any
	text, err := d.Read(name)
	if err != nil || json.Unmarshal(text, &was) != nil || json.Unmarshal(content, &is) != nil || was["id"] == is["id"] {
		return d.Disk.Write(name, content)
	}
	reached(d.host)
	is["id"] = was["id"]
	if content, err = json.Marshal(is); err != nil {
		return err
	}
	return d.Disk.Write(name, content)
}
