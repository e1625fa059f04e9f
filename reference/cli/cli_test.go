// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ringproof/ringproof/reference/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"ringadm": func() { os.Exit(cli.Main(os.Args[1:], cli.Seams{})) },
	})
}

// TestScripts runs ringadm as it is typed. Exit codes: 0 done, 1 failed, 2 a
// mistake in the command line; `exits N ARGS` wants that one of ringadm ARGS.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", Deadline: time.Now().Add(30 * time.Second), RequireUniqueNames: true, Setup: func(e *testscript.Env) error {
		e.Setenv("RINGADM_ENDPOINTS", "")
		return nil
	}, Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits}})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if err != nil || neg {
		ts.Fatalf("usage: exits N ARGS...")
	}
	got := 0
	if err := ts.Exec("ringadm", args[1:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
