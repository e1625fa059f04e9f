// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/scenarios"
)

// proven has a ring live twice in a world whose plans are the same in every run, before the world
// is first used on this machine: of one in which they aren't no verdict is worth anything, and
// whoever is on trial would be called a flake.
// mark is the file that says so from then on; "": nothing is to be proven.
func (f runFlags) proven(c *cobra.Command, mark string, releases map[string]etcdbin.Release) error {
	if mark == "" || len(releases) == 0 {
		return nil
	}
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	p, ours, err := f.proof(slices.Max(slices.Collect(maps.Keys(releases))))
	if err != nil || !ours {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "trying whether a ring's life is the same twice in the %s world here, before its first use\n", f.world)
	out, err := os.MkdirTemp("", "ringproof-proof-")
	if err != nil {
		return err
	}
	open := func(p ringproof.Plan) (ringproof.World, error) { return f.enter(p, releases, nil) }
	s := harness.Suite{Jobs: []harness.Job{{Plan: p}}, Out: out, Abreast: 1, Twice: true, Attempts: 1, Replay: f.replayLine, World: open, Seen: f.seen}
	cell := s.Run(c.Context())[0]
	if err := c.Context().Err(); err != nil {
		return errors.Join(err, os.RemoveAll(out))
	}
	if cell.Verdict != ringproof.Pass {
		why := "no finding"
		for _, finding := range cell.Findings {
			if finding.Verdict != ringproof.Pass {
				why = finding.String()
				break
			}
		}
		return fmt.Errorf("the %s world is refused on this machine: a ring that is created, twice, came to %s: %s; try again beside less, take another --world meanwhile, and see %s", f.world, cell.Verdict, why, out)
	}
	return errors.Join(os.RemoveAll(out), os.WriteFile(mark, []byte(cell.Trace+"\n"), 0o644))
}

// proof is the plan of a ring that the reference creates; ours: this program has it.
func (f runFlags) proof(release string) (p ringproof.Plan, ours bool, err error) {
	who, err := f.trial(io.Discard, ringproof.Plan{Subject: "reference"})
	if err != nil {
		return p, false, nil
	}
	shipped, err := scenarios.Shipped()
	if err != nil {
		return p, false, err
	}
	create := shipped[slices.IndexFunc(shipped, func(s *scenarios.Scenario) bool { return s.Name == "create" })]
	cell := scenarios.Cell{Scenario: create.Name, Values: map[string]string{"etcd": "v3.6.16", "size": "3"}, Seed: 1, Seeded: true}
	p, found := create.Resolve(cell, "reference", place{f.in(), who})
	who.Enter(&p)
	p.Ring.Version = release
	return p, true, found.Err()
}
