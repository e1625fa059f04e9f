// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package cli is ringadm's command line. It wires and prints; what it does is
// in auto and admin. It is a package so that a harness can run the very same
// program with its seams decorated.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// Seams are what a harness may put itself between. The zero value is the
// reference as it ships.
type Seams struct {
	Brain func(host.Host, auto.Brain) auto.Brain
	Host  func(host.Host) host.Host
	Store func(host.Host, store.Store) store.Store
	Kube  func(host.Host, client.Client) client.Client // of the controller
}

// Main runs the command line and returns the exit code: 0 done, 1 failed, 2 a
// mistake in the command line.
func Main(args []string, s Seams) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	root := Command(s)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(root.ErrOrStderr(), "ringadm: "+err.Error())
	var usage usageError
	if errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command") {
		return 2
	}
	return 1
}

// usageError is a mistake in the command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// Command returns the tree of commands.
func Command(s Seams) *cobra.Command {
	root := &cobra.Command{
		Use:           "ringadm",
		Short:         "ringadm creates, grows, shrinks and repairs etcd rings, by hand or by itself",
		SilenceUsage:  true,
		SilenceErrors: true,
		Long: `ringadm creates, grows, shrinks and repairs etcd rings.

By itself, without Kubernetes: make a store that every machine mounts, and run
an agent on each machine.

  ringadm init file:///mnt/ring version=v3.6.16 nodes=3
  ringadm auto file:///mnt/ring --address 10.0.0.1

On Kubernetes: ringadm controller makes pods of each EtcdRing, and ringadm launch is
what runs in them.

By hand: each change that the automation makes is also a command, and the
automation logs that command.`,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	root.AddCommand(initCommand(), renamed("seed", initCommand()), adoptCommand(), specCommand(), autoCommand(s), infoCommand(), memberCommand(), isRunningCommand(), snapshotCommand(), defragCommand(), advanceLogCommand(), certsCommand(), resetCommand(), initDiskCommand(), launchCommand(s), probeCommand(), controllerCommand(s))
	return root
}

func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s takes %s; see %s --help", c.CommandPath(), what, c.CommandPath())}
		}
		return nil
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < n {
			return usageError{fmt.Errorf("%s takes %s; see %s --help", c.CommandPath(), what, c.CommandPath())}
		}
		return nil
	}
}

// autoFlags are the flags of ringadm auto.
type autoFlags struct {
	machine, address, data, run, etcd string
	binaries                          []string
	dryRun, once, noMount             bool
}

func autoCommand(s Seams) *cobra.Command {
	var f autoFlags
	name, _ := os.Hostname()
	c := &cobra.Command{
		Use:   "auto STORE",
		Short: "run this machine's part of the ring, until it is interrupted",
		Long: `auto runs this machine's part of the ring: it meets the other machines in the
store, runs one etcd, and, on the machine that leads, brings the ring to what
the spec asks for, one change at a time.

--data is a filesystem of its own. A directory on which none is mounted is taken
for a disk only after ringadm init-disk, so that a filesystem that is mounted late
is waited for.

The log is JSON, a line for each thing that happened, on standard output. An
agent that is killed leaves its etcd running, and takes it over when it comes
back; one that is interrupted hands leadership over and stops etcd.`,
		Args: exactly(1, "the store's address"),
		RunE: func(c *cobra.Command, args []string) error {
			return runAuto(c.Context(), c.OutOrStdout(), args[0], f, s)
		},
	}
	c.Flags().StringVar(&f.machine, "machine", strings.ToLower(name), "name of this machine, unique in the ring")
	c.Flags().StringVar(&f.address, "address", "", "IP address or host name that the other machines reach (required)")
	c.Flags().StringVar(&f.data, "data", defaultData, "the data filesystem of this machine")
	c.Flags().BoolVar(&f.noMount, "no-mount", false, "--data needs no filesystem of its own: an empty directory is a new disk, also where one should be mounted and isn't")
	c.Flags().StringVar(&f.run, "run", "/run/ringadm", "directory for the pid file and etcd's output")
	c.Flags().StringVar(&f.etcd, "etcd-dir", "/opt/etcd", "directory that holds VERSION/etcd for each release")
	c.Flags().StringArrayVar(&f.binaries, "etcd", nil, "VERSION=PATH of one etcd binary, instead of --etcd-dir; repeatable")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say which command would be run next, and run none; beside the machine's agent, too")
	c.Flags().BoolVar(&f.once, "once", false, "with --dry-run: end when nothing new is to be said")
	return c
}

