// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/scenarios"
)

// storeless is a world without a store.
type storeless struct{}

func (storeless) Name() string { return "storeless" }

func (storeless) Supports(s ringproof.Step) error {
	if s.Fault != nil && s.Fault.Kind == ringproof.FaultStoreOutage {
		return errors.New("there is no store")
	}
	return nil
}

const divider = "-- diagnostics --\n"

// TestDiagnostics reads each testdata/CODE-*.txt, a scenario and what is said
// of it. RINGPROOF_GOLDEN=1 writes what is said now; read the difference as a
// user would before you keep it.
func TestDiagnostics(t *testing.T) {
	files, err := filepath.Glob("testdata/S*.txt")
	require.NoError(t, err)
	covered := map[string]bool{"S003": true, "S051": true} // see the tests below
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		src, want, ok := strings.Cut(string(text), divider)
		require.True(t, ok, file)
		code, _, _ := strings.Cut(filepath.Base(file), "-")
		found := diagnose(src)
		assert.True(t, slices.ContainsFunc(found, func(d scenarios.Diagnostic) bool { return d.Code == code }), "%s: no %s in\n%s", file, code, found)
		covered[code] = true
		if os.Getenv("RINGPROOF_GOLDEN") != "" {
			require.NoError(t, os.WriteFile(file, []byte(src+divider+found.String()), 0o644))
			continue
		}
		assert.Equal(t, want, found.String(), file)
	}
	for _, c := range scenarios.Codes() {
		assert.True(t, covered[c.Code], "no test triggers %s", c.Code)
	}
}

func diagnose(src string) scenarios.Diagnostics {
	if strings.Contains(src, "kind: Subject") {
		_, found := scenarios.ReadSubject("t.yaml", []byte(src), places)
		return found
	}
	s, found := scenarios.Parse("t.yaml", []byte(src))
	if s == nil {
		return found
	}
	return append(found, s.Lint(storeless{})...)
}

// places has one program, one main package, and one directory of objects.
var places = scenarios.Places{
	Runnable: runnable,
	Package:  only("./cmd", "/operator/cmd"),
	Objects:  only("crds", "/operator/crds"),
	Selector: func(text string) error {
		if strings.Contains(text, "=>") {
			return errors.New("no such operator")
		}
		return nil
	},
}

// only finds one path.
func only(path, found string) func(string) (string, error) {
	return func(what string) (string, error) {
		if what != path {
			return what, errors.New("there is none")
		}
		return found, nil
	}
}

// runnable knows one program.
func runnable(program string) (string, error) {
	if program != "./launch" {
		return program, errors.New("there is none")
	}
	return "/subject/launch", nil
}

func TestEveryDiagnosticHasAnExplainedCode(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range scenarios.Codes() {
		assert.False(t, seen[c.Code], "%s twice", c.Code)
		seen[c.Code] = true
		assert.NotEmpty(t, c.Doc, c.Code)
	}
}

func TestHugeFileIsOneError(t *testing.T) {
	_, found := scenarios.Parse("t.yaml", make([]byte, 1<<20+1))
	require.Len(t, found, 1)
	assert.Equal(t, "t.yaml:1:1: error[S003]: the file has 1048577 bytes, a scenario may have 1048576\n", found.String())
}

// The alias bomb is refused where its first anchor stands, unexpanded.
func TestAliasBombIsRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	_, found := scenarios.Parse("t.yaml", []byte(b.String()))
	require.NotEmpty(t, found)
	assert.LessOrEqual(t, len(found), 51)
	assert.Equal(t, "S005", found[0].Code)
}

// TestAFileOfAnotherKindIsOneError that says what it is, whichever kind is wanted.
func TestAFileOfAnotherKindIsOneError(t *testing.T) {
	subject := []byte("apiVersion: ringproof.dev/v1alpha1\nkind: Subject\nmetadata: {name: t}\nspec: {start: {run: [./launch]}}\n")
	plan := []byte("cell: t#1\nscenario: t\n")
	scenario, err := scenarios.New("t")
	require.NoError(t, err)
	asScenario := func(src []byte) scenarios.Diagnostics { _, found := scenarios.Parse("t.yaml", src); return found }
	asPlan := func(src []byte) scenarios.Diagnostics { _, found := scenarios.ReadPlan("t.yaml", src); return found }
	asSubject := func(src []byte) scenarios.Diagnostics {
		_, found := scenarios.ReadSubject("t.yaml", src, places)
		return found
	}
	for _, c := range []struct {
		read func([]byte) scenarios.Diagnostics
		src  []byte
		says string
	}{
		{asScenario, subject, "this is a subject, and not a scenario"},
		{asScenario, plan, "this is a plan, and not a scenario"},
		{asPlan, subject, "this is a subject, and not a plan"},
		{asPlan, scenario, "this is a scenario, and not a plan"},
		{asSubject, plan, "this is a plan, and not a subject"},
		{asSubject, scenario, "this is a scenario, and not a subject"},
	} {
		found := c.read(c.src)
		require.Len(t, found, 1, c.says)
		assert.Equal(t, "S057", found[0].Code)
		assert.Equal(t, c.says, found[0].Message)
	}
	assert.True(t, scenarios.HoldsSubject(subject))
	assert.False(t, scenarios.HoldsSubject(scenario))
}
