// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcdbin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrUnknownVersion says that the module proxy was asked, and has no such release.
var ErrUnknownVersion = errors.New("unknown etcd version")

// ErrProxyUnreachable says that the module proxy could not be asked, so that
// nothing is known about the release.
var ErrProxyUnreachable = errors.New("the module proxy could not be asked")

// version is major, minor, patch: it orders as releases do.
type version [3]int

var versionText = regexp.MustCompile(`^v?(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})$`)

func parseVersion(text string) (version, error) {
	parts := versionText.FindStringSubmatch(text)
	if parts == nil {
		return version{}, fmt.Errorf("%q is not an etcd release; write it like v3.6.16", text)
	}
	var v version
	for i := range v {
		v[i], _ = strconv.Atoi(parts[i+1]) // the pattern allows nothing else
	}
	return v, nil
}

func (v version) String() string { return fmt.Sprintf("v%d.%d.%d", v[0], v[1], v[2]) }

func compareVersions(a, b version) int { return slices.Compare(a[:], b[:]) }

// sortVersions drops what is not a release, such as v3.7.0-rc.0.
func sortVersions(texts []string) []version {
	var sorted []version
	for _, text := range texts {
		if v, err := parseVersion(text); err == nil {
			sorted = append(sorted, v)
		}
	}
	slices.SortFunc(sorted, compareVersions)
	return slices.Compact(sorted)
}

// releases lists those of etcd itself, the older ones among them.
func releases(ctx context.Context, dir string) ([]version, error) {
	known, err := listVersions(ctx, dir, serverModule)
	if err != nil {
		return nil, err
	}
	for v := range older { // order: the slice is sorted below
		known = append(known, v)
	}
	slices.SortFunc(known, compareVersions)
	return slices.Compact(known), nil
}

// listVersions lists the releases of one module that the proxy names.
func listVersions(ctx context.Context, dir, module string) ([]version, error) {
	out, err := goCommand(ctx, dir, "list", "-m", "-versions", "-f", "{{range .Versions}}{{println .}}{{end}}", module)
	if ctx.Err() != nil || errors.Is(err, errNoGo) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w for the releases of etcd: %w; check GOPROXY and the network", ErrProxyUnreachable, err)
	}
	return sortVersions(strings.Fields(out)), nil
}

// answered holds the words of a proxy that was reached and said no. A lost
// connection has none of them.
var answered = regexp.MustCompile(`\b(403|404|410) |unknown revision|invalid version|no such file or directory`)

// refused reports whether err is a proxy's or checksum database's answer, and
// no lost connection.
func refused(err error) bool { return answered.MatchString(err.Error()) }

// explain turns the refusal to give v into what a person can act on.
func explain(ctx context.Context, v version, dir string, refusal error) error {
	known, err := releases(ctx, dir)
	switch {
	case err != nil:
		return fmt.Errorf("cannot build etcd %s: %w", v, err)
	case slices.Contains(known, v):
		return fmt.Errorf("cannot download etcd %s: %w", v, refusal)
	case !refused(refusal):
		return fmt.Errorf("%w for etcd %s: %w; check GOPROXY and the network", ErrProxyUnreachable, v, refusal)
	}
	return unknown(v, known)
}

type unknownVersion string

func (e unknownVersion) Error() string        { return string(e) }
func (e unknownVersion) Is(target error) bool { return target == ErrUnknownVersion }

func unknown(v version, known []version) error {
	return unknownVersion(fmt.Sprintf("etcd %s is not a release the module proxy offers; nearest: %s; all: %s; --etcd-bin DIR takes a build of your own",
		v, join(nearest(v, known)), join(known)))
}

// nearest picks from known, which is sorted, the two releases below v and the
// one above; those of a closer minor come first.
func nearest(v version, known []version) []version {
	at, _ := slices.BinarySearchFunc(known, v, compareVersions)
	var near []version
	for _, i := range []int{at - 1, at, at - 2} {
		if 0 <= i && i < len(known) {
			near = append(near, known[i])
		}
	}
	slices.SortStableFunc(near, func(a, b version) int { return slices.Compare(v.minorsTo(a), v.minorsTo(b)) })
	return near
}

// siblings are the other known releases of v's minor, the nearest first, and of
// two equally near the newer.
func siblings(v version, known []version) []version {
	same := slices.DeleteFunc(slices.Clone(known), func(w version) bool { return w == v || w[0] != v[0] || w[1] != v[1] })
	far := func(w version) int { return max(w[2]-v[2], v[2]-w[2]) }
	slices.SortFunc(same, func(a, b version) int { return cmp.Or(cmp.Compare(far(a), far(b)), compareVersions(b, a)) })
	return same
}

func (v version) minorsTo(w version) []int {
	return []int{max(v[0]-w[0], w[0]-v[0]), max(v[1]-w[1], w[1]-v[1])}
}

func join(versions []version) string { return strings.Join(texts(versions), ", ") }

func texts(versions []version) []string {
	texts := make([]string, len(versions))
	for i, v := range versions {
		texts[i] = v.String()
	}
	return texts
}
