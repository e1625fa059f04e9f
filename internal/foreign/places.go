// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package foreign

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/ringproof/ringproof/scenarios"
)

// beside finds what a file in the directory names.
func beside(dir string) scenarios.Places {
	below := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	return scenarios.Places{
		Runnable: func(program string) (string, error) { return runnable(dir, program) },
		Package:  func(path string) (string, error) { return below(path), buildable(below(path)) },
		Objects: func(path string) (string, error) {
			_, err := objects(below(path))
			return below(path), err
		},
		Selector: func(text string) error {
			_, err := labels.Parse(text)
			return err
		},
	}
}

// buildable says why the directory has no main package of a module; nil: it has one.
func buildable(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("no Go file is there; it is a directory, found from that of the subject's file")
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly)
		if err == nil && f.Name.Name == "main" {
			return inModule(dir)
		}
	}
	return errors.New("it holds no main package")
}

// inModule says that the directory is in no module that can be built; nil: it is in one.
func inModule(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		if text, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil {
			return timed(string(text))
		}
		if at == filepath.Dir(at) {
			return fmt.Errorf("no go.mod is in %s or above", dir)
		}
	}
}

var goLine = regexp.MustCompile(`(?m)^go 1\.([0-9]+)`)

// timed says why the timers of the module have no virtual time: before Go 1.23 they were
// others (GODEBUG asynctimerchan), and a module whose go line is older keeps those.
func timed(mod string) error {
	m := goLine.FindStringSubmatch(mod)
	if m == nil {
		return errors.New("its go.mod says for which Go it is nowhere; write go 1.23 or later")
	}
	if minor, err := strconv.Atoi(m[1]); err != nil || minor < 23 {
		return fmt.Errorf("its go.mod is for go 1.%s, whose timers have no virtual time; it must be for 1.23 or later", m[1])
	}
	return nil
}
