// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package etcdbin provides the binaries of real etcd releases.
//
// A release is built once, from the Go module proxy and under the checksum
// database, and kept in a cache with the digest of every binary. What comes
// out of the cache has been hashed again: a binary that is not the one that
// was built is never run. A release is its etcd: where only a tool of it can't
// be had, that of the nearest release stands in, and the release says so.
//
// A person may bring a build of their own instead; see [FromDir].
package etcdbin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Release is one etcd release, ready to run. The paths are absolute.
type Release struct {
	Version   string            `json:"version"` // as in v3.6.16
	Etcd      string            `json:"etcd"`
	Etcdctl   string            `json:"etcdctl"`
	Etcdutl   string            `json:"etcdutl,omitempty"` // none before 3.5
	Digests   map[string]string `json:"digests"`           // file name → SHA-256 in hex
	GoVersion string            `json:"goVersion"`
	Source    string            `json:"source"`             // "built", or "user's own: DIR"
	Borrowed  map[string]string `json:"borrowed,omitempty"` // tool → the release it is of, when this one's can't be had
}

// Cache holds one folder a release. Any number of processes may share it.
type Cache struct{ Dir string }

// DefaultCache is the cache of the user who runs this.
func DefaultCache() (Cache, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{}, fmt.Errorf("no folder to keep etcd releases in: %w; set XDG_CACHE_HOME or HOME", err)
	}
	return Cache{Dir: filepath.Join(dir, "ringproof", "etcd")}, nil
}

// Install returns a release from the cache, and builds it first when it is
// missing or damaged. It tells progress, which may be nil, one line a stage.
//
// It may run many times at once: one builds, the others wait and share. An
// entry appears whole or not at all, whenever ctx ends or the process dies.
func (c Cache) Install(ctx context.Context, version string, progress func(line string)) (Release, error) {
	return c.install(ctx, version, progress, goBuild)
}

// Lookup returns a release if the cache holds it. A damaged entry is an error.
func (c Cache) Lookup(version string) (Release, bool, error) {
	v, err := parseVersion(version)
	if err != nil {
		return Release{}, false, err
	}
	entry, err := filepath.Abs(filepath.Join(c.Dir, v.String()))
	if err != nil {
		return Release{}, false, err
	}
	if _, err := os.Stat(entry); errors.Is(err, fs.ErrNotExist) {
		return Release{}, false, nil
	}
	release, err := openEntry(entry, v)
	return release, err == nil, err
}

// List returns every sound release in the cache, oldest first, and an error
// that names every other.
func (c Cache) List() ([]Release, error) {
	files, err := os.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the etcd releases in the cache: %w", err)
	}
	var names []string
	for _, file := range files {
		if strings.HasPrefix(file.Name(), "v") {
			names = append(names, file.Name())
		}
	}
	return c.open(sortVersions(names))
}

func (c Cache) open(versions []version) ([]Release, error) {
	var found []Release
	var errs []error
	for _, v := range versions {
		release, ok, err := c.Lookup(v.String())
		if ok {
			found = append(found, release)
		}
		errs = append(errs, err)
	}
	return found, errors.Join(errs...)
}

// A builder writes the binaries of a release into entry, and says which tools
// are of another release. It may use work, which holds nothing else, as it likes.
type builder func(ctx context.Context, v version, work, entry string, say func(string)) (borrowed map[string]version, err error)

func (c Cache) install(ctx context.Context, text string, progress func(string), build builder) (Release, error) {
	v, err := parseVersion(text)
	if err != nil {
		return Release{}, err
	}
	if release, ok, _ := c.Lookup(text); ok { // damage is dealt with under the lock
		return release, nil
	}
	say := func(stage string) {
		if progress != nil {
			progress(fmt.Sprintf("etcd %s: %s", v, stage))
		}
	}
	unlock, err := c.lock(ctx, v, say)
	if err != nil {
		return Release{}, err
	}
	defer unlock()
	return c.installLocked(ctx, v, say, build)
}

func (c Cache) installLocked(ctx context.Context, v version, say func(string), build builder) (Release, error) {
	release, ok, err := c.Lookup(v.String())
	if ok {
		return release, nil
	}
	if err != nil && !errors.Is(err, errDamaged) {
		return Release{}, err
	}
	if err != nil {
		say(err.Error() + "; building it again")
	}
	began := time.Now()
	if err := c.add(ctx, v, say, build); err != nil {
		return Release{}, err
	}
	say(fmt.Sprintf("built in %s", time.Since(began).Round(time.Second)))
	release, _, err = c.Lookup(v.String())
	return release, err
}

// add builds beside the entries and moves the result among them in one step.
// Only the holder of the lock builds this version, so whatever an earlier
// build left behind is dead.
func (c Cache) add(ctx context.Context, v version, say func(string), build builder) error {
	prefix := ".build-" + v.String() + "-"
	if err := sweep(filepath.Join(c.Dir, prefix+"*")); err != nil {
		return err
	}
	work, err := os.MkdirTemp(c.Dir, prefix)
	if err != nil {
		return fmt.Errorf("cannot build etcd %s: %w", v, err)
	}
	defer os.RemoveAll(work)
	entry := filepath.Join(work, "entry")
	if err := os.Mkdir(entry, 0o755); err != nil {
		return err
	}
	borrowed, err := build(ctx, v, work, entry, say)
	if err != nil {
		return err
	}
	if err := seal(ctx, entry, v, borrowed); err != nil {
		return err
	}
	return replace(filepath.Join(c.Dir, v.String()), entry, filepath.Join(work, "damaged"))
}

// replace moves entry to place, and what was there to aside. A crash between
// the two renames leaves no entry, which is safe.
func replace(place, entry, aside string) error {
	if err := os.Rename(place, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(entry, place)
}

func sweep(pattern string) error {
	left, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("cannot remove an unfinished build: %w", err)
		}
	}
	return nil
}

// files names the binaries of a release, in the order they are built.
func (v version) files() []string {
	if slices.Compare(v[:], []int{3, 5}) < 0 {
		return []string{"etcd", "etcdctl"}
	}
	return []string{"etcd", "etcdctl", "etcdutl"}
}
