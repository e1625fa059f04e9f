// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/subject"
)

// TestMain makes this test binary ringproof itself, the processes that it
// starts for its machines included.
func TestMain(m *testing.M) {
	if entered, code := machines.Enter(); entered {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "subject" {
		os.Exit(subject.Main(os.Args[2:]))
	}
	testscript.Main(m, map[string]func(){"ringproof": main})
}

// TestScripts runs the command lines in testdata as they are typed. No script
// starts a ring. RINGPROOF_GOLDEN=1 rewrites what they compare with; read the
// difference as a user would.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("RINGPROOF_GOLDEN") != "",
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "json": holds},
	})
}

// exits CODE[,CODE...] COMMAND ARGS... wants one of the exit codes.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE[,CODE...] COMMAND ARGS...")
	}
	code := 0
	var ended *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if !slices.Contains(strings.Split(args[0], ","), fmt.Sprint(code)) {
		ts.Fatalf("exit code %d, not %s", code, args[0])
	}
}

// holds is the command json FILE FIELD[=VALUE]...: FILE is an object, or a list
// of one object or more, and every object has these fields, none of them empty.
func holds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: json FILE FIELD[=VALUE]...")
	}
	var found any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &found))
	objects, isList := found.([]any)
	if !isList {
		objects = []any{found}
	}
	if len(objects) == 0 {
		ts.Fatalf("an empty list")
	}
	for _, o := range objects {
		fields, isObject := o.(map[string]any)
		if !isObject {
			ts.Fatalf("no object: %.200s", fmt.Sprint(o))
		}
		for _, field := range args[1:] {
			name, want, exact := strings.Cut(field, "=")
			switch got := fmt.Sprint(fields[name]); {
			case fields[name] == nil || got == "":
				ts.Fatalf("no %s in %.200s", name, fmt.Sprint(o))
			case exact && got != want:
				ts.Fatalf("%s is %s, not %s", name, got, want)
			}
		}
	}
}
