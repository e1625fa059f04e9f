// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// oneCore binds the process to one of the cores that it may use, the collector
// too: what is measured is the speed on one, and a thread that goes from core to
// core leaves its caches behind. The last core has the least to do with
// interrupts. A thread made later is bound as its maker is.
func oneCore() error {
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return fmt.Errorf("finding the cores of this process: %w", err)
	}
	last := len(may)*64 - 1
	for last > 0 && !may.IsSet(last) {
		last--
	}
	one.Set(last)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("finding the threads of this process: %w", err)
	}
	for _, t := range threads {
		id, _ := strconv.Atoi(t.Name())
		if err := unix.SchedSetaffinity(id, &one); err != nil && err != unix.ESRCH { // one may have ended since
			return fmt.Errorf("binding a thread to one core: %w", err)
		}
	}
	return nil
}
