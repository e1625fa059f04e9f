// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// hunger tells a process that is stuck from one that the host lets wait: neither becomes
// idle for long, but one of them has not had the processor that it asks for.
type hunger struct {
	pid      int
	patience time.Duration
	had      time.Duration // of processors, when it was first asked about
	asked    bool
}

// starved reports whether the process wants to run and has had less of a processor than its
// patience since it was first found busy.
func (h *hunger) starved() bool {
	had, err := processorTime(h.pid)
	if err != nil || !wantsToRun(h.pid) {
		return false
	}
	if !h.asked {
		h.asked, h.had = true, had
		return true
	}
	return had-h.had < h.patience
}

// fed forgets what was asked: the process has become idle.
func (h *hunger) fed() { h.asked = false }

// wantsToRun reports whether a thread of the process runs, waits for a processor, or for a disk.
func wantsToRun(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, task := range tasks {
		if fields, err := statOf(task); err == nil && bytes.ContainsAny(fields[0], "RD") {
			return true
		}
	}
	return false
}

// tick is the unit of times in /proc: USER_HZ, which is 100 on every Linux of Go's.
const tick = 10 * time.Millisecond

// processorTime is how long a process has run, by proc_pid_stat(5).
func processorTime(pid int) (time.Duration, error) {
	fields, err := statOf(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// statOf are the fields of such a file from the state on, which follows the name.
func statOf(file string) ([][]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return nil, fmt.Errorf("%s has %d fields after the name, not 13 or more", file, len(fields))
	}
	return fields, nil
}
