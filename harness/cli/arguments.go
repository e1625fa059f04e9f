// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nearest is the legal word that was probably meant: one a few letters away.
func nearest(word string, legal []string) (string, bool) {
	best, distance := "", max(2, utf8.RuneCountInString(word)/3)+1
	for _, l := range legal {
		if d := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(l)); d < distance {
			best, distance = l, d
		}
	}
	return best, best != ""
}

// hint is "did you mean …?", or all there is to choose from.
func hint(word string, legal []string) string {
	if meant, ok := nearest(word, legal); ok {
		return "did you mean " + meant + "?"
	}
	return "it is one of " + strings.Join(legal, ", ")
}

// none refuses arguments.
func none(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no argument, and got %q; see %s --help", c.CommandPath(), args[0], c.CommandPath())
	}
	return nil
}

// exactly wants so many arguments, and says what they are.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s takes %s; see %s --help", c.CommandPath(), what, c.CommandPath())
		}
		return nil
	}
}

// some wants arguments, and says what they are.
func some(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("%s takes %s; see %s --help", c.CommandPath(), what, c.CommandPath())
		}
		return nil
	}
}

// mostCounted bounds what counts a program's work: one who mistypes it is told, and
// doesn't wait until the list of it has filled the memory.
const mostCounted = 1_000_000

// counts refuses flags that say how often or how many, and say none or more than
// anyone can wait for. One that wasn't given keeps its default.
func counts(c *cobra.Command, names ...string) error {
	for _, name := range names {
		f := c.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		if n, err := strconv.ParseInt(f.Value.String(), 10, 64); err != nil || n < 1 || n > mostCounted {
			return usage("--%s %s: write a number from 1 to %d", name, f.Value, mostCounted)
		}
	}
	return nil
}

// group makes c a command that only has subcommands. Without one it prints its
// help; cobra would do so for a mistyped one too, and call it success.
func group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.AddCommand(commands...)
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return usage("there is no %s %s; %s", c.CommandPath(), args[0], hint(args[0], names(c)))
	}
	return c
}

func names(c *cobra.Command) []string {
	var all []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub.Name())
		}
	}
	return all
}

// helpCommand is cobra's own, but for a topic that doesn't exist.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "what a command does, with its flags",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usage("there is no command %s; %s", strings.Join(args, " "), hint(args[0], names(root)))
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// numberError matches what Go's parsers say of a flag's value.
var numberError = regexp.MustCompile(`^(invalid argument .* for ".*" flag): (?:strconv\.|time: )`)

var flagName = regexp.MustCompile(`^unknown flag: --([^= ]+)`)

// mistyped says what a flag that doesn't exist was probably meant to be.
func mistyped(c *cobra.Command, err error) error {
	if m := flagName.FindStringSubmatch(err.Error()); m != nil {
		var flags []string
		c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		if meant, ok := nearest(m[1], flags); ok {
			return usage("%w; did you mean --%s?", err, meant)
		}
	}
	if why := numberError.FindStringSubmatch(err.Error()); why != nil {
		return usage("%s: write a number or a duration as %s --help shows it", why[1], c.CommandPath())
	}
	return usage("%w; see %s --help", err, c.CommandPath())
}
