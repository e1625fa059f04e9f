// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/vishvananda/netlink"
)

// Lab is a set of machines on one network. The run, where clients live, is on it too, at Gateway.
type Lab struct {
	opts Options
	// limits is nil in a sandbox; else it says why this lab can do less.
	limits error
	bridge *netlink.Bridge
	subnet netip.Prefix
	// volumes is where the run sees the volumes.
	volumes string
	shared  string
	names   Names
	// trace is what Clean goes by, in the fallback only.
	trace *trace

	mu       sync.Mutex
	machines map[string]*Machine
	added    int
}

// DefaultVolume is the size of a volume that nobody gave one, in bytes.
const DefaultVolume = 512 << 20

// NewLab makes an empty lab: a bridge in the sandbox, or the fallback when not inside one.
func NewLab(ctx context.Context, opts Options) (*Lab, error) {
	if opts.VolumeBytes == 0 {
		opts.VolumeBytes = DefaultVolume
	}
	l := &Lab{opts: opts, machines: map[string]*Machine{}, limits: limits()}
	err := l.settleWorkDir()
	if err != nil {
		return nil, err
	}
	if l.limits != nil {
		err = l.openFallback()
	} else {
		err = l.open()
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, ctx.Err()
}

// settleWorkDir makes the path one that means the same everywhere, in /proc too.
func (l *Lab) settleWorkDir() (err error) {
	if l.opts.WorkDir == "" {
		return nil
	}
	if err := os.MkdirAll(l.opts.WorkDir, 0o755); err != nil {
		return fmt.Errorf("making the work directory: %w", err)
	}
	if l.opts.WorkDir, err = filepath.Abs(l.opts.WorkDir); err == nil {
		l.opts.WorkDir, err = filepath.EvalSymlinks(l.opts.WorkDir)
	}
	return err
}

func limits() error {
	if os.Getenv(withoutNamespaces) == "1" {
		return unsupported("network blocks and full volumes need namespaces, which %s=1 switches off: unset it", withoutNamespaces)
	}
	if !Inside() {
		return unsupported("network blocks and full volumes need namespaces, and this process is not in a sandbox: run 'ringproof doctor' to see why")
	}
	return nil
}

func (l *Lab) open() (err error) {
	if l.volumes, err = os.MkdirTemp(private, "volumes-"); err != nil {
		return fmt.Errorf("making a place for volumes: %w", err)
	}
	if l.shared, err = os.MkdirTemp(private, "shared-"); err != nil {
		return fmt.Errorf("making a place for what machines share: %w", err)
	}
	if l.opts.WorkDir == "" {
		// Its own: two labs of one sandbox have machines of the same names.
		if l.opts.WorkDir, err = os.MkdirTemp(private, "machines-"); err != nil {
			return fmt.Errorf("making a place for mount points: %w", err)
		}
	}
	l.names.File, l.names.Domain = filepath.Join(l.shared, hostsFile), l.opts.Domain
	l.bridge, l.subnet, err = addBridge()
	return err
}

// hostsFile is what machines have as /etc/hosts in a lab with a domain, in its shared directory.
const hostsFile = ".hosts"

// Resolve has every machine resolve the name of one to the address from now on; see [Names.Set].
func (l *Lab) Resolve(name string, to netip.Addr) error { return l.names.Set(name, to) }

func (l *Lab) openFallback() (err error) {
	if l.opts.Domain != "" {
		return fmt.Errorf("names in %s: %w", l.opts.Domain, l.limits)
	}
	// What earlier runs left may hold our addresses; what cannot be cleaned is no reason not to run.
	_, _ = Clean()
	if l.trace, err = newTrace(); err != nil {
		return err
	}
	if l.opts.WorkDir == "" {
		l.opts.WorkDir = filepath.Join(l.trace.dir, "machines")
	}
	l.volumes = l.opts.WorkDir
	if l.shared, err = os.MkdirTemp(l.trace.dir, "shared-"); err != nil {
		return fmt.Errorf("making a place for what machines share: %w", err)
	}
	l.subnet, err = l.trace.claimSubnet()
	return err
}

// Limits is nil when machines are real namespaces. Else it wraps errors.ErrUnsupported and says what is
// missing and why: blocks and full volumes are refused with it.
func (l *Lab) Limits() error { return l.limits }

// Shared is a directory that the run and every machine see at the same path, as they would a network
// filesystem. It is in memory and goes with the lab.
func (l *Lab) Shared() string { return l.shared }

// Gateway is the run's own address on the network, in the fallback 127.0.0.1.
func (l *Lab) Gateway() netip.Addr {
	if l.limits != nil {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return l.subnet.Addr().Next()
}

// address is that of the nth machine, counted from 1.
func (l *Lab) address(n int) netip.Addr {
	a := l.subnet.Addr().As4()
	a[3] = byte(10 + n)
	return netip.AddrFrom4(a)
}

var machineName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Add makes a machine with an empty volume, and powers it on. Addresses are given out once: a machine
// added after another was destroyed, of the same name too, is a new one.
func (l *Lab) Add(ctx context.Context, name string) (*Machine, error) {
	m, err := l.register(name)
	if err != nil {
		return nil, err
	}
	if err = errors.Join(l.Resolve(m.name, m.addr), m.furnish()); err == nil {
		_, err = m.PowerOn(ctx)
	}
	if err != nil {
		_, gone := m.Destroy()
		return nil, errors.Join(fmt.Errorf("adding machine %s: %w", name, err), gone)
	}
	return m, nil
}

func (l *Lab) register(name string) (*Machine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !machineName.MatchString(name) {
		return nil, fmt.Errorf("refused to add machine %q: use lower case letters, digits and dashes", name)
	}
	if l.machines[name] != nil {
		return nil, fmt.Errorf("refused to add machine %s: there is one; destroy it first", name)
	}
	if l.added == 240 {
		return nil, fmt.Errorf("refused to add machine %s: all 240 addresses were given out; make a new lab", name)
	}
	l.added++
	m := newMachine(l, name, l.added)
	l.machines[name] = m
	return m, nil
}

func (l *Lab) all() []*Machine {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ms []*Machine
	for _, m := range l.machines {
		ms = append(ms, m)
	}
	return ms
}

// at finds the machine of an address.
func (l *Lab) at(a netip.Addr) *Machine {
	for _, m := range l.all() {
		if m.addr == a {
			return m
		}
	}
	return nil
}

// Close destroys every machine, and the network.
func (l *Lab) Close() error {
	var failed []error
	for _, m := range l.all() {
		_, err := m.Destroy()
		failed = append(failed, err)
	}
	if l.bridge != nil {
		failed = append(failed, netlink.LinkDel(l.bridge))
		l.bridge = nil
	}
	if l.limits == nil && l.volumes != "" {
		_ = os.Remove(l.volumes)
	}
	if l.shared != "" {
		failed = append(failed, os.RemoveAll(l.shared))
	}
	if l.trace != nil {
		failed = append(failed, l.trace.close())
	}
	return errors.Join(failed...)
}
