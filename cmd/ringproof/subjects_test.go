// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/ringproof/ringproof/scenarios"
)

const subjectsPage = "../../docs/subjects.md"

// TestSubjectsPage wants the tables of docs/subjects.md to be what a subject's file may
// hold, and its examples to be those that are run. RINGPROOF_GOLDEN=1 writes them.
func TestSubjectsPage(t *testing.T) {
	text, err := os.ReadFile(subjectsPage)
	require.NoError(t, err)
	example, err := os.ReadFile(subjectFile)
	require.NoError(t, err)
	operator, err := os.ReadFile(operatorFile)
	require.NoError(t, err)
	fields, variables := "| key below `spec` | what it is |\n|---|---|\n", "| variable | what it is | only in |\n|---|---|---|\n"
	for _, f := range scenarios.SubjectFields() {
		fields += fmt.Sprintf("| `%s` | %s |\n", f.Key, f.Doc)
	}
	for _, v := range scenarios.Variables() {
		variables += fmt.Sprintf("| `{{.%s}}` | %s | %s |\n", v.Name, v.Doc, v.In)
	}
	wanted := string(text)
	for name, made := range map[string]string{"keys": fields, "variables": variables, "example": "```yaml\n" + string(example) + "```\n", "operator": "```yaml\n" + string(operator) + "```\n"} {
		wanted = between(t, wanted, name, made)
	}
	if os.Getenv("RINGPROOF_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(subjectsPage, []byte(wanted), 0o644))
		return
	}
	require.Equal(t, wanted, string(text), "make golden writes what is so now")
}

const (
	subjectFile  = "../../examples/shell-launcher/subject.yaml"
	operatorFile = "../../examples/etcd-operator/subject.yaml"
)

// TestOperatorsDifferByTheirMistake: those with a mistake had a translation of what they print that the
// operator itself had no more, and in a sweep a check could tell of none of their runs.
func TestOperatorsDifferByTheirMistake(t *testing.T) {
	without := func(file string) map[string]any {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(operatorFile), file))
		require.NoError(t, err)
		var subject map[string]any
		require.NoError(t, yaml.Unmarshal(text, &subject))
		spec := subject["spec"].(map[string]any)
		delete(subject, "metadata")
		delete(spec, "description")
		delete(spec["operator"].(map[string]any), "env")
		return subject
	}
	for _, file := range []string{"in-memory.yaml", "shrink-first.yaml"} {
		require.Equal(t, without("subject.yaml"), without(file), file)
	}
}

// between puts what was made in the place of what stands between the marks of the name.
func between(t *testing.T, page, name, made string) string {
	t.Helper()
	begin := "<!-- " + name + ": written by make golden -->\n"
	before, rest, begun := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, "<!-- end -->\n")
	require.True(t, begun && ended, "the page has no marks for %s", name)
	return before + begin + made + "<!-- end -->\n" + after
}
