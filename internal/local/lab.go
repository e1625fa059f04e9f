// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ringproof/ringproof/internal/local/machines"
)

// Lab is a set of machines on one network, and what the run and all of them share: in
// namespaces of this host, which [machines.Lab] makes, or wherever real processes run.
type Lab interface {
	Add(ctx context.Context, name string) (Host, error)
	Shared() string      // a directory that the run and every machine see at the same path
	Gateway() netip.Addr // the run's own address
	// Resolve has every machine resolve the name of one to the address from now on; the zero
	// Addr: to nothing.
	Resolve(name string, to netip.Addr) error
	// Left are the processes of ours that run on, by program and pid, once the lab is
	// closed: those whose command line has one of these paths.
	Left(ours []string) []string
	Close() error
}

// Switchboard is a lab that sees what goes between its machines.
type Switchboard interface {
	Heard() ([]Heard, error)
}

// Apart is a lab whose processes this host doesn't see, or under other numbers: those in
// containers. It tells itself how long they wait for a processor.
type Apart interface {
	Waits(tell func(lost time.Duration))
}

// Heard is when somebody at an address has last spoken to a port, in plain text and by TLS;
// the zero Time: never.
type Heard struct {
	From       netip.Addr
	To         netip.AddrPort
	Plain, TLS time.Time
}

// Host is a machine of a lab. Whatever injects a fault returns evidence that it landed. See
// [machines.Machine], which is one, for what each method promises.
type Host interface {
	Addr() netip.Addr
	DataDir() string  // its volume, as programs on it see it
	DataRoot() string // and as the run does
	On() bool

	Start(context.Context, machines.Command) error
	Wait(ctx context.Context, tag string) (machines.Exit, error)
	Processes() ([]machines.Process, error)
	Environ(machines.Process) ([]string, error)
	Signal(tag string, sig syscall.Signal) (machines.Evidence, error)
	SignalAny(which string, sig syscall.Signal, hit func(machines.Process) bool) (machines.Evidence, error)
	SignalExe(program string, sig syscall.Signal) (machines.Evidence, error)
	Freeze() (machines.Evidence, error)
	Thaw() (machines.Evidence, error)

	PowerOff() (machines.Evidence, error)
	PowerOn(context.Context) (machines.Evidence, error)
	Destroy() (machines.Evidence, error)

	SwapVolume(ctx context.Context, directories ...string) (machines.Evidence, error)
	LoseDirectory(string) (machines.Evidence, error)
	Unmount(context.Context) (machines.Evidence, error)
	Mount(context.Context) error
	FillVolume() (machines.Evidence, error)
	FreeVolume() (machines.Evidence, error)

	Block(t machines.Traffic, from ...netip.Addr) (machines.Evidence, error)
	Unblock(context.Context) (machines.Evidence, error)
	Lose(percent int) (machines.Evidence, error) // of 100 packets from and to the other machines, so many
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

var _ Host = (*machines.Machine)(nil)

// Slotted is a host on which a member has names of its own, that go with it to another:
// a pod's.
type Slotted interface {
	// Slot is what the member's pod is called, and its DNS name; here: it is on the host
	// now, and not only the last that was.
	Slot() (name, host string, here bool)
}

// Limited is a host that is a model, and knows what the subject asked for that it has not.
type Limited interface{ Lacks() []string }

// Reached is a host whose members' addresses the run can't reach but by it.
type Reached interface {
	Reach(ctx context.Context, address string) (net.Conn, error)
}

// bent is a host whose clock and network are the lab's to bend. One whose time is real has
// its host's.
type bent interface {
	Skew(by time.Duration) (machines.Evidence, error) // the wall clock jumps
	SlowDisk(by time.Duration) (machines.Evidence, error)
	Slow(by time.Duration) (machines.Evidence, error)         // packets take longer from now on, or less long
	Mute(percent int, port uint16) (machines.Evidence, error) // of 100 replies to who dials that port there, or from there, so many are lost
	Suspend() (machines.Evidence, error)                      // nothing runs there any more, and its monotonic clock stands still
	Wake() (machines.Evidence, error)                         // it goes on where it stood
}

// OnThisHost makes a lab of namespaces.
func OnThisHost(ctx context.Context, o machines.Options) (Lab, error) {
	lab, err := machines.NewLab(ctx, o)
	if err != nil {
		return nil, err
	}
	return namespaces{lab}, nil
}

type namespaces struct{ *machines.Lab }

func (n namespaces) Add(ctx context.Context, name string) (Host, error) {
	m, err := n.Lab.Add(ctx, name)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Left looks at every process that there is.
func (namespaces) Left(ours []string) (left []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err == nil && slices.ContainsFunc(ours, func(path string) bool { return strings.Contains(string(text), path) }) {
			name, _, _ := strings.Cut(string(text), "\x00")
			left = append(left, filepath.Base(name)+" "+filepath.Base(filepath.Dir(file)))
		}
	}
	return left
}
