// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// simulated are the packages that run in the simulated world. There, time,
// chance and concurrency are the world's: code that takes them from anywhere
// else can't be repeated. They go through the seams, Host and World.
var simulated = []string{
	"reference/ring", "reference/launcher", "reference/admin", "reference/reconcile", "reference/auto", "reference/kube", "reference/controller", "reference/store", "reference/pki", "harness", "internal/observe",
	"sim", "sim/etcd", "sim/etcd/mvcc", "sim/kube",
}

// outside are the files of those packages that don't run there, and why.
var outside = map[string]string{
	"reference/store/files.go": "the store in a directory is one side of the seam; sim has its own",
	"harness/suite.go":         "it starts the runs, abreast, and lives in real time",
}

// forbidden are the functions that reach around the seams, and what to do.
var forbidden = map[string]string{
	"time.Now":                   "ask the seam for the time",
	"time.Since":                 "ask the seam for the time",
	"time.Until":                 "ask the seam for the time",
	"time.Sleep":                 "sleep through the seam",
	"time.After":                 "sleep through the seam",
	"time.AfterFunc":             "start a task through the seam",
	"time.NewTimer":              "sleep through the seam",
	"time.NewTicker":             "sleep through the seam",
	"time.Tick":                  "sleep through the seam",
	"context.WithTimeout":        "take the timeout from the seam",
	"context.WithTimeoutCause":   "take the timeout from the seam",
	"context.WithDeadline":       "take the timeout from the seam",
	"context.WithDeadlineCause":  "take the timeout from the seam",
	"context.AfterFunc":          "it starts a goroutine",
	"(*sync.WaitGroup).Go":       "start a task through the seam",
	"crypto/rand.Read":           "draw from the seam",
	"crypto/rand.Int":            "draw from the seam",
	"crypto/rand.Prime":          "draw from the seam",
	"crypto/rand.Text":           "draw from the seam",
	"crypto/rand.Reader":         "draw from the seam",
	"os/signal.Notify":           "signals are the command's",
	"os/signal.NotifyContext":    "signals are the command's",
	"(*sync.Cond).Wait":          "wait through the seam",
	"golang.org/x/sync/errgroup": "start tasks through the seam",

	"k8s.io/apimachinery/pkg/apis/meta/v1.Now":            "ask the seam for the time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.NowMicro":       "ask the seam for the time",
	"k8s.io/apimachinery/pkg/util/uuid.NewUUID":           "draw from the seam",
	"k8s.io/apimachinery/pkg/util/rand.String":            "draw from the seam",
	"k8s.io/apimachinery/pkg/api/meta.SetStatusCondition": "it stamps the machine's time: set the condition with the seam's",
}

// allowed are the exceptions, by file and function, and why each is safe.
var allowed = map[string]string{
	// Keys must not be guessed, in sim as anywhere. Which key it is decides
	// nothing: no code compares, sorts or branches on key material.
	"reference/pki/pki.go crypto/rand.Reader": "keys and serial numbers are secrets",
	// raft asks this variable for its election timeouts; the world puts a stream
	// of its own there while it runs.
	"sim/chance.go crypto/rand.Reader": "it is replaced, not read",
}

func TestSeams(t *testing.T) {
	world := newChecker(t)
	byDir := map[string][]source{}
	for _, s := range sources(t) {
		if !s.test() {
			byDir[s.dir] = append(byDir[s.dir], s)
		}
	}
	for _, dir := range simulated {
		files := byDir[dir]
		require.NotEmpty(t, files, "%s is gone: mend the list of simulated packages", dir)
		info := world.check(t, dir, files)
		for _, s := range files {
			if outside[s.path] == "" {
				report(t, aroundSeams(s, info))
			}
		}
	}
}

// aroundSeams finds what in s would not run, or not repeat, in sim.
func aroundSeams(s source, info *types.Info) []string {
	var findings []string
	say := func(n ast.Node, format string, args ...any) {
		findings = append(findings, fmt.Sprintf("%s: ", positions.Position(n.Pos()))+fmt.Sprintf(format, args...))
	}
	var function ast.Node
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			function = n
		case *ast.ImportSpec:
			if path := strings.Trim(n.Path.Value, `"`); path == "math/rand" || path == "math/rand/v2" {
				say(n, "%s is chance that no seed controls; draw from the seam", path)
			}
		case *ast.GoStmt:
			say(n, "a goroutine runs when it likes; start a task through the seam")
		case *ast.SelectStmt:
			say(n, "select picks at random; make it calls through the seam, one after another")
		case *ast.Ident:
			if name, instead, ok := around(info.Uses[n]); ok && allowed[s.path+" "+name] == "" {
				say(n, "%s goes around the seam; %s", name, instead)
			}
		case *ast.RangeStmt:
			if unordered(n.X, info) && !excused(s, n) && !sortedAfter(function, n.End(), info) {
				say(n, "the order of a map decides what happens here; range over sorted keys, or say in a comment that begins with \"order:\" why it doesn't matter")
			}
		}
		return true
	})
	return findings
}

