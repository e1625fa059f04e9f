// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The names of what Doctor tries, in the order of its answer.
const (
	canNamespaces = "namespaces"
	canNetwork    = "machine network"
	canDrop       = "packet drops"
	canFill       = "full volumes"
	canFuse       = "fuse"
)

// fixes say what to do when one of them fails.
var fixes = map[string]string{
	canNamespaces: "run as root, or allow user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces above 0, and in a container a seccomp profile that lets clone and mount through",
	canNetwork:    "load the kernel modules bridge and veth",
	canDrop:       "load the kernel module nf_tables",
	canFill:       "allow tmpfs mounts in user namespaces (any kernel since 4.5)",
	canFuse:       "load the kernel module fuse and make /dev/fuse readable and writable; only lost fsyncs and disk errors need it",
}

// Doctor tries on this host each thing that worlds need, and says what to do about what fails. It takes
// about a second.
func Doctor() []Capability {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return append(trySandbox(ctx), tryDocker(ctx), tryMemory(), tryDisk(), tryGo(ctx))
}

// trySandbox has the first five tried in a sandbox.
func trySandbox(ctx context.Context) (found []Capability) {
	var out, complaint bytes.Buffer
	code, err := sandbox{args: []string{asDoctor}, env: os.Environ(), stdout: &out, stderr: &complaint}.run(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("the trial ended with code %d: %s", code, &complaint)
	}
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &found)
	}
	if err == nil {
		return append([]Capability{{Name: canNamespaces, OK: true, Detail: "a sandbox was made and left"}}, found...)
	}
	none := verdict(canNamespaces, "", err)
	if ctx.Err() != nil {
		none = untold(none)
	}
	found = []Capability{none}
	for _, name := range []string{canNetwork, canDrop, canFill, canFuse} {
		found = append(found, Capability{Name: name, Detail: "not tried without namespaces", Fix: none.Fix, Untold: none.Untold})
	}
	return found
}

// beDoctor is the part inside the sandbox: a lab of two machines does what it must be able to do.
func beDoctor() int {
	if !Inside() {
		fmt.Fprintf(os.Stderr, "refused to try namespaces outside a sandbox: run 'ringproof doctor'\n")
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	found := append(tryLab(ctx), verdict(canFuse, "a fuse filesystem was mounted", tryFuse()))
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		return 1
	}
	return 0
}

func verdict(name, detail string, err error) Capability {
	if err == nil {
		return Capability{Name: name, OK: true, Detail: detail}
	}
	c := Capability{Name: name, Detail: err.Error(), Fix: fixes[name]}
	if late(err) {
		return untold(c)
	}
	return c
}

// late reports whether err says only that something took too long: a host that is busy lacks nothing.
func late(err error) bool {
	var slow interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout()
}

func untold(c Capability) Capability {
	c.Untold, c.Fix = true, "nothing is known of it, as it took too long: try again when the host is less busy"
	return c
}

func tryLab(ctx context.Context) []Capability {
	l, err := NewLab(ctx, Options{VolumeBytes: 1 << 20})
	var m, peer *Machine
	if err == nil {
		defer l.Close()
		m, err = l.Add(ctx, "one")
	}
	if err == nil {
		peer, err = l.Add(ctx, "two")
	}
	if err != nil {
		return []Capability{
			verdict(canNetwork, "", err),
			verdict(canDrop, "", fmt.Errorf("not tried without a network: %w", err)),
			verdict(canFill, "", fmt.Errorf("not tried without a network: %w", err)),
		}
	}
	err = m.dialsNobody(ctx, peer.addr, time.Minute)
	dropped, dropErr := m.Block(Traffic{}, peer.addr)
	full, fullErr := m.FillVolume()
	return []Capability{
		verdict(canNetwork, fmt.Sprintf("%v answers over the bridge", peer.addr), err),
		verdict(canDrop, dropped.Detail, dropErr),
		verdict(canFill, full.Detail, fullErr),
	}
}

// tryFuse mounts a filesystem that nobody serves: the kernel takes it, and nothing looks inside.
func tryFuse() error {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening /dev/fuse: %w", err)
	}
	defer unix.Close(fd)
	dir, err := os.MkdirTemp(private, "fuse-")
	if err != nil {
		return err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("ringproof", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mounting a fuse filesystem: %w", err)
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}

func tryDocker(ctx context.Context) Capability {
	c := Capability{Name: "docker", Fix: "start Docker, or point DOCKER_HOST at it; only the kind world needs it"}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "version", "--format", "server {{.Server.Version}}").CombinedOutput()
	c.OK, c.Detail = told(out, err)
	if ctx.Err() != nil {
		return untold(c)
	}
	return c
}

func tryGo(ctx context.Context) Capability {
	c := Capability{Name: "go", Fix: "install Go from https://go.dev/dl; only building etcd needs it"}
	out, err := exec.CommandContext(ctx, "go", "version").CombinedOutput()
	c.OK, c.Detail = told(out, err)
	return c
}

// told is the last line a command said, which is where commands complain.
func told(out []byte, err error) (ok bool, detail string) {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	detail = lines[len(lines)-1]
	if err != nil {
		return false, strings.TrimSpace(fmt.Sprintf("%v: %s", err, detail))
	}
	return true, detail
}

const gib = 1 << 30

func tryMemory() Capability {
	c := Capability{Name: "memory", Fix: "free some memory, or make volumes smaller: they live in it"}
	var unit, free uint64
	text, err := os.ReadFile("/proc/meminfo")
	if err == nil {
		_, after, _ := strings.Cut(string(text), "MemAvailable:")
		unit, err = 1024, second(fmt.Sscan(after, &free))
	}
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	c.OK, c.Detail = free*unit >= 2*gib, fmt.Sprintf("%.1f GiB available, 2 wanted", float64(free*unit)/gib)
	return c
}

func second(_ int, err error) error { return err }

func tryDisk() Capability {
	c := Capability{Name: "disk", Fix: "free some space, or set XDG_CACHE_HOME to where there is: built etcd releases are kept there"}
	cache, err := os.UserCacheDir()
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	// The cache may not exist yet: then the folder above tells.
	for errors.Is(syscall.Access(cache, 0), syscall.ENOENT) && cache != "/" {
		cache = filepath.Dir(cache)
	}
	free := available(cache)
	c.OK, c.Detail = free >= 2*gib, fmt.Sprintf("%.1f GiB free for the cache, 2 wanted", float64(free)/gib)
	return c
}
