// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/subject"
	"github.com/ringproof/ringproof/scenarios"
)

const module = "github.com/ringproof/ringproof"

// source is one Go file of the module.
type source struct {
	path string // "checks/watch.go"
	dir  string // "checks"; the root is "."
	text string
	file *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// imports are the packages that s imports, those of the module by their folder:
// "./checks"; the root is "./.".
func (s source) imports() []string {
	var all []string
	for _, spec := range s.file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err)
		}
		switch rest, own := strings.CutPrefix(path, module); {
		case own && rest == "":
			all = append(all, "./.")
		case own:
			all = append(all, "."+rest)
		default:
			all = append(all, path)
		}
	}
	return all
}

var positions = token.NewFileSet()

func parseSource(path, text string) (source, error) {
	file, err := parser.ParseFile(positions, path, text, parser.ParseComments|parser.SkipObjectResolution)
	return source{path, filepath.ToSlash(filepath.Dir(path)), text, file}, err
}

// sources parses every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || path == "bin" || path == "out") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s, err := parseSource(path, string(text))
		all = append(all, s)
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// hold fails the test with one sentence.
func hold(t *testing.T, ok bool, format string, args ...any) bool {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
	return ok
}

func report(t *testing.T, findings []string) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
}

func TestHeads(t *testing.T) {
	for _, s := range sources(t) {
		report(t, heads(s))
	}
}

const head = "// SPDX-License-Identifier: Apache-2.0\n// Copyright the ringproof authors.\n\n"

func heads(s source) []string {
	if strings.HasPrefix(s.text, head) {
		return nil
	}
	return []string{s.path + " doesn't begin with the two lines of the licence and a blank one"}
}

func TestPackageDocs(t *testing.T) {
	report(t, packageDocs(sources(t)))
}

func packageDocs(all []source) []string {
	documented := map[string]bool{}
	for _, s := range all {
		if !s.test() {
			documented[s.dir] = documented[s.dir] || s.file.Doc != nil
		}
	}
	var findings []string
	for dir, ok := range documented {
		if !ok {
			findings = append(findings, fmt.Sprintf("package %s has no comment that says what it is for", dir))
		}
	}
	slices.Sort(findings)
	return findings
}

// fence keeps a package, and those below it, from importing others. "./..." is
// every package of the module.
type fence struct {
	of     string
	except []string
	refuse []string
	allow  []string
	why    string
}

var fences = []fence{
	{of: ".", refuse: []string{"./..."}, why: "the vocabulary stands below everything"},
	{of: "faults", refuse: []string{"./..."}, allow: []string{"./."}, why: "the catalogue needs the vocabulary only"},
	{of: "scenarios", refuse: []string{"./..."}, allow: []string{"./.", "./faults"}, why: "a scenario is read without judging or running it"},
	{of: "checks", refuse: []string{"./..."}, allow: []string{"./."}, why: "a check reads a history, wherever it is from"},
	{of: "reports", refuse: []string{"./..."}, allow: []string{"./."}, why: "a report judges nothing and runs nothing"},
	{of: "reference", refuse: []string{"./..."}, allow: []string{"./reference/..."}, why: "the reference must stand alone"},
	{of: "internal/run", refuse: []string{"./..."}, allow: []string{"./.", "./faults", "./internal/client", "./internal/pile"}, why: "one executor serves every world and subject"},
	{of: "internal/local", refuse: []string{"./internal/subject", "./internal/suite", "./internal/run", "./reference/...", "./checks", "./reports", "./scenarios"}, why: "a world knows its subject by an interface; cmd wires them"},
	{of: "internal/local/machines", refuse: []string{"./..."}, why: "machines know nothing of etcd"},
	{of: "internal/pile", refuse: []string{"./..."}, why: "a list knows nothing of what it holds"},
	{of: "internal/etcdbin", refuse: []string{"./..."}, why: "it only builds binaries"},
	{of: "internal/suite", refuse: []string{"./internal/local/...", "./internal/subject", "./reference/..."}, why: "cmd wires subjects to worlds"},
	{of: "internal/subject", refuse: []string{"./checks", "./reports", "./scenarios", "./internal/run", "./internal/suite"}, why: "a subject doesn't know how it is judged"},
	{of: "...", except: []string{"cmd"}, refuse: []string{"./cmd/..."}, why: "commands are at the top"},
	{of: "sim", refuse: []string{"./internal/subject", "./internal/suite", "./internal/local/...", "./checks", "./reports", "./scenarios"}, why: "a world knows its subject by an interface; cmd wires them"},
	{of: "sim/etcd", refuse: []string{"./..."}, allow: []string{"./sim/etcd/mvcc", "./internal/pile"}, why: "a simulated etcd knows its host by an interface"},
	{of: "sim", refuse: []string{"os", "net", "os/exec", "os/signal"}, why: "what runs in sim touches no real machine"},
}