// tellInherited says which variables an operator has set in vain.
func tellInherited(h host.Host) {
	if names := host.Inherited(); len(names) > 0 {
		h.Log(host.Line{Event: host.EventTrouble, Text: strings.Join(names, ", ") + ": in the environment of this agent, and given to no etcd; what etcd is to have belongs in the spec: ringadm spec STORE flag.NAME=VALUE"})
	}
}

func runAuto(ctx context.Context, out io.Writer, address string, f autoFlags, s Seams) error {
	if f.once && !f.dryRun {
		return usageError{errors.New("--once is for a dry run: add --dry-run, or leave it out")}
	}
	if f.address == "" {
		return usageError{errors.New("--address is missing: the address at which other machines reach this one")}
	}
	// Said now: a machine that can't register waits for ever.
	if err := (store.Machine{Name: f.machine, Address: f.address, Disk: "any"}).Validate(); err != nil {
		return usageError{err}
	}
	binaries, err := findBinaries(f)
	if err != nil {
		return err
	}
	real := host.NewReal(f.machine, f.data, f.run, out)
	real.Plain = f.noMount
	opened, err := openFor(ctx, real, address)
	if err != nil {
		return err
	}
	defer opened.Close()
	if !f.dryRun {
		if err := real.Lock(); err != nil {
			return err
		}
	}
	tellInherited(real)
	var h host.Host = real
	if s.Host != nil {
		h = s.Host(h)
	}
	var st store.Store = opened
	if s.Store != nil {
		st = s.Store(h, st)
	}
	brain := auto.Reference()
	if s.Brain != nil {
		brain = s.Brain(h, brain)
	}
	agent := auto.New(h, st, auto.Config{Machine: f.machine, Address: f.address, Binaries: binaries, DryRun: f.dryRun, Brain: brain})
	if f.once {
		return agent.Once(ctx)
	}
	return agent.Run(ctx, launcher.StopWithin)
}

// openFor opens the store for an agent. Where the disk remembers a ring it can be away: all
// machines are started after a power loss, and the one that exports the store comes last, or
// is one of them; who waited for it would leave the ring down for that long.
func openFor(ctx context.Context, h host.Host, address string) (store.Blob, error) {
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	opened, err := store.Open(asking, address)
	if err == nil || launcher.ClusterID(h.Disk().Read) == 0 {
		return opened, err
	}
	later, refused := store.Later(address)
	if refused == nil {
		h.Log(host.Line{Event: host.EventTrouble, Text: err.Error() + "; this machine goes on by what its disk remembers until it is there"})
	}
	return later, refused
}

// findBinaries returns the path of each release of etcd on this machine.
func findBinaries(f autoFlags) (map[ring.Version]string, error) {
	found := map[ring.Version]string{}
	for _, pair := range f.binaries {
		text, path, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("--etcd %q: write VERSION=PATH, as in v3.6.16=/opt/etcd/v3.6.16/etcd", pair)}
		}
		version, err := ring.ParseVersion(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--etcd %q: %w", pair, err)}
		}
		found[version] = path
	}
	if len(found) == 0 {
		paths, _ := filepath.Glob(filepath.Join(f.etcd, "v*", "etcd"))
		for _, path := range paths {
			// What is no release, such as v3.7.0-rc.0, no ring is asked to run.
			if version, err := ring.ParseVersion(filepath.Base(filepath.Dir(path))); err == nil {
				found[version] = path
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no etcd in %s: put binaries at %s, or name them with --etcd VERSION=PATH", f.etcd, filepath.Join(f.etcd, "v3.6.16", "etcd"))
	}
	for version, path := range found {
		if stat, err := os.Stat(path); err != nil || !stat.Mode().IsRegular() || stat.Mode()&0o111 == 0 {
			return nil, fmt.Errorf("etcd %s: %s is not an executable file", version, path)
		}
	}
	return found, nil
}
