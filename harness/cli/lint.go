// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/foreign"
	"github.com/ringproof/ringproof/scenarios"
)

func (p *program) lintCommand() *cobra.Command {
	var world string
	var asJSON bool
	c := &cobra.Command{
		Use:   "lint [SCENARIO.yaml|SUBJECT.yaml|DIR...]",
		Short: "find what is wrong with scenarios and subjects before they run; without arguments the shipped ones",
		RunE: func(c *cobra.Command, args []string) error {
			found, files, err := p.lint(args, world)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), found)
			} else {
				_, err = fmt.Fprint(c.OutOrStdout(), found)
			}
			fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", ringproof.Counted(files, "file"), problems(found))
			if err == nil && found.Failed() {
				return usage("not every scenario can run; ringproof explain CODE says more")
			}
			return err
		},
	}
	c.Flags().StringVar(&world, "world", "", "also find the steps that this world can't do")
	c.Flags().BoolVar(&asJSON, "json", false, "print the problems as JSON")
	return c
}

// lint returns all that is wrong with the scenarios, and how many files there are.
func (r Registry) lint(paths []string, world string) (scenarios.Diagnostics, int, error) {
	where, err := r.lintWorld(world)
	if err != nil {
		return nil, 0, err
	}
	paths, all, files, err := lintSubjects(paths)
	if err != nil || len(paths) == 0 && len(files) > 0 {
		return all, len(files), err
	}
	loaded, found, err := read(paths)
	if err == nil && len(paths) == 0 {
		var knownBugs []*scenarios.Scenario
		knownBugs, err = scenarios.KnownBugs()
		loaded = append(loaded, knownBugs...)
	}
	if err != nil {
		return nil, 0, err
	}
	all = append(all, found...)
	for _, s := range loaded {
		all = append(all, s.Lint(where)...)
		files[s.File] = true
	}
	for _, d := range all {
		files[d.File] = true
	}
	return all, len(files), nil
}

// lintSubjects returns what is wrong with the subjects' files among the paths, the files,
// and the other paths.
func lintSubjects(paths []string) (others []string, all scenarios.Diagnostics, files map[string]bool, err error) {
	all, files = scenarios.Diagnostics{}, map[string]bool{}
	found, err := scenarioFiles(paths)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, path := range found {
		if !holdsSubject(path) {
			others = append(others, path)
			continue
		}
		_, wrong, err := foreign.Read(path)
		if err != nil {
			return nil, nil, nil, environment(err)
		}
		all, files[path] = append(all, wrong...), true
	}
	return others, all, files, nil
}

// holdsSubject reports whether the path is a subject's file. To open a pipe may take
// for ever.
func holdsSubject(path string) bool {
	stat, err := os.Stat(path)
	if err != nil || !stat.Mode().IsRegular() {
		return false
	}
	text, err := os.ReadFile(path)
	return err == nil && scenarios.HoldsSubject(text)
}

func (r Registry) lintWorld(world string) (scenarios.World, error) {
	if world == "" {
		return scenarios.Anywhere(""), nil
	}
	in, err := r.worldOf(world)
	return place{World: in}, err
}

func schemaCommand() *cobra.Command {
	schemas := map[string]func() []byte{"scenario": scenarios.Schema, "subject": scenarios.SubjectSchema}
	return &cobra.Command{
		Use:   "schema [scenario|subject]",
		Short: "print the JSON schema of a scenario's file, or of a subject's, for editors",
		RunE: func(c *cobra.Command, args []string) error {
			of := "scenario"
			if len(args) > 0 {
				of = args[0]
			}
			schema, known := schemas[of]
			if !known || len(args) > 1 {
				return usage("there is no schema of %q; %s", strings.Join(args, " "), hint(of, slices.Sorted(maps.Keys(schemas))))
			}
			_, err := c.OutOrStdout().Write(schema())
			return err
		},
	}
}

func newCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "new NAME [FILE|-]",
		Short: "write a scenario to start from into NAME.yaml, or print it",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return usage("%s takes the scenario's name, and a file if it isn't to be NAME.yaml; - prints it", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			name, file := args[0], args[0]+".yaml"
			if name == "-" {
				name, file = "my-scenario", "-"
			}
			if len(args) == 2 {
				file = args[1]
			}
			text, err := scenarios.New(name)
			if err != nil {
				return usage("%w", err)
			}
			if file == "-" {
				_, err := c.OutOrStdout().Write(text)
				return err
			}
			return create(c, file, text)
		},
	}
}

// create writes a file that isn't there yet.
func create(c *cobra.Command, name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usage("%s is there already, and is not overwritten", name)
	}
	if err != nil {
		return environment(err)
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return environment(err)
	}
	fmt.Fprintln(c.OutOrStdout(), name)
	fmt.Fprintf(c.ErrOrStderr(), "next: ringproof lint %s, then ringproof run %s\n", name, name)
	return nil
}
