// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/reference/cli"
)

// Reference is the subject that ships; "reference+voter-first" is a mutant of it.
const Reference = "reference"

// Parse reads "reference" or "reference+NAME[+NAME...]" and returns the
// mutants that it names.
func Parse(subject string) ([]Mutant, error) {
	base, rest, mutated := strings.Cut(subject, "+")
	if base != Reference {
		return nil, fmt.Errorf("subject %q refused: %w", subject, unknown("subject", base, []string{Reference}))
	}
	if !mutated {
		return nil, nil
	}
	var parsed []Mutant
	for name := range strings.SplitSeq(rest, "+") {
		m, err := LookupMutant(name)
		if err != nil {
			return nil, fmt.Errorf("subject %q refused: %w", subject, err)
		}
		if slices.ContainsFunc(parsed, func(p Mutant) bool { return p.Name == name }) {
			return nil, fmt.Errorf("subject %q refused: %s is named twice", subject, name)
		}
		parsed = append(parsed, m)
	}
	return parsed, nil
}

// LookupMutant returns the mutant of that name.
func LookupMutant(name string) (Mutant, error) {
	var names []string
	for _, m := range mutants {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Mutant{}, unknown("mutant", name, names)
}

func unknown(what, name string, legal []string) error {
	best, distance := "", max(2, len(name)/3)+1
	for _, l := range legal {
		if d := levenshtein.ComputeDistance(strings.ToLower(name), l); d < distance {
			best, distance = l, d
		}
	}
	if best != "" {
		return fmt.Errorf("there is no %s %q; did you mean %q?", what, name, best)
	}
	return fmt.Errorf("there is no %s %q; it is one of %s", what, name, strings.Join(legal, ", "))
}

// Main is the hidden command that an agent on trial is:
//
//	ringproof subject [--mutant NAME]... [--faults FILE --fired PREFIX --journal FILE] -- auto STORE ...
//
// What follows "--" is ringadm's command line. It returns the exit code.
func Main(args []string) int {
	var mutants []layer
	flags := flag.NewFlagSet("ringproof subject", flag.ContinueOnError)
	file := flags.String("faults", "", "`file` that holds the faults at the seams of this machine")
	fired := flags.String("fired", "", "what the files begin with that tell, over all machines, which faults have fired")
	journal := flags.String("journal", "", "`file` that is told of every effect and decision, while a probe is set")
	flags.Func("mutant", "`name` of a hazard to put in; repeatable", func(name string) error {
		m, err := LookupMutant(name)
		if err == nil {
			mutants = append(mutants, m.observed())
		}
		return err
	})
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if *file == "" {
		return cli.Main(flags.Args(), seams(mutants))
	}
	x := newInjector(func() (seam.Faults, error) { return seam.ReadFaults(*file) }, seam.NewMarkers(*fired), die)
	x.dry, x.scope = slices.Contains(flags.Args(), "--dry-run"), scopeOf(flags.Args())
	x.journal, x.probed = &seam.Pages{File: *journal}, true
	return cli.Main(flags.Args(), seams(x.layers(mutants)))
}

// scopeOf is what a fault calls a ringadm with this command line, beside its machine.
func scopeOf(args []string) string {
	if slices.Contains(args[:min(1, len(args))], ringproof.ScopeController) {
		return ringproof.ScopeController
	}
	return ""
}

// die ends this process as a power cut would: nothing deferred runs.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
}
