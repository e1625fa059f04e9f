// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// effort is what a process has had of a processor, and how long it was ready and
// had none, by the kernel's account.
type effort struct {
	used, waited time.Duration
	known        bool
	stopped      bool // by a signal: a debugger's, a shell's, a suspended container's
}

// effortOf reads the schedstat of the process's threads. The few that have ended
// are missing in it, which only makes a worker look slower than it is.
func effortOf(pid int) (e effort) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, thread := range threads {
		text, _ := os.ReadFile(thread)
		fields := strings.Fields(string(text))
		if len(fields) != 3 {
			continue
		}
		used, _ := strconv.ParseInt(fields[0], 10, 64)
		waited, _ := strconv.ParseInt(fields[1], 10, 64)
		e.used, e.waited, e.known = e.used+time.Duration(used), e.waited+time.Duration(waited), true
	}
	e.stopped = stopped(pid)
	return e
}

// stopped reports whether the process stands still as somebody told it to.
func stopped(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, fields, _ := strings.Cut(string(stat), ") ") // the name before may hold anything
	return strings.HasPrefix(fields, "T") || strings.HasPrefix(fields, "t")
}

// mostWall is how many limits a worker may take on the wall, whatever it does.
const mostWall = 30

// progress tells a worker that is slow, because others have the processor, from
// one that has stopped: it turns in a circle when it has used the limit itself,
// and hangs when it neither ran nor wanted to for as long.
type progress struct {
	limit       time.Duration
	began, last time.Time
	looked      time.Time
	first       effort
	moved       effort // when it last did something worth the name
}

func newProgress(limit time.Duration, now effort) *progress {
	began := time.Now()
	return &progress{limit: limit, began: began, last: began, looked: began, first: now, moved: now}
}

// look returns why the worker is given up, or nil. One that can't be told from a
// slow one is no bug of ringproof. The time in which it was stopped counts for nothing,
// and nor does that between two looks of one who stood still too.
func (p *progress) look(now time.Time, e effort) error {
	since := now.Sub(p.looked)
	p.looked = now
	if e.stopped || since > p.limit/4 {
		p.last = p.last.Add(since)
	}
	if e.used+e.waited-p.moved.used-p.moved.waited > p.limit/100 {
		p.moved, p.last = e, now
	}
	switch {
	case !e.known && now.Sub(p.began) > p.limit || now.Sub(p.began) > mostWall*p.limit:
		return fmt.Errorf("a worker gave no answer within %s, and whether it hangs can't be told: try again with fewer --jobs, or when the host is less busy", now.Sub(p.began).Round(time.Millisecond))
	case e.known && e.used-p.first.used > p.limit:
		return broken(fmt.Sprintf("a worker turned in a circle: it gave no answer within %s of a processor's time and was killed", p.limit))
	case e.known && now.Sub(p.last) > p.limit:
		return broken(fmt.Sprintf("a worker hung: it did nothing for %s and was killed", p.limit))
	}
	return nil
}
