// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package store is the one meeting place of machines before a ring exists.
//
// Once a ring runs, etcd itself decides who leads and what is true. Before
// that there is only a directory or a bucket, and many machines that want to be
// first. So everything in a store is immutable and numbered, and the one
// primitive is create if absent: of any number of machines that create the same
// key, one wins and the rest are told so. A [Log] of records builds on that, and
// a number of a log is a fencing token.
//
// Absence is the dangerous answer, for "no ring yet" is what lets a machine
// create one. A missing, unmounted, emptied or mistaken place must therefore
// never look like an empty store: [Marked] lets no answer through that the
// store's marker does not vouch for.
package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Store is the seam: a file system, a bucket, or the simulator.
type Store interface {
	// Create stores value under key if there is nothing under it. It fails
	// with ErrExists if there is; exactly one creator of a key ever succeeds.
	// Any other error means unknown: the value may have been stored. A caller
	// finds out by reading the key back and looking for its own value.
	Create(ctx context.Context, key string, value []byte) error
	// Get reads what was created. It fails with ErrNotFound only when the
	// store positively answered that there is nothing under key.
	Get(ctx context.Context, key string) ([]byte, error)
	// List returns the keys that begin with prefix, sorted.
	List(ctx context.Context, prefix string) ([]string, error)
}

var (
	// ErrExists says that another creator was first.
	ErrExists = errors.New("exists already")
	// ErrNotFound says that the store answered and has no such key.
	ErrNotFound = errors.New("not found")
	// ErrNotAStore says that the place answers but was never made a store, or
	// is one no longer. Nothing may be concluded from what it lacks.
	ErrNotAStore = errors.New("not a ringadm store")
)

// MarkerKey is the object that tells a store from an empty or a wrong place.
const MarkerKey = "ringadm-store/v1"

const marker = `{"format":"ringadm-store/v1"}`

// Init makes s a store. It may be repeated, and by many at once.
//
// A place that holds keys but no marker is refused: it is somebody else's, or a
// store that has lost its marker and perhaps more; etcd-manager took the loss of
// such a marker for permission to start over, and wiped running rings.
func Init(ctx context.Context, s Store) error {
	keys, err := s.List(ctx, "")
	if err != nil {
		return fmt.Errorf("store: cannot tell whether this place is empty: %w", err)
	}
	if len(keys) > 0 && !slices.Contains(keys, MarkerKey) {
		return fmt.Errorf("store: %w: it holds %q but no %s: choose an empty place, or restore the marker if this store has lost it",
			ErrNotAStore, keys[0], MarkerKey)
	}
	if err := s.Create(ctx, MarkerKey, []byte(marker)); err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("store: cannot make the marker: %w", err)
	}
	return Check(ctx, s)
}

// Check reports whether s is a store. ErrNotAStore is a positive no; any other
// error means that the question went unanswered.
func Check(ctx context.Context, s Store) error {
	found, err := s.Get(ctx, MarkerKey)
	switch {
	case errors.Is(err, ErrNotFound):
		return fmt.Errorf("store: %w: there is no %s: check that the address is right and the volume mounted; make a new store only if there never was one",
			ErrNotAStore, MarkerKey)
	case err != nil:
		return fmt.Errorf("store: cannot read the marker: %w", err)
	case string(found) != marker:
		return fmt.Errorf("store: %w: %s holds %.40q: use the release of ringadm that made this store", ErrNotAStore, MarkerKey, found)
	}
	return nil
}

// Marked vouches for the answers of a Store by its marker.
//
// Create looks for the marker first: a record made in an unmounted directory
// would bootstrap a second ring. Get and List look for it afterwards, when they found
// less than asked or might have: a volume that went away between the two
// looks would otherwise pass for a store without that key.
//
// The marker itself and List of everything are exempt, for Init needs them
// before there is a marker.
type Marked struct{ Unmarked Store }

// Create implements Store.
func (m Marked) Create(ctx context.Context, key string, value []byte) error {
	if key != MarkerKey {
		if err := Check(ctx, m.Unmarked); err != nil {
			return fmt.Errorf("%s not created: %w", key, err)
		}
	}
	return m.Unmarked.Create(ctx, key, value)
}

// Get implements Store.
func (m Marked) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := m.Unmarked.Get(ctx, key)
	if key == MarkerKey || !errors.Is(err, ErrNotFound) {
		return value, err
	}
	if check := Check(ctx, m.Unmarked); check != nil {
		return nil, fmt.Errorf("%s was not found, which means nothing here: %w", key, check)
	}
	return nil, err
}

// List implements Store.
func (m Marked) List(ctx context.Context, prefix string) ([]string, error) {
	keys, err := m.Unmarked.List(ctx, prefix)
	if err != nil || prefix == "" {
		return keys, err
	}
	if check := Check(ctx, m.Unmarked); check != nil {
		return nil, fmt.Errorf("list of %s means nothing here: %w", prefix, check)
	}
	return keys, nil
}

// A segment never begins with a dot: "." and ".." would climb, and names with
// one are left to temporary files and to what file systems hide (.nfs0001).
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

// CheckKey refuses what no store takes for a key.
func CheckKey(key string) error {
	if !keyPattern.MatchString(key) || len(key) > 512 {
		return fmt.Errorf("store: key %.80q refused: use letters, digits, '-', '_' and '.' between slashes, up to 512 bytes", key)
	}
	return nil
}

func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return CheckKey(strings.TrimSuffix(prefix, "/"))
}
