// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcdbin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// manifest is what a cache entry says of itself. It names no folder, so a
// cache may be moved.
type manifest struct {
	Version   string            `json:"version"`
	Digests   map[string]string `json:"digests"`
	GoVersion string            `json:"goVersion"`
	Built     time.Time         `json:"built"`
	Borrowed  map[string]string `json:"borrowed,omitempty"` // tool → the release it is of, when its own can't be had
}

const manifestFile = "manifest.json"

// errDamaged marks an entry that is there but not what was built. Building it
// again mends it, which is not true of, say, a permission that is missing.
var errDamaged = errors.New("the cached binaries are damaged")

var errNotRunnable = errors.New("not an executable file")

// seal writes the manifest, once every binary has said that it is of the part's
// version, or what it was borrowed from. It does not sync to disk: what a power cut
// tears, the digests find.
func seal(ctx context.Context, entry string, p part, borrowed map[string]version) error {
	goVersion, err := askAll(ctx, entry, p, borrowed)
	if err != nil {
		return err
	}
	digests, err := digestAll(entry, p.files())
	if err != nil {
		return err
	}
	m := manifest{Version: p.version.String(), Digests: digests, GoVersion: goVersion, Built: time.Now().UTC().Round(time.Second)}
	if len(borrowed) > 0 {
		m.Borrowed = map[string]string{}
	}
	for file, of := range borrowed { // order: into a map
		m.Borrowed[file] = of.String()
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(entry, manifestFile), append(text, '\n'), 0o644)
}

// openEntry trusts nothing in the folder but the manifest, and that only as
// far as the binaries agree with it. An entry of etcd may hold the tools too.
func openEntry(entry string, p part) (Release, error) {
	m, err := readManifest(entry, p.version)
	if err != nil {
		return Release{}, err
	}
	files := p.files()
	if m.Digests["etcdctl"] != "" && !p.isTools {
		files = append(files, p.version.tools().files()...)
	}
	digests, err := digestAll(entry, files)
	if err != nil {
		return Release{}, damage(err)
	}
	for _, file := range files {
		if m.Digests[file] != digests[file] {
			return Release{}, fmt.Errorf("%w: %s has SHA-256 %s, and was built with %q",
				errDamaged, filepath.Join(entry, file), digests[file], m.Digests[file])
		}
	}
	m.Digests = digests
	return newRelease(entry, m), nil
}

func readManifest(entry string, v version) (manifest, error) {
	path := filepath.Join(entry, manifestFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return manifest{}, damage(err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return manifest{}, fmt.Errorf("%w: %s: %w", errDamaged, path, err)
	}
	if m.Version != v.String() {
		return manifest{}, fmt.Errorf("%w: %s is of %q, not %s", errDamaged, path, m.Version, v)
	}
	return m, nil
}

// damage tells a file that is gone from one that cannot be read just now.
func damage(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRunnable) {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return fmt.Errorf("cannot read the cached binaries: %w", err)
}

// newRelease is the release whose binaries, those with a digest, are in dir.
func newRelease(dir string, m manifest) Release {
	release := Release{Version: m.Version, Digests: m.Digests, GoVersion: m.GoVersion, Source: "built", Borrowed: m.Borrowed}
	for file, path := range map[string]*string{"etcd": &release.Etcd, "etcdctl": &release.Etcdctl, "etcdutl": &release.Etcdutl} { // order: each is apart
		if m.Digests[file] != "" {
			*path = filepath.Join(dir, file)
		}
	}
	return release
}

func digestAll(dir string, files []string) (map[string]string, error) {
	digests := map[string]string{}
	for _, name := range files {
		digest, err := digest(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		digests[name] = digest
	}
	return digests, nil
}

func digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if stat, err := file.Stat(); err != nil || !stat.Mode().IsRegular() || stat.Mode()&0o111 == 0 {
		return "", errors.Join(err, fmt.Errorf("%s: %w", path, errNotRunnable))
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
