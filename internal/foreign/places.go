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

// inModule says that the directory is in no module; nil: it is in one.
func inModule(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return nil
		}
		if at == filepath.Dir(at) {
			return fmt.Errorf("no go.mod is in %s or above", dir)
		}
	}
}
