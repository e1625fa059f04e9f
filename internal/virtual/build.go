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
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/lockstep"
)

// Kit is what runs in virtual time: this program, ringadm, and releases of etcd, built with
// the standard library of a world.
type Kit struct {
	Etcd       etcdbin.Cache
	Self       string // paths
	Ringadm    string
	Kubernetes string            // the control plane's programs, in one; "": it wasn't built
	Programs   map[string]string // the paths of somebody's, by the directories of their main packages

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
	kit, main, err := lay(ctx)
	if err != nil {
		return Kit{}, err
	}
	if progress != nil {
		progress("building what runs in virtual time; the first time this takes some minutes")
	}
	return kit, errors.Join(build(ctx, kit.root, kit.overlay, kit.Self, main), build(ctx, kit.root, kit.overlay, kit.Ringadm, module+"/cmd/ringadm"))
}

// Proof is the file that says that a plan was the same twice here; "": the kit has built nothing.
func (k Kit) Proof() string {
	if k.overlay.File == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(k.overlay.File), "same-twice")
}

// Parts are what a kit can build without this program: Kubernetes, programs, releases.
func Parts(ctx context.Context) (Kit, error) {
	kit, _, err := lay(ctx)
	return kit, err
}

// BuildTest builds the tests of the package in the directory, to sit in a world.
func (k Kit) BuildTest(ctx context.Context, dir, to string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-vet=off", "-overlay", k.overlay.File, "-o", to, ".")
	return run(cmd, dir, "the tests")
}

// lay says where everything is that runs in virtual time, built or not, and of which
// package this program is.
func lay(ctx context.Context) (kit Kit, main string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Kit{}, "", fmt.Errorf("no folder to keep programs in: %w; set XDG_CACHE_HOME or HOME", err)
	}
	overlay, err := lockstep.MakeOverlay(ctx, filepath.Join(cache, "ringproof", "virtual"))
	if err != nil {
		return Kit{}, "", err
	}
	root, main, err := sources()
	if err != nil {
		return Kit{}, "", err
	}
	of := sha256.Sum256([]byte(root))
	below := filepath.Dir(overlay.File)
	dir := filepath.Join(below, "programs-"+hex.EncodeToString(of[:4]))
	return Kit{root: root, overlay: overlay, Self: filepath.Join(dir, filepath.Base(main)), Ringadm: filepath.Join(dir, "ringadm"),
		Etcd: etcdbin.Cache{Dir: filepath.Join(below, "etcd"), Flags: []string{"-overlay", overlay.File}}}, main, nil
}

// Doctor says whether a world in virtual time can be had here, and which large parts of it
// are built.
func Doctor(ctx context.Context) machines.Capability {
	found := machines.Capability{Name: "virtual time", Fix: "run it in its own sources, with the Go that go.mod names"}
	kit, _, err := lay(ctx)
	if err != nil {
		found.Detail = strings.ReplaceAll(err.Error(), "\n", "; ")
		return found
	}
	var built []string
	if releases, err := kit.Etcd.List(); err == nil && len(releases) > 0 {
		built = append(built, "etcd")
	}
	if kit.HasKubernetes() {
		built = append(built, "Kubernetes")
	}
	found.OK, found.Detail = true, "built already: "+strings.Join(built, ", ")
	if len(built) == 0 {
		found.Detail = "nothing is built yet; the first run takes some minutes more, and some ten with Kubernetes"
	}
	return found
}

// KubernetesVersion is the release of Kubernetes that runs in virtual time.
const KubernetesVersion = "v1.36.3"

// WithKubernetes builds the control plane of Kubernetes too, unless it is built.
func (k Kit) WithKubernetes(ctx context.Context, progress func(string)) (Kit, error) {
	k.Kubernetes = k.kubernetes()
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

// HasKubernetes reports whether the control plane is built.
func (k Kit) HasKubernetes() bool {
	_, err := os.Stat(k.kubernetes())
	return err == nil
}

// kubernetes is where the control plane is, or is to be built.
func (k Kit) kubernetes() string {
	return filepath.Join(filepath.Dir(k.overlay.File), "kubernetes-"+KubernetesVersion, "kubernetes")
}

// WithProgram builds somebody's program too, unless it is built: the main package in the
// directory, in its own module, of which no file is changed. A kit with nothing in it builds
// it as it would be anywhere.
func (k Kit) WithProgram(ctx context.Context, dir string, progress func(string)) (Kit, error) {
	where, err := k.programs()
	if err != nil {
		return k, err
	}
	of := sha256.Sum256([]byte(dir))
	to := filepath.Join(where, filepath.Base(dir)+"-"+hex.EncodeToString(of[:4]))
	if progress != nil {
		progress("building " + dir)
	}
	all := map[string]string{dir: to}
	maps.Copy(all, k.Programs)
	k.Programs = all
	overlay := k.overlay
	if overlay.File != "" {
		if overlay, err = overlay.Beside(dir); err != nil {
			return k, err
		}
	}
	return k, build(ctx, dir, overlay, to, ".", "-mod=readonly")
}

// programs is the directory of somebody's programs.
func (k Kit) programs() (string, error) {
	if k.overlay.File != "" {
		return filepath.Join(filepath.Dir(k.overlay.File), "operators"), nil
	}
	etcd, err := etcdbin.DefaultCache()
	return filepath.Join(filepath.Dir(etcd.Dir), "programs"), err
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
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-o", to}, flags...)
	if overlay.File != "" {
		args = append(args, "-overlay", overlay.File)
	}
	return run(exec.CommandContext(ctx, "go", append(args, of)...), root, of)
}

// run has Go build something in a directory.
func run(cmd *exec.Cmd, dir, of string) error {
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local")
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("building %s in %s: %w: %s", of, dir, err, bytes.TrimSpace(said))
	}
	return nil
}
