// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package sched tells how much of itself a host keeps from processes. One that is ready and
// waits for a processor is in the kernel's account of it ([Waits]); one that waits for
// something else isn't, and of that only the disk may be the host's doing ([Disk]).
package sched

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	Beat   = 500 * time.Millisecond // between two looks at what the host gives
	Little = Beat / 10              // that a process may wait in one beat on any host
)

// Waits is the account of some processes. The zero value is ready.
type Waits struct {
	waited map[string]uint64 // thread → nanoseconds that it was ready and waited, by its schedstat
}

// Lost is how long the one thread of the processes, by pid or "self", has waited since it was
// asked last that waited longest: a ring is as slow as the slowest of those who serve it.
// Threads wait at the same time, so their sum is no time at all: ten that waited a tenth each
// would excuse an outage that the host has little to do with. A thread that wasn't there
// before counts from its start; what was before the first question isn't counted.
func (w *Waits) Lost(processes []string) (most time.Duration) {
	before := w.waited
	w.waited = map[string]uint64{}
	for _, process := range processes {
		threads, _ := filepath.Glob("/proc/" + process + "/task/*/schedstat")
		for _, thread := range threads {
			if n, ok := RunDelay(thread); ok {
				w.waited[thread] = n
				most = max(most, time.Duration(n-min(before[thread], n)))
			}
		}
	}
	if before == nil {
		return 0
	}
	return most
}

// RunDelay is the second of the three numbers of a schedstat. A kernel without them tells
// nothing.
func RunDelay(file string) (nanoseconds uint64, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(text))
	if len(fields) != 3 {
		return 0, false
	}
	n, err := strconv.ParseUint(fields[1], 10, 64)
	return n, err == nil
}