// within tells whether a folder is in a pattern such as "reference" or "...".
func (f fence) within(dir string) bool {
	for _, e := range f.except {
		if below(e, dir) {
			return false
		}
	}
	return f.of == "..." || f.of == dir || f.of != "." && below(f.of, dir)
}

func below(folder, dir string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }

func matches(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return below(prefix, path)
	}
	return pattern == path
}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		report(t, imported(s))
	}
}

func imported(s source) []string {
	var findings []string
	if s.test() {
		return nil
	}
	for _, path := range s.imports() {
		if s.dir == "." && strings.Contains(strings.SplitN(path, "/", 2)[0], ".") {
			findings = append(findings, fmt.Sprintf("%s imports %s, but the root package has nothing but the standard library", s.path, path))
		}
		for _, f := range fences {
			if f.within(s.dir) && oneOf(f.refuse, path) && !oneOf(f.allow, path) {
				findings = append(findings, fmt.Sprintf("%s imports %s, but %s", s.path, path, f.why))
			}
		}
	}
	return findings
}

func oneOf(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

// vague are the words that say nothing about what they name.
var vague = []string{"manager", "handler", "util", "utils", "helper", "helpers", "common", "base", "data", "info"}

func TestNames(t *testing.T) {
	for _, s := range sources(t) {
		report(t, exported(s))
	}
}

// exported finds vague names in what a package offers: those that are such a
// word, or end in one. (DataDir is etcd's own word for its data directory.)
func exported(s source) []string {
	if s.test() {
		return nil
	}
	var findings []string
	say := func(name *ast.Ident) {
		if words := wordsOf(name.Name); name.IsExported() && slices.Contains(vague, words[len(words)-1]) {
			findings = append(findings, fmt.Sprintf("%s: %s says too little: name what it is or does", positions.Position(name.Pos()), name.Name))
		}
	}
	if slices.Contains(vague, strings.TrimSuffix(s.file.Name.Name, "_test")) {
		findings = append(findings, fmt.Sprintf("%s: package %s says nothing about what is in it", s.path, s.file.Name.Name))
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			say(n.Name)
			return false
		case *ast.TypeSpec:
			say(n.Name)
		case *ast.ValueSpec:
			for _, name := range n.Names {
				say(name)
			}
			return false
		case *ast.Field:
			for _, name := range n.Names {
				say(name)
			}
		}
		return true
	})
	return findings
}

// wordsOf splits NewTLSBase into new, tls, base.
func wordsOf(name string) []string {
	var words []string
	letters := []rune(name)
	begin := 0
	for i := 1; i <= len(letters); i++ {
		if i == len(letters) || letters[i] == '_' || unicode.IsUpper(letters[i]) && (unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])) {
			words = append(words, strings.ToLower(strings.Trim(string(letters[begin:i]), "_")))
			begin = i
		}
	}
	return words
}

// TestCatalogues holds together what is written in several places: a fault that
// no scenario does and a check that nothing ever failed are promises, not tests.
func TestCatalogues(t *testing.T) {
	shipped, err := scenarios.Shipped()
	require.NoError(t, err)
	canaries, err := scenarios.Canaries()
	require.NoError(t, err)
	for _, s := range canaries {
		hold(t, s.Hypothesis != "", "canary %s doesn't say what it claims", s.Name)
	}
	done := map[string]bool{}
	for _, s := range shipped {
		hold(t, s.Hypothesis != "", "scenario %s doesn't say what it claims", s.Name)
		for _, cell := range s.Cells(1) {
			plan, found := s.Resolve(cell, "reference", scenarios.Anywhere("local"))
			require.False(t, found.Failed(), "%s", found)
			for _, step := range plan.Steps {
				if step.Fault != nil {
					done[string(step.Fault.Kind)] = true
				}
			}
		}
	}
	for _, f := range faults.All() {
		hold(t, done[string(f.Kind)], "no shipped scenario does the fault %s", f.Kind)
	}
}

func TestMutantsHaveAScenarioAndACheck(t *testing.T) {
	shipped, err := scenarios.Shipped()
	require.NoError(t, err)
	for _, m := range subject.Mutants() {
		_, ok := checks.Lookup(m.Check)
		hold(t, ok, "mutant %s is to be failed by %q, which is no check", m.Name, m.Check)
		pattern, err := scenarios.ParseCellName(m.Scenario)
		require.NoError(t, err, "mutant %s", m.Name)
		hold(t, slices.ContainsFunc(shipped, func(s *scenarios.Scenario) bool {
			return slices.ContainsFunc(s.Cells(1), func(c scenarios.Cell) bool { return c.Matches(pattern) })
		}), "mutant %s is shown by %q, which is no shipped cell", m.Name, m.Scenario)
	}
}

