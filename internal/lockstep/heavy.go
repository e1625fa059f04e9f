// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const weighed = 100 * time.Millisecond // between two looks at a process's memory, in real time

// weigh ends a process that takes more memory than a world gives it, and returns who stops that. A
// loop in which no time passes allocates until the host ends whomever it likes: an etcd had
// twenty gigabytes within its patience of a processor.
func (p *process) weigh(most int64) (stop func()) {
	over := make(chan struct{})
	go func() {
		for look := time.NewTicker(weighed); ; {
			select {
			case <-over:
				look.Stop()
				return
			case <-look.C:
			}
			switch has := memory(p.cmd.Process.Pid); {
			case has > 2*most: // it is too busy for the signal
				_ = p.cmd.Process.Kill()
			case has > most && !p.heavy.Swap(true):
				_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it prints its goroutines
			}
		}
	}()
	return func() { close(over) }
}

// tooHeavy is the error of a world in which a process was ended for its memory.
func (w *world) tooHeavy(p *process) error {
	return fmt.Errorf("%w: %s on machine %d took more than %d MiB of memory:\n%s", ErrStuck, p.name, p.host, w.Memory>>20, p.printed())
}

// memory is how many bytes a process has that are no file's, by proc_pid_status(5); 0: it isn't known.
func memory(pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if size, is := strings.CutPrefix(lines.Text(), "RssAnon:"); is {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(size, "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}
