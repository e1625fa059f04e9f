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
