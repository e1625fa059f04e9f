// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/scenarios"
)

// load reads scenarios: those in the files and directories named, or the
// shipped ones but those of known bugs. What is wrong with them is printed to w.
func load(w io.Writer, paths []string) ([]*scenarios.Scenario, error) {
	loaded, found, err := read(paths)
	if err != nil {
		return nil, err
	}
	fmt.Fprint(w, found)
	if found.Failed() {
		return nil, usage("%s; nothing was run", problems(found))
	}
	return loaded, nil
}

// read is load with the problems as values. The scenarios are those that can
// be read at all.
func read(paths []string) ([]*scenarios.Scenario, scenarios.Diagnostics, error) {
	if len(paths) == 0 {
		shipped, err := scenarios.Shipped()
		return shipped, nil, err
	}
	files, err := scenarioFiles(paths)
	if err != nil {
		return nil, nil, err
	}
	var loaded []*scenarios.Scenario
	var found scenarios.Diagnostics
	from := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, unreadable(file, err)
		}
		s, more := scenarios.Parse(file, text)
		found = append(found, more...)
		if s == nil {
			continue
		}
		if other, twice := from[s.Name]; twice {
			return nil, nil, usage("%s and %s are both named %s: their cells can't be told apart", other, file, s.Name)
		}
		from[s.Name] = file
		loaded = append(loaded, s)
	}
	return loaded, found, nil
}

// scenarioFiles puts the YAML files of a directory in its place.
func scenarioFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		stat, err := os.Stat(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		if stat.Mode().IsRegular() {
			files = append(files, path)
			continue
		}
		if !stat.IsDir() {
			return nil, usage("%s is neither a file nor a directory", path) // to open a pipe may take for ever
		}
		inside, err := yamlIn(path)
		if err != nil {
			return nil, environment(err)
		}
		if len(inside) == 0 {
			return nil, usage("there is no *.yaml in %s", path)
		}
		files = append(files, inside...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func yamlIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

func unreadable(path string, err error) error {
	if path == "-" && errors.Is(err, fs.ErrNotExist) {
		return usage("a scenario is a file, and not read from standard input: a plan names where each of its steps stands")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return usage("there is no scenario file %s; ringproof new NAME writes one, and ringproof list scenarios names the shipped ones, which --run selects", path)
	}
	return environment(err)
}

func problems(found scenarios.Diagnostics) string {
	errors, warnings := 0, 0
	for _, d := range found {
		switch d.Severity {
		case scenarios.Error:
			errors++
		case scenarios.Warning:
			warnings++
		}
	}
	return ringproof.Counted(errors, "error") + ", " + ringproof.Counted(warnings, "warning")
}
