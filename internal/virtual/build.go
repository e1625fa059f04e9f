// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package virtual

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/lockstep"
)

// Kit is what runs in virtual time: this program, ringadm, and releases of etcd, built with
// the standard library of a world.
type Kit struct {
	Etcd       etcdbin.Cache
	Self       string // paths
	Ringadm    string
	Kubernetes string            // the control plane's programs, in one; "": it wasn't built
	Operators  map[string]string // the paths of somebody's, by the directories of their main packages

	root    string
	overlay lockstep.Overlay
}

// module is this one.
const module = "github.com/ringproof/ringproof"

// Build builds this program and ringadm again, from the sources below the directory that
// it is run in, unless they are built. Releases are built by the kit's cache. It tells
// progress, which may be nil, one line a stage. An error wraps [errors.ErrUnsupported]
// where no world can be had.
func Build(ctx context.Context, progress func(string)) (Kit, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Kit{}, fmt.Errorf("no folder to keep programs in: %w; set XDG_CACHE_HOME or HOME", err)
	}
	overlay, err := lockstep.MakeOverlay(ctx, filepath.Join(cache, "ringproof", "virtual"))
	if err != nil {
		return Kit{}, err
	}
	root, main, err := sources()
	if err != nil {
		return Kit{}, err
	}
	of := sha256.Sum256([]byte(root))
	dir := filepath.Join(filepath.Dir(overlay.File), "programs-"+hex.EncodeToString(of[:4]))
	kit := Kit{root: root, overlay: overlay, Self: filepath.Join(dir, filepath.Base(main)), Ringadm: filepath.Join(dir, "ringadm"),
		Etcd: etcdbin.Cache{Dir: filepath.Join(filepath.Dir(overlay.File), "etcd"), Flags: []string{"-overlay", overlay.File}}}
	if progress != nil {
		progress("building what runs in virtual time; the first time this takes some minutes")
	}
	return kit, errors.Join(build(ctx, root, overlay, kit.Self, main), build(ctx, root, overlay, kit.Ringadm, module+"/cmd/ringadm"))
}

// KubernetesVersion is the release of Kubernetes that runs in virtual time.
const KubernetesVersion = "v1.36.3"

// WithKubernetes builds the control plane of Kubernetes too, unless it is built.
func (k Kit) WithKubernetes(ctx context.Context, progress func(string)) (Kit, error) {
	k.Kubernetes = filepath.Join(filepath.Dir(k.overlay.File), "kubernetes-"+KubernetesVersion, "kubernetes")
	if progress != nil {
		progress("building Kubernetes " + KubernetesVersion + " for virtual time; the first time this takes some ten minutes")
	}
	major, minor, _ := strings.Cut(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	var flags []string
	for _, of := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags, "-X", of+".gitVersion="+KubernetesVersion, "-X", of+".gitMajor="+major, "-X", of+".gitMinor="+minor)
	}
	return k, build(ctx, filepath.Join(k.root, "internal", "virtual", "kubernetes"), k.overlay, k.Kubernetes, ".", "-ldflags", strings.Join(flags, " "))
}

// WithOperator builds somebody's operator too, unless it is built: the main package in the
// directory, in its own module, of which no file is changed.
func (k Kit) WithOperator(ctx context.Context, dir string, progress func(string)) (Kit, error) {
	of := sha256.Sum256([]byte(dir))
	to := filepath.Join(filepath.Dir(k.overlay.File), "operators", filepath.Base(dir)+"-"+hex.EncodeToString(of[:4]))
	if progress != nil {
		progress("building " + dir + " for virtual time")
	}
	all := map[string]string{dir: to}
	maps.Copy(all, k.Operators)
	k.Operators = all
	return k, build(ctx, dir, k.overlay, to, ".", "-mod=readonly")
}

// sources are where the sources of this program are, and its main package.
func sources() (root, main string, err error) {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "", "", errors.New("this program doesn't say what it was built from; build it with go build")
	}
	main = strings.TrimSuffix(b.Path, ".test")
	here, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module "+b.Main.Path+"\n")) {
			return dir, main, nil
		}
		if dir == filepath.Dir(dir) {
			return "", "", fmt.Errorf("virtual time needs %s to be built again, from its sources, and %s is not below them: run it there (%w)", main, here, errors.ErrUnsupported)
		}
	}
}

func build(ctx context.Context, root string, overlay lockstep.Overlay, to, of string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-overlay", overlay.File, "-o", to}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, of)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local")
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("building %s for virtual time: %w: %s", of, err, bytes.TrimSpace(said))
	}
	return nil
}
