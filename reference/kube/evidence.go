// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"encoding/json"
	"fmt"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

// Evidence is what the init container found on a slot's disk, in its termination
// message: the controller learns of the disk before there is a ring, and the pod may
// write nothing into the API for it. It is of the time when init ran last, and of no
// later one.
type Evidence struct {
	Disk     string `json:"disk"`
	Launched bool   `json:"launched,omitempty"`
	Member   string `json:"member,omitempty"`  // whose log is there
	Cluster  string `json:"cluster,omitempty"` // of which ring
	Last     uint64 `json:"last,omitempty"`    // index of its last entry
	Damaged  string `json:"damaged,omitempty"` // a log is there and unreadable: why
}

// Empty reports whether no member has ever run on the disk.
func (e Evidence) Empty() bool { return !e.Launched && e.Member == "" && e.Damaged == "" }

// Find opens the disk of a slot, gives it an identity if it has none, and says what is
// on it.
func Find(h host.Host, slot string) (Evidence, error) {
	d, _, err := launcher.OpenDisk(h, slot, launcher.Disk{})
	if err != nil {
		return Evidence{}, err
	}
	var found launcher.Evidence
	launcher.ReadLog(h, &found)
	const most = 1000 // of the 4096 bytes that a termination message may have
	e := Evidence{Disk: d.ID, Launched: d.Launched, Damaged: found.Damaged[:min(len(found.Damaged), most)]}
	if found.WAL != nil {
		e.Member, e.Cluster, e.Last = fmt.Sprintf("%x", found.WAL.Member), fmt.Sprintf("%x", found.WAL.Cluster), found.WAL.Last
	}
	return e, nil
}

// ParseEvidence reads a termination message.
func ParseEvidence(message string) (e Evidence, err error) {
	if err := json.Unmarshal([]byte(message), &e); err != nil {
		return Evidence{}, fmt.Errorf("the termination message of the container %s is no evidence: %w", InitContainer, err)
	}
	if e.Disk == "" {
		return Evidence{}, fmt.Errorf("the termination message of the container %s names no disk", InitContainer)
	}
	return e, nil
}

// MisplacedMessage begins the termination message of a member's container that found
// another disk than init did: init must run again, which only another pod makes it.
const MisplacedMessage = "another disk: "