// around reports whether an object is one of the forbidden, and its name.
func around(o types.Object) (name, instead string, found bool) {
	if o == nil || o.Pkg() == nil {
		return "", "", false
	}
	name = o.Pkg().Path() + "." + o.Name()
	if f, ok := o.(*types.Func); ok {
		name = f.FullName()
	}
	if instead, found = forbidden[name]; found {
		return name, instead, true
	}
	instead, found = forbidden[o.Pkg().Path()]
	return name, instead, found
}

// unordered reports whether ranging over x takes a random order: a map, or an
// iterator over one.
func unordered(x ast.Expr, info *types.Info) bool {
	if call, ok := ast.Unparen(x).(*ast.CallExpr); ok {
		switch called(call, info) {
		case "maps.Keys", "maps.Values", "maps.All", "(*sync.Map).Range":
			return true
		}
	}
	t := info.TypeOf(x)
	if t == nil {
		return false
	}
	_, isMap := t.Underlying().(*types.Map)
	return isMap
}

func called(call *ast.CallExpr, info *types.Info) string {
	var name *ast.Ident
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		name = f
	case *ast.SelectorExpr:
		name = f.Sel
	case *ast.IndexExpr:
		return called(&ast.CallExpr{Fun: f.X}, info)
	default:
		return ""
	}
	if f, ok := info.Uses[name].(*types.Func); ok {
		return f.FullName()
	}
	return ""
}

// excused reports whether the line, or the comment above it, says why order
// doesn't matter.
func excused(s source, n *ast.RangeStmt) bool {
	line := positions.Position(n.Pos()).Line
	for _, group := range s.file.Comments {
		from, to := positions.Position(group.Pos()).Line, positions.Position(group.End()).Line
		if from <= line && line <= to+1 && strings.Contains(group.Text(), "order: ") {
			return true
		}
	}
	return false
}

// sortedAfter reports whether the function sorts something after end: the usual
// "collect, then sort".
func sortedAfter(function ast.Node, end token.Pos, info *types.Info) bool {
	if function == nil {
		return false
	}
	sorts := false
	ast.Inspect(function, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && call.Pos() > end {
			name := called(call, info)
			sorts = sorts || strings.HasPrefix(name, "slices.Sort") || strings.HasPrefix(name, "sort.")
		}
		return true
	})
	return sorts
}

// checker type-checks packages with what the go command compiled of their
// dependencies.
type checker struct{ importer types.Importer }

func newChecker(t *testing.T) checker {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export", "sync", "time", "context", "maps", "math/rand", "math/rand/v2", "crypto/rand"}
	for _, dir := range simulated {
		args = append(args, "./"+dir)
	}
	cmd := exec.Command("go", args...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	require.NoError(t, err, "go list: %s", &complaint)
	exports := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		exports[p.ImportPath] = p.Export
	}
	return checker{importer.ForCompiler(positions, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
}

func (c checker) check(t *testing.T, dir string, files []source) *types.Info {
	t.Helper()
	var parsed []*ast.File
	for _, s := range files {
		parsed = append(parsed, s.file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
	_, err := (&types.Config{Importer: c.importer}).Check(module+"/"+dir, positions, parsed, info)
	require.NoError(t, err)
	return info
}

// TestSeamRulesCatch plants a way around the seams, and wants it found.
func TestSeamRulesCatch(t *testing.T) {
	world := newChecker(t)
	const begin = "package auto\nimport (\n\"context\"\n\"crypto/rand\"\n\"maps\"\nchance \"math/rand/v2\"\n\"slices\"\n\"sync\"\n\"time\"\n)\n" +
		"var _, _, _, _ = chance.Int, maps.Copy[map[int]int, map[int]int], slices.Sort[[]int], context.Background\n" +
		"var _ sync.Mutex\nvar _ time.Duration\nvar _ = rand.Reader\n"
	const inBegin = 2 // the import of math/rand/v2, and rand.Reader
	for planted, want := range map[string]string{
		"func f() { go f() }":                                                                         "a goroutine",
		"func f() { select {} }":                                                                      "select picks",
		"func f() { time.Sleep(1) }":                                                                  "time.Sleep goes around",
		"func f(){ now := time.Now; now() }":                                                          "time.Now goes around",
		"func f(t time.Time){ _ = t.After(t) }":                                                       "",
		"func f() { var g sync.WaitGroup; g.Go(f) }":                                                  "(*sync.WaitGroup).Go",
		"func f() { context.WithTimeout(nil, 1) }":                                                    "context.WithTimeout",
		"func f(m map[int]int) { for range m { f(m) } }":                                              "the order of a map",
		"func f(m map[int]int) { for range maps.Keys(m) {}}":                                          "the order of a map",
		"func f(m map[int]int) { for range slices.Sorted(maps.Keys(m)) {}}":                           "",
		"func f(m map[int]int) {\n// order: nothing happens\nfor range m {}}":                         "",
		"func f(m map[int]int) { var s []int; for k := range m { s = append(s, k) }; slices.Sort(s)}": "",
		"func f(s []int) { for range s {} }":                                                          "",
	} {
		s, err := parseSource("reference/auto/x.go", begin+planted)
		require.NoError(t, err)
		found := aroundSeams(s, world.check(t, "reference/auto", []source{s}))
		if want == "" {
			assert.Len(t, found, inBegin, planted)
		} else if assert.Len(t, found, inBegin+1, planted) {
			assert.Contains(t, found[inBegin], want)
		}
	}
}
