// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build !linux

package machines

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"syscall"
)

// Lab and Machine exist on Linux only. Elsewhere the package compiles, so that the other worlds run, and
// every way in is refused.
type (
	Lab     struct{}
	Machine struct{}
)

var errElsewhere = unsupported("machines need Linux, and this is %s: use the sim world, or run in a Linux VM", runtime.GOOS)

// Enter is never asked for anything here.
func Enter() (entered bool, code int) { return false, 0 }

// Inside is always false here.
func Inside() bool { return false }

// Sandbox is refused.
func Sandbox(context.Context, []string, []string) (code int, err error) { return 0, errElsewhere }

// NewLab is refused.
func NewLab(context.Context, Options) (*Lab, error) { return nil, errElsewhere }

// Clean finds nothing: there never was a lab.
func Clean() (removed []string, err error) { return nil, nil }

// Doctor has one answer.
func Doctor() []Capability {
	return []Capability{{Name: "namespaces", Detail: fmt.Sprintf("this is %s", runtime.GOOS), Fix: "run the local world on Linux"}}
}

func (*Lab) Limits() error                                 { return errElsewhere }
func (*Lab) Shared() string                                { return "" }
func (*Lab) Gateway() netip.Addr                           { return netip.Addr{} }
func (*Lab) Add(context.Context, string) (*Machine, error) { return nil, errElsewhere }
func (*Lab) Resolve(string, netip.Addr) error              { return errElsewhere }
func (*Lab) Close() error                                  { return nil }

func (*Machine) Name() string                                       { return "" }
func (*Machine) Addr() netip.Addr                                   { return netip.Addr{} }
func (*Machine) DataDir() string                                    { return "" }
func (*Machine) DataRoot() string                                   { return "" }
func (*Machine) On() bool                                           { return false }
func (*Machine) PowerOn(context.Context) (Evidence, error)          { return Evidence{}, errElsewhere }
func (*Machine) PowerOff() (Evidence, error)                        { return Evidence{}, errElsewhere }
func (*Machine) Destroy() (Evidence, error)                         { return Evidence{}, errElsewhere }
func (*Machine) Start(context.Context, Command) error               { return errElsewhere }
func (*Machine) Wait(context.Context, string) (Exit, error)         { return Exit{}, errElsewhere }
func (*Machine) Processes() ([]Process, error)                      { return nil, errElsewhere }
func (*Machine) Signal(string, syscall.Signal) (Evidence, error)    { return Evidence{}, errElsewhere }
func (*Machine) SignalExe(string, syscall.Signal) (Evidence, error) { return Evidence{}, errElsewhere }
func (*Machine) SignalAny(string, syscall.Signal, func(Process) bool) (Evidence, error) {
	return Evidence{}, errElsewhere
}
func (*Machine) SignalAll(syscall.Signal) (Evidence, error) { return Evidence{}, errElsewhere }
func (*Machine) Freeze() (Evidence, error)                  { return Evidence{}, errElsewhere }
func (*Machine) Thaw() (Evidence, error)                    { return Evidence{}, errElsewhere }
func (*Machine) SwapVolume(context.Context, ...string) (Evidence, error) {
	return Evidence{}, errElsewhere
}
func (*Machine) LoseDirectory(string) (Evidence, error)         { return Evidence{}, errElsewhere }
func (*Machine) Environ(Process) ([]string, error)              { return nil, errElsewhere }
func (*Machine) Unmount(context.Context) (Evidence, error)      { return Evidence{}, errElsewhere }
func (*Machine) Mount(context.Context) error                    { return errElsewhere }
func (*Machine) FillVolume() (Evidence, error)                  { return Evidence{}, errElsewhere }
func (*Machine) FreeVolume() (Evidence, error)                  { return Evidence{}, errElsewhere }
func (*Machine) Block(Traffic, ...netip.Addr) (Evidence, error) { return Evidence{}, errElsewhere }
func (*Machine) BlockTo(...netip.Addr) (Evidence, error)        { return Evidence{}, errElsewhere }
func (*Machine) Unblock(context.Context) (Evidence, error)      { return Evidence{}, errElsewhere }
func (*Machine) Drops() (uint64, error)                         { return 0, errElsewhere }
func (*Machine) Lose(int) (Evidence, error)                     { return Evidence{}, errElsewhere }
func (*Machine) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, errElsewhere
}
