// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
)

// Blob is a store opened by its address. Its answers are vouched for, as those
// of [Marked] are; it may be used by many at once.
type Blob struct {
	Store
	address string
	closer  io.Closer
}

// String returns the address.
func (b Blob) String() string { return b.address }

// Close lets go of the place.
func (b Blob) Close() error { return b.closer.Close() }

// Open opens the store at an address. For now that is file:///directory, where
// every machine mounts the same directory.
//
// The directory must exist unless ?create_dir=true is added: by default a
// directory that is missing is a volume that is not mounted. Open does not say
// whether the directory is a store; [Check] does.
func Open(ctx context.Context, address string) (Blob, error) {
	if err := ctx.Err(); err != nil {
		return Blob{}, fmt.Errorf("store: not opened: %w", err)
	}
	b, opened, err := at(address)
	if err != nil {
		return Blob{}, err
	}
	if err := opened.ask(ctx, &question{what: "store " + address}, func(context.Context, place) answer { return answer{} }).err; err != nil {
		return Blob{}, err
	}
	return b, nil
}

// Later is Open for a store that may be away: the first question opens it, and each says
// why that fails.
func Later(address string) (Blob, error) {
	b, _, err := at(address)
	return b, err
}

// at is the store at an address, which the first question opens.
func at(address string) (Blob, *beside, error) {
	dir, create, err := parseAddress(address)
	if err != nil {
		return Blob{}, nil, err
	}
	b := &beside{open: func() (place, error) {
		f, err := openFiles(dir, create)
		create = false // a directory that is gone later was there
		return marked{Marked{f}, f}, err
	}}
	return Blob{Store: b, address: "file://" + dir, closer: b}, b, nil
}

func parseAddress(address string) (dir string, create bool, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", false, fmt.Errorf("store: address refused: %w", err)
	}
	if u.Scheme != "file" {
		// Redacted: the address of a bucket may hold a password.
		return "", false, fmt.Errorf("store %q refused: only file:///directory is supported for now", u.Redacted())
	}
	if u.Host != "" || u.User != nil || u.Fragment != "" || !path.IsAbs(u.Path) {
		return "", false, fmt.Errorf("store %q refused: write three slashes and an absolute path, as in file:///mnt/ring", u.Redacted())
	}
	create, err = parseOptions(u.Query())
	if err != nil {
		return "", false, fmt.Errorf("store %q refused: %w", address, err)
	}
	return path.Clean(u.Path), create, nil
}

func parseOptions(options url.Values) (create bool, err error) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		values := options[name]
		if name != "create_dir" || len(values) != 1 {
			return false, fmt.Errorf("option %q: the only one is create_dir=true, once", name)
		}
		if create, err = strconv.ParseBool(values[0]); err != nil {
			return false, fmt.Errorf("create_dir=%q: write true or false", values[0])
		}
	}
	return create, nil
}
