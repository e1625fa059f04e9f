// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package etcdbin provides the binaries of real etcd releases.
//
// A release is built once, from the Go module proxy and under the checksum
// database, and kept in a cache with the digest of every binary. What comes
// out of the cache has been hashed again: a binary that is not the one that
// was built is never run. A release is its etcd; its tools take twice as long to
// build, and are built when somebody wants them. Where only a tool of it can't be
// had, that of the nearest release stands in, and the release says so.
//
// A person may bring a build of their own instead; see [FromDir].
package etcdbin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	Etcdctl   string            `json:"etcdctl,omitempty"` // "" until the tools are installed
	Etcdutl   string            `json:"etcdutl,omitempty"` // none before 3.5
	Digests   map[string]string `json:"digests"`           // file name → SHA-256 in hex
	GoVersion string            `json:"goVersion"`
	Source    string            `json:"source"`             // "built", or "user's own: DIR"
	Borrowed  map[string]string `json:"borrowed,omitempty"` // tool → the release it is of, when this one's can't be had
}

// Cache holds one folder a release. Any number of processes may share it.
type Cache struct {
	Dir   string
	Flags []string // for go build: what it makes of them are other binaries, in a folder of their own
}

// DefaultCache is the cache of the user who runs this.
func DefaultCache() (Cache, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{}, fmt.Errorf("no folder to keep etcd releases in: %w; set XDG_CACHE_HOME or HOME", err)
	}
	return Cache{Dir: filepath.Join(dir, "ringproof", "etcd")}, nil
}

// Install returns a release from the cache, and builds its etcd first when that is
// missing or damaged. It tells progress, which may be nil, one line a stage.
//
// It may run many times at once: one builds, the others wait and share. An
// entry appears whole or not at all, whenever ctx ends or the process dies.
func (c Cache) Install(ctx context.Context, version string, progress func(line string)) (Release, error) {
	return c.install(ctx, version, progress, goBuild(c.Flags))
}

// InstallTools does the same for a release and its tools.
func (c Cache) InstallTools(ctx context.Context, version string, progress func(line string)) (Release, error) {
	return c.installTools(ctx, version, progress, goBuild(c.Flags))
}

// Lookup returns a release if the cache holds it, with its tools if it holds them. A
// damaged etcd is an error; damaged tools are as good as none.
func (c Cache) Lookup(version string) (Release, bool, error) {
	v, err := parseVersion(version)
	if err != nil {
		return Release{}, false, err
	}
	release, ok, err := c.lookup(v.etcd())
	if !ok || release.Etcdctl != "" {
		return release, ok, err
	}
	if tools, ok, _ := c.lookup(v.tools()); ok {
		release = release.with(tools)
	}
	return release, true, nil
}

func (c Cache) lookup(p part) (Release, bool, error) {
	entry, err := filepath.Abs(filepath.Join(c.Dir, p.String()))
	if err != nil {
		return Release{}, false, err
	}
	if _, err := os.Stat(entry); errors.Is(err, fs.ErrNotExist) {
		return Release{}, false, nil
	}
	release, err := openEntry(entry, p)
	return release, err == nil, err
}

// with is the release with its tools.
func (r Release) with(tools Release) Release {
	r.Etcdctl, r.Etcdutl, r.Borrowed = tools.Etcdctl, tools.Etcdutl, tools.Borrowed
	maps.Copy(r.Digests, tools.Digests)
	return r
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

// A builder writes the binaries of a part into entry, and says which tools are of
// another release. It may use work, which holds nothing else, as it likes.
type builder func(ctx context.Context, p part, work, entry string, say func(string)) (borrowed map[string]version, err error)

func (c Cache) install(ctx context.Context, text string, progress func(string), build builder) (Release, error) {
	v, err := parseVersion(text)
	if err != nil {
		return Release{}, err
	}
	if release, ok, _ := c.Lookup(text); ok { // damage is dealt with under the lock
		return release, nil
	}
	return c.installPart(ctx, v.etcd(), progress, build)
}

func (c Cache) installTools(ctx context.Context, text string, progress func(string), build builder) (Release, error) {
	release, err := c.install(ctx, text, progress, build)
	if err != nil || release.Etcdctl != "" {
		return release, err
	}
	v, err := parseVersion(text)
	if err != nil {
		return Release{}, err
	}
	tools, err := c.installPart(ctx, v.tools(), progress, build)
	if err != nil {
		return Release{}, err
	}
	return release.with(tools), nil
}

func (c Cache) installPart(ctx context.Context, p part, progress func(string), build builder) (Release, error) {
	say := func(stage string) {
		if progress != nil {
			progress(fmt.Sprintf("etcd %s: %s", p.version, stage))
		}
	}
	unlock, err := c.lock(ctx, p, say)
	if err != nil {
		return Release{}, err
	}
	defer unlock()
	return c.installLocked(ctx, p, say, build)
}

func (c Cache) installLocked(ctx context.Context, p part, say func(string), build builder) (Release, error) {
	release, ok, err := c.lookup(p)
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
	if err := c.add(ctx, p, say, build); err != nil {
		return Release{}, err
	}
	say(fmt.Sprintf("built in %s", time.Since(began).Round(time.Second)))
	release, _, err = c.lookup(p)
	return release, err
}

// add builds beside the entries and moves the result among them in one step.
// Only the holder of the lock builds this part, so whatever an earlier
// build left behind is dead.
func (c Cache) add(ctx context.Context, p part, say func(string), build builder) error {
	prefix := ".build-" + p.String() + "."
	if err := sweep(filepath.Join(c.Dir, prefix+"*")); err != nil {
		return err
	}
	work, err := os.MkdirTemp(c.Dir, prefix)
	if err != nil {
		return fmt.Errorf("cannot build etcd %s: %w", p.version, err)
	}
	defer os.RemoveAll(work)
	entry := filepath.Join(work, "entry")
	if err := os.Mkdir(entry, 0o755); err != nil {
		return err
	}
	borrowed, err := build(ctx, p, work, entry, say)
	if err != nil {
		return err
	}
	if err := seal(ctx, entry, p, borrowed); err != nil {
		return err
	}
	return replace(filepath.Join(c.Dir, p.String()), entry, filepath.Join(work, "damaged"))
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

// part is what of a release is built together, and kept in one entry: its etcd, or
// its tools.
type part struct {
	version
	isTools bool
}

func (v version) etcd() part  { return part{v, false} }
func (v version) tools() part { return part{v, true} }

// String is the name of the part's entry.
func (p part) String() string {
	if p.isTools {
		return p.version.String() + "-tools"
	}
	return p.version.String()
}

// files names the part's binaries, in the order they are built.
func (p part) files() []string {
	switch {
	case !p.isTools:
		return []string{"etcd"}
	case slices.Compare(p.version[:], []int{3, 5}) < 0:
		return []string{"etcdctl"}
	}
	return []string{"etcdctl", "etcdutl"}
}
