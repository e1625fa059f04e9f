// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Version is a release of etcd, as its tags name it: v3.6.16.
type Version string

var versionPattern = regexp.MustCompile(`^v(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})$`)

// ParseVersion reads a release, and refuses what is none.
func ParseVersion(text string) (Version, error) {
	if !versionPattern.MatchString(text) {
		return "", fmt.Errorf("version %q refused: write it as v3.6.16", text)
	}
	return Version(text), nil
}

// Compare orders releases by age; what is no release is older than all.
func (v Version) Compare(o Version) int {
	a, b := v.numbers(), o.numbers()
	return slices.Compare(a[:], b[:])
}

// Minor is v3.6 of v3.6.16.
func (v Version) Minor() string {
	n := v.numbers()
	return fmt.Sprintf("v%d.%d", n[0], n[1])
}

// Beside reports whether etcd lets members of both into one ring: they are no more
// than one minor apart.
func (v Version) Beside(o Version) bool {
	a, b := v.numbers(), o.numbers()
	return a[0] == b[0] && max(a[1], b[1])-min(a[1], b[1]) <= 1
}

// Hop is why a member that runs v may not be given the release next; "": it may. etcd
// goes up within a minor, or to the next minor, and there only from where its guides let
// it.
func (v Version) Hop(next Version) string {
	from, floored := floors[next.Minor()]
	switch {
	case next.Compare(v) < 0:
		return fmt.Sprintf("%s is older than %s, and a ring isn't taken back", next, v)
	case v.Minor() == next.Minor():
		return ""
	case v.Between(next) != "":
		return fmt.Sprintf("from %s to %s a minor is left out: go by a release of %s", v, next, v.Between(next))
	case floored && v.Compare(from.least) < 0:
		return fmt.Sprintf("%s becomes %s only from %s on: %s", v, next.Minor(), from.least, from.why)
	}
	return ""
}

// Between is the minor that comes after v's, if a later release is of neither; "": none is
// left out.
func (v Version) Between(later Version) string {
	a, b := v.numbers(), later.numbers()
	if b[0] < a[0] || b[0] == a[0] && b[1] <= a[1]+1 {
		return ""
	}
	return fmt.Sprintf("v%d.%d", a[0], a[1]+1)
}

// floor is the least release of the minor before from which a minor is reached, and why.
type floor struct {
	least Version
	why   string
}

// floors are those of etcd's guides and of its post on members that come back. Since v3.6
// a member reads who its ring has from the keyspace file: releases before left out
// promotions there (etcd#19557), passed that on by snapshots (etcd#20793), and kept those
// who had left (etcd#20967).
var floors = map[string]floor{
	"v3.6": {"v3.5.26", "before, voters come back as learners and those who left as members (etcd#20793, etcd#20967)"},
	"v3.7": {"v3.6.11", "etcd vouches for no earlier one beside it"},
}

// numbers are major, minor and patch; of what is no release, zeros.
func (v Version) numbers() (n [3]int) {
	if !versionPattern.MatchString(string(v)) {
		return n
	}
	for i, digits := range strings.Split(string(v[1:]), ".") {
		n[i], _ = strconv.Atoi(digits)
	}
	return n
}

// addsWhileSilent reports whether the release lets a member be added while a voter
// doesn't answer, as long as the others are a quorum of one more (etcd#21640).
func (v Version) addsWhileSilent() bool {
	since, patched := map[string]Version{"v3.5": "v3.5.31", "v3.6": "v3.6.11"}[v.Minor()]
	if !patched {
		since = "v3.7.0"
	}
	return v.Compare(since) >= 0
}
