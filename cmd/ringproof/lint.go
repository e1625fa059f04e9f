// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof/scenarios"
)

func lintCommand() *cobra.Command {
	var world string
	var asJSON bool
	c := &cobra.Command{
		Use:   "lint [SCENARIO.yaml|DIR...]",
		Short: "find what is wrong with scenarios before they run; without arguments the shipped ones",
		RunE: func(c *cobra.Command, args []string) error {
			found, files, err := lint(args, world)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), found)
			} else {
				_, err = fmt.Fprint(c.OutOrStdout(), found)
			}
			fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", counted(files, "scenario file"), problems(found))
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
func lint(paths []string, world string) (scenarios.Diagnostics, int, error) {
	where, err := lintWorld(world)
	if err != nil {
		return nil, 0, err
	}
	loaded, found, err := read(paths)
	if err == nil && len(paths) == 0 {
		var canaries []*scenarios.Scenario
		canaries, err = scenarios.Canaries()
		loaded = append(loaded, canaries...)
	}
	if err != nil {
		return nil, 0, err
	}
	all := append(scenarios.Diagnostics{}, found...)
	files := map[string]bool{}
	for _, s := range loaded {
		all = append(all, s.Lint(where)...)
		files[s.File] = true
	}
	for _, d := range all {
		files[d.File] = true
	}
	return all, len(files), nil
}

func lintWorld(world string) (scenarios.World, error) {
	if world == "" {
		return scenarios.Anywhere(""), nil
	}
	return place{world}, known(world)
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "print the JSON schema of a scenario file, for editors",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(scenarios.Schema())
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
