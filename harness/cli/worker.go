// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ringproof/ringproof/harness/explore"
)

// workerCommand is one process of a pool. It heeds no signal: who is in charge
// of it closes its input, or is gone, and then its input is closed too.
func (p *program) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Short:  "run plans for another ringproof: jobs on standard input, outcomes on standard output, a line of JSON each",
		Hidden: true,
		Args:   none,
		RunE: func(c *cobra.Command, _ []string) error {
			out := os.Stdout
			os.Stdout = os.Stderr // what a world prints must not be taken for an outcome
			return environment(explore.Serve(context.WithoutCancel(c.Context()), os.Stdin, out, p.simulation()))
		},
	}
}

// newPool makes a pool of so many workers, each this program again.
func newPool(jobs int) (*explore.Pool, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, environment(err)
	}
	return &explore.Pool{Jobs: jobs, Command: func() *exec.Cmd {
		return &exec.Cmd{Path: self, Args: []string{"ringproof", "worker"}, Env: os.Environ()}
	}}, nil
}

// liveLine tells somebody who waits how it goes: on a terminal in one line that
// changes, else in a line now and then.
type liveLine struct {
	w    io.Writer
	live bool
	last time.Time
}

func newLiveLine(w io.Writer) *liveLine {
	f, ok := w.(*os.File)
	return &liveLine{w: w, live: ok && term.IsTerminal(int(f.Fd())) && os.Getenv("CI") == "", last: time.Now()}
}

func (l *liveLine) tell(format string, args ...any) {
	switch {
	case l.live:
		fmt.Fprintf(l.w, "\r\x1b[K"+format, args...)
	case time.Since(l.last) > heartbeat:
		fmt.Fprintf(l.w, format+"\n", args...)
		l.last = time.Now()
	}
}

// end makes room for what is printed next.
func (l *liveLine) end() {
	if l.live {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
