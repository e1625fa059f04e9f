// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcdbin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// FromDir takes a person's own build from dir, and believes what its etcd
// says of itself. The folder must hold etcd; of the tools those that are there
// are taken.
func FromDir(ctx context.Context, dir string) (Release, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Release{}, err
	}
	if stat, err := os.Stat(dir); err != nil || !stat.IsDir() {
		return Release{}, fmt.Errorf("--etcd-bin %s: not a folder; name the one that holds etcd", dir)
	}
	text, goVersion, err := ask(ctx, dir, "etcd")
	if err != nil {
		return Release{}, fmt.Errorf("--etcd-bin %s: %w", dir, err)
	}
	number, _, _ := strings.Cut(text, "-") // 3.7.0-rc.0 counts as 3.7.0
	v, err := parseVersion(number)
	if err != nil {
		return Release{}, fmt.Errorf("--etcd-bin %s: etcd says that its version is %q, which is not understood", dir, text)
	}
	files := v.etcd().files()
	for _, tool := range v.tools().files() {
		if _, err := os.Stat(filepath.Join(dir, tool)); !errors.Is(err, fs.ErrNotExist) {
			files = append(files, tool)
		}
	}
	digests, err := digestAll(dir, files)
	if err != nil {
		return Release{}, fmt.Errorf("--etcd-bin %s: what is there of etcd must be files that can be run: %w", dir, err)
	}
	release := newRelease(dir, manifest{Version: "v" + text, Digests: digests, GoVersion: goVersion})
	release.Source = "user's own: " + dir
	return release, nil
}

// askAll wants every binary of the part to say that it is of its version, or what it was borrowed
// from, and returns the Go version that built etcd.
func askAll(ctx context.Context, dir string, p part, borrowed map[string]version) (goVersion string, err error) {
	for _, file := range p.files() {
		of, other := borrowed[file]
		if !other {
			of = p.version
		}
		said, builtWith, err := ask(ctx, dir, file)
		if err != nil {
			return "", err
		}
		if "v"+said != of.String() {
			return "", fmt.Errorf("%s was built for etcd %s, and says that it is %s", file, of, said)
		}
		if file == "etcd" {
			goVersion = builtWith
		}
	}
	return goVersion, nil
}

var goVersionLine = regexp.MustCompile(`(?m)^Go Version: (\S+)`)

// ask runs `etcd --version`, or `etcdctl version`, and reads the answer.
func ask(ctx context.Context, dir, file string) (version, goVersion string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, fmt.Errorf("%s did not tell its version within 30s", file))
	defer cancel()
	argument := "version"
	if file == "etcd" {
		argument = "--version"
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, file), argument)
	cmd.Env = withoutEtcd(os.Environ())
	out, err := run(ctx, cmd)
	if err != nil {
		return "", "", err
	}
	said := regexp.MustCompile(`(?mi)^` + file + ` version: (\S+)`).FindStringSubmatch(out)
	if said == nil {
		return "", "", fmt.Errorf("%s %s does not look like etcd's: it printed %q", file, argument, ending(out))
	}
	if line := goVersionLine.FindStringSubmatch(out); line != nil {
		goVersion = line[1]
	}
	return said[1], goVersion, nil
}

// withoutEtcd drops what would steer the binaries, such as ETCDCTL_API=2.
func withoutEtcd(env []string) []string {
	var kept []string
	for _, setting := range env {
		if !strings.HasPrefix(setting, "ETCD") {
			kept = append(kept, setting)
		}
	}
	return kept
}