func TestEveryCheckIsTested(t *testing.T) {
	tested := map[string]bool{}
	for _, m := range subject.Mutants() {
		tested[m.Check] = true
	}
	for _, s := range sources(t) {
		if s.dir != "checks" || !s.test() {
			continue
		}
		for _, c := range checks.All() {
			tested[c.Name] = tested[c.Name] || strings.Contains(s.text, strconv.Quote(c.Name))
		}
	}
	for _, c := range checks.All() {
		hold(t, tested[c.Name], "no mutant and no test is failed by the check %s", c.Name)
	}
}

// TestChecksAreKnown holds the scenarios' idea of the checks to the checks.
func TestChecksAreKnown(t *testing.T) {
	known := map[string]scenarios.Check{}
	for _, k := range scenarios.Standard().Checks {
		known[k.Name] = k
	}
	for _, c := range checks.All() {
		k, ok := known[c.Name]
		if !hold(t, ok, "scenarios can't name the check %s", c.Name) {
			continue
		}
		params := map[string]scenarios.ParamKind{}
		for _, p := range c.Params {
			params[p.Name] = scenarios.ParamDuration
			if _, err := strconv.Atoi(p.Default); err == nil {
				params[p.Name] = scenarios.ParamInteger
			}
		}
		if len(params)+len(k.Params) > 0 {
			assert.Equal(t, params, k.Params, "the parameters of check %s, as the check and as scenarios have them", c.Name)
		}
		delete(known, c.Name)
	}
	assert.Empty(t, known, "scenarios name checks that there aren't")
}

// TestRulesCatch plants a violation of each rule, and wants it found.
func TestRulesCatch(t *testing.T) {
	for _, planted := range []struct {
		rule       func(source) []string
		path, text string
		want       string
	}{
		{heads, "checks/x.go", "package checks\n", "licence"},
		{heads, "checks/x.go", head + "package checks\n", ""},
		{func(s source) []string { return packageDocs([]source{s}) }, "checks/x.go", head + "package checks\n", "package checks has no comment"},
		{func(s source) []string { return packageDocs([]source{s}) }, "checks/x.go", head + "// Package checks judges.\npackage checks\n", ""},
		{imported, "plan2.go", "package ringproof\nimport _ \"golang.org/x/term\"\n", "nothing but the standard library"},
		{imported, "plan2.go", "package ringproof\nimport _ \"maps\"\n", ""},
		{imported, "checks/x.go", "package checks\nimport _ \"" + module + "/internal/local\"\n", "a check reads a history"},
		{imported, "checks/x.go", "package checks\nimport _ \"" + module + "\"\n", ""},
		{imported, "checks/x_test.go", "package checks\nimport _ \"" + module + "/scenarios\"\n", ""},
		{imported, "reports/x.go", "package reports\nimport _ \"" + module + "/checks\"\n", "a report judges nothing"},
		{imported, "reference/auto/x.go", "package auto\nimport _ \"" + module + "\"\n", "must stand alone"},
		{imported, "reference/auto/x.go", "package auto\nimport _ \"" + module + "/reference/ring\"\n", ""},
		{imported, "internal/run/x.go", "package run\nimport _ \"" + module + "/internal/local\"\n", "one executor"},
		{imported, "internal/local/x.go", "package local\nimport _ \"" + module + "/internal/subject\"\n", "cmd wires them"},
		{imported, "internal/suite/x.go", "package suite\nimport _ \"" + module + "/cmd/ringadm\"\n", "commands are at the top"},
		{imported, "sim/kube/x.go", "package kube\nimport _ \"net\"\n", "no real machine"},
		{exported, "checks/x.go", "package checks\ntype RingInfo struct{}\n", "RingInfo says too little"},
		{exported, "checks/x.go", "package checks\ntype T struct{ Data string }\n", "Data says too little"},
		{exported, "checks/x.go", "package checks\nfunc NewTLSHelper() {}\n", "NewTLSHelper says too little"},
		{exported, "checks/x.go", "package checks\ntype Database struct{ DataDir string; info int }\n", ""},
		{exported, "utils/x.go", "package utils\n", "package utils says nothing"},
	} {
		s, err := parseSource(planted.path, planted.text)
		require.NoError(t, err)
		if found := planted.rule(s); planted.want == "" {
			assert.Empty(t, found, "in %s:\n%s", planted.path, planted.text)
		} else if assert.Len(t, found, 1, "in %s:\n%s", planted.path, planted.text) {
			assert.Contains(t, found[0], planted.want)
		}
	}
}
