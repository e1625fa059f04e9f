// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Command go-launcher keeps etcd running on one machine of a ring, the list of whose machines
// is fixed. It adds, removes and replaces nobody. With -begin-anew it makes a mistake.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var (
	name      = flag.String("name", "", "this machine")
	address   = flag.String("address", "", "its address")
	data      = flag.String("data", "", "its data filesystem")
	run       = flag.String("run", "", "a directory that outlives that")
	etcd      = flag.String("etcd", "", "etcd's program")
	founders  = flag.String("founders", "", "the machines of the ring, between commas")
	initial   = flag.String("initial-cluster", "", "the same, as etcd takes them")
	token     = flag.String("token", "", "the ring's token")
	scheme    = flag.String("scheme", "http", "http or https")
	certs     = flag.String("certificates", "", "the directory of those, with https")
	beginAnew = flag.Bool("begin-anew", false, "take the log of an etcd that ended badly for broken, and begin with none: a mistake, as the others count on what this member has promised them")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if !slices.Contains(strings.Split(*founders, ","), *name) {
		<-ctx.Done() // a spare machine
		return
	}
	if err := keep(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "go-launcher:", err)
		os.Exit(1)
	}
}

// keep has etcd run until it is told to end.
func keep(ctx context.Context) error {
	said := false
	for ctx.Err() == nil {
		switch {
		case logged() && !founded():
			if err := os.WriteFile(mark(), nil, 0o600); err != nil {
				return err
			}
		case running() != 0: // it outlived the launcher before this one, or came to life
		case logged() || !founded() || *beginAnew:
			fmt.Println("starting etcd")
			if err := start(); err != nil {
				fmt.Println("etcd can't be started:", err)
			}
		case !said:
			fmt.Println("halted: the log of", *name, "is gone; a person must remove the member and add it anew")
			said = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return end()
}

// logged reports whether there is a log on the disk.
func logged() bool {
	found, err := filepath.Glob(filepath.Join(*data, "etcd", "member", "wal", "*.wal"))
	return err == nil && len(found) > 0
}

// mark is the file that tells of a member that had a log: a disk without one has lost it.
func mark() string { return filepath.Join(*run, "founded") }

func founded() bool {
	_, err := os.Stat(mark())
	return !errors.Is(err, fs.ErrNotExist)
}

// start starts etcd, and notes its pid.
func start() error {
	state := "new"
	if *beginAnew && founded() {
		state = "existing"
	}
	cmd := exec.Command(*etcd, slices.Concat(flag.Args(), flags(state))...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		if err := cmd.Wait(); err != nil && *beginAnew {
			_ = os.RemoveAll(filepath.Join(*data, "etcd"))
		}
	}()
	return os.WriteFile(filepath.Join(*run, "pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
}

// flags are etcd's.
func flags(state string) []string {
	url := func(host, port string) string { return *scheme + "://" + host + ":" + port }
	listen := *address
	if _, err := netip.ParseAddr(listen); err != nil { // etcd listens at no name
		listen = "0.0.0.0"
	}
	all := []string{"--name", *name, "--data-dir", filepath.Join(*data, "etcd"),
		"--initial-cluster", *initial, "--initial-cluster-token", *token, "--initial-cluster-state", state,
		"--listen-peer-urls", url(listen, "2380"), "--initial-advertise-peer-urls", url(*address, "2380"),
		"--listen-client-urls", url(listen, "2379"), "--advertise-client-urls", url(*address, "2379")}
	if *scheme == "https" {
		clients, peers := filepath.Join(*certs, "clients"), filepath.Join(*certs, "peers")
		all = append(all, "--client-cert-auth", "--trusted-ca-file", clients+"/ca.crt", "--cert-file", clients+"/server.crt", "--key-file", clients+"/server.key",
			"--peer-client-cert-auth", "--peer-trusted-ca-file", peers+"/ca.crt", "--peer-cert-file", peers+"/peer.crt", "--peer-key-file", peers+"/peer.key")
	}
	return all
}

// running is the pid of the machine's etcd; 0: none runs.
func running() int {
	text, err := os.ReadFile(filepath.Join(*run, "pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return 0
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.HasPrefix(string(line), *etcd+"\x00") {
		return 0
	}
	return pid
}

// end has etcd end too.
func end() error {
	pid := running()
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	for running() != 0 {
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}
