// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package keeper

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pause is what keeps a pod's namespaces.
const pause = "pause"

// life names a process for good: a pid alone is used again.
type life struct {
	pid   int
	since string // in ticks since boot
}

// list lists what runs.
func (k *Keeper) list() (all []Process) {
	k.listing.Lock()
	defer k.listing.Unlock()
	entries, _ := os.ReadDir("/proc")
	living := map[life]Process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		state, since, err := vital(pid)
		if err != nil || state == "Z" || state == "X" {
			continue
		}
		l := life{pid, since}
		p, known := k.known[l]
		if !known || p.Exe == "" {
			p = describe(pid)
		}
		// A child has its parent's program until it has its own.
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && exe != p.Exe {
			p = describe(pid)
		}
		living[l] = p
		p.PID, p.State = pid, state
		all = append(all, p)
	}
	k.known, k.serving = living, serving(all)
	return all
}

// serving are the pids of those that a ring rests on: etcds, a ring's and the cluster's own,
// what runs in a pod with one, its launcher, and who speaks to it for Kubernetes.
func serving(all []Process) (pids []string) {
	is := func(p Process, names ...string) bool { return slices.Contains(names, filepath.Base(p.Exe)) }
	for _, p := range all {
		with := p.Pod != "" && slices.ContainsFunc(all, func(o Process) bool { return o.Pod == p.Pod && is(o, "etcd") })
		if p.First && with || is(p, "etcd", "ringadm", "kube-apiserver") {
			pids = append(pids, strconv.Itoa(p.PID))
		}
	}
	return pids
}

// vital is what changes of a process, or tells it from others.
func vital(pid int) (state, since string, err error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", err
	}
	// The name stands in brackets and may hold anything, brackets too.
	f := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(f) < 20 {
		return "", "", fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(f))
	}
	return f[0], f[19], nil
}

// inPod finds the uid of its pod in the name of a process's control group.
var inPod = regexp.MustCompile(`pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})`)

func describe(pid int) (p Process) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	p.Exe, _ = os.Readlink(dir + "exe") // a thread of the kernel has none
	line, _ := os.ReadFile(dir + "cmdline")
	p.Args = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	group, _ := os.ReadFile(dir + "cgroup")
	if found := inPod.FindSubmatch(group); found != nil {
		p.Pod = strings.ReplaceAll(string(found[1]), "_", "-")
	}
	p.First = p.Pod != "" && first(dir) && filepath.Base(p.Exe) != pause
	if filepath.Base(p.Exe) == "etcd" {
		p.Digest = digest(dir + "exe")
	}
	return p
}

// first reports whether the process is the first of its container's.
func first(dir string) bool {
	text, _ := os.ReadFile(dir + "status")
	_, rest, found := strings.Cut(string(text), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	f := strings.Fields(line)
	return found && len(f) > 1 && f[len(f)-1] == "1"
}

func digest(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}
