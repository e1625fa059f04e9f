// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// hashEqual compares only within the releases that hash alike: since 3.5.16
// and 3.4.34 a tombstone at the compaction revision is kept, and hashed.
var hashEqual = Check{
	Name:   "hash-equal",
	Claim:  "Members that hash alike have equal hashes of their keyspace at the same revision and compaction.",
	Source: "etcd's corruption check; the 3.5 data inconsistency postmortem; etcd#18089 for who hashes alike",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		groups := map[sameHash][]ringproof.Hash{}
		for _, hash := range h.Evidence.Hashes {
			if hash.Err != "" {
				continue
			}
			at := sameHash{hashClass(hash.Version), hash.Revision, hash.Compact}
			for _, other := range groups[at] {
				if other.Member != hash.Member && other.Hash != hash.Hash {
					return with(fail(ringproof.Forever, "expected equal hashes at revision %d, saw %08x and %08x", hash.Revision, other.Hash, hash.Hash),
						other.String(), hash.String())
				}
			}
			groups[at] = append(groups[at], hash)
		}
		if lone := uncompared(h.Evidence.Hashes); len(lone) > 0 {
			return with(unknown("the keyspace of %s was compared with nobody's", strings.Join(lone, ", ")), hashTexts(h)...)
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(groups)), severals) && !alone(h) {
			return with(unknown("no two members were hashed at the same revision by releases that hash alike: %d hashes", len(h.Evidence.Hashes)), hashTexts(h)...)
		}
		return pass("hashes of members: %d, equal where they compare", len(h.Evidence.Hashes))
	},
}

// uncompared are the machines of members whose hash stands alone, or isn't known, though there are
// others of releases that hash alike.
func uncompared(all []ringproof.Hash) (machines []string) {
	for _, hash := range all {
		alike, same := 0, 0
		for _, o := range all {
			if o.Member == hash.Member || hashClass(o.Version) != hashClass(hash.Version) {
				continue
			}
			alike++
			if hash.Err == "" && o.Err == "" && o.Revision == hash.Revision && o.Compact == hash.Compact {
				same++
			}
		}
		if alike > 0 && same == 0 {
			machines = append(machines, hash.Machine)
		}
	}
	return machines
}

// severals reports whether there are hashes of two members.
func severals(hashes []ringproof.Hash) bool {
	return slices.ContainsFunc(hashes, func(o ringproof.Hash) bool { return o.Member != hashes[0].Member })
}

// sameHash is what must agree before hashes compare.
type sameHash struct {
	class             string
	revision, compact int64
}

func alone(h *ringproof.History) bool {
	return len(h.Evidence.Final.Voters()) == 1 && len(h.Evidence.Final.Learners()) == 0 && len(h.Evidence.Hashes) == 1 && h.Evidence.Hashes[0].Err == ""
}

// hashClass names the releases that hash alike: a minor, split where its
// patches changed the hash.
func hashClass(version string) string {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d.%d", &major, &minor, &patch); n < 3 {
		return version
	}
	changed := map[int]int{4: 34, 5: 16}[minor]
	if patch < changed {
		return fmt.Sprintf("%d.%d before .%d", major, minor, changed)
	}
	return fmt.Sprintf("%d.%d", major, minor)
}

func hashTexts(h *ringproof.History) []string {
	var lines []string
	for _, hash := range h.Evidence.Hashes {
		lines = append(lines, hash.String())
	}
	return lines
}
