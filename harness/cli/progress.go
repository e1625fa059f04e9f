// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
)

// teller tells a person how the run goes, on standard error: on a terminal one
// live line and a line for each cell that is over; else a line for each cell,
// and one now and then so that a CI does not take the run for dead.
type teller struct {
	w       io.Writer
	live    bool
	verbose bool

	mu   sync.Mutex
	last time.Time
	done int
}

func newTeller(w io.Writer, verbose bool) *teller {
	f, ok := w.(*os.File)
	live := ok && term.IsTerminal(int(f.Fd())) && !verbose && os.Getenv("CI") == ""
	return &teller{w: w, live: live, verbose: verbose, last: time.Now()}
}

const heartbeat = 30 * time.Second

func (t *teller) tell(p harness.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case p.Ended != nil && p.Ended.Skipped == harness.Interrupted: // so are all after it
	case p.Ended != nil:
		t.done = p.Done
		t.clear()
		fmt.Fprintf(t.w, "[%d/%d] %-12s %s%s%s\n", p.Done, p.All, outcome(p), p.Cell, beside(p.Subject), attempt(p.Attempt))
		t.last = time.Now()
	case t.verbose:
		fmt.Fprintf(t.w, "%s  %s\n", p.Cell, p.Event)
	case t.live && worth(p.Event.Kind):
		t.clear()
		fmt.Fprintf(t.w, "[%d/%d] %.*s", t.done, p.All, 100, p.Cell+": "+p.Event.String())
	case !t.live && time.Since(t.last) > heartbeat:
		fmt.Fprintf(t.w, "[%d/%d] %s: %s\n", t.done, p.All, p.Cell, p.Event)
		t.last = time.Now()
	}
}

func outcome(p harness.Progress) string {
	switch {
	case p.Ended.NotApplicable != "":
		return "not applicable"
	case p.Ended.Skipped != "":
		return "skipped"
	}
	return p.Ended.Verdict.String()
}

func attempt(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf("  (attempt %d, alone)", n)
}

func beside(subject string) string {
	if subject == "reference" {
		return ""
	}
	return "  (" + subject + ")"
}

// worth reports whether an event says something to somebody who waits.
func worth(kind ringproof.EventKind) bool {
	switch kind {
	case ringproof.EventProcessStarted, ringproof.EventProcessExited, ringproof.EventBoot, ringproof.EventWaiting:
		return false
	}
	return true
}

func (t *teller) clear() {
	if t.live {
		fmt.Fprint(t.w, "\r\x1b[K")
	}
}

func (t *teller) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
}
