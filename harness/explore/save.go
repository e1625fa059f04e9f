// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/scenarios"
)

// Names of what is saved of a finding.
const (
	PlanFile    = "plan.yaml"    // the smallest plan that shows it
	FirstFile   = "first.yaml"   // the plan that showed it first
	OutcomeFile = "outcome.json" // what the smallest plan came to
	ReadmeFile  = "README.md"
)

// ShrinkAll makes the plans of the findings small. One that no longer fails, a
// mark of a run that can't be repeated, is left as it is; so is what is left
// when ctx ends.
func (s Shrinker) ShrinkAll(ctx context.Context, found []*Found, told func(*Found)) error {
	for _, f := range found {
		if ctx.Err() != nil {
			return nil
		}
		small, err := s.Shrink(ctx, f.Plan, f.Key)
		switch {
		case errors.Is(err, ErrPasses), err != nil && ctx.Err() != nil:
			continue
		case err != nil:
			return err
		}
		f.Shrunk = &small
		told(f)
	}
	return nil
}

// Smallest is the plan that was made small, or else the first.
func (f *Found) Smallest() (ringproof.Plan, Outcome) {
	if f.Shrunk != nil {
		return f.Shrunk.Plan, f.Shrunk.Outcome
	}
	p := f.Plan
	p.Expect = Expected(f.Outcome, f.Key)
	return p, f.Outcome
}

// Save writes the finding below dir, and has the runner add the history of the
// smallest plan. With these flags it is replayed where it was found.
func (f *Found) Save(ctx context.Context, runner Runner, dir string, flags ...string) error {
	f.Dir = filepath.Join(dir, "findings", f.Key)
	if err := os.MkdirAll(f.Dir, 0o755); err != nil {
		return fmt.Errorf("saving a finding: %w", err)
	}
	f.Replay = Replay(filepath.Join(f.Dir, PlanFile), flags...)
	smallest, outcome := f.Smallest()
	runner.Run(ctx, []Job{{Plan: smallest, Options: Options{Keep: f.Dir}}}) // without it the plan still tells
	text, err := json.MarshalIndent(outcome.lean(), "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		WritePlan(filepath.Join(f.Dir, PlanFile), smallest, flags...),
		WritePlan(filepath.Join(f.Dir, FirstFile), f.Plan, flags...),
		os.WriteFile(filepath.Join(f.Dir, OutcomeFile), append(text, '\n'), 0o644),
		os.WriteFile(filepath.Join(f.Dir, ReadmeFile), []byte(f.readme()), 0o644))
}

// Save writes the plan below dir. With these flags it is replayed where it was run.
func (u *Unsure) Save(dir string, flags ...string) error {
	dir = filepath.Join(dir, "inconclusive")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("saving what could not be judged: %w", err)
	}
	file := filepath.Join(dir, strings.ReplaceAll(u.Cell, "#", "-")+".yaml")
	u.Replay = Replay(file, flags...)
	return WritePlan(file, u.Plan, flags...)
}

// WritePlan writes a plan as YAML, with the line that replays it below.
func WritePlan(file string, p ringproof.Plan, flags ...string) error {
	var text bytes.Buffer
	if err := scenarios.WritePlan(&text, p); err != nil {
		return err
	}
	fmt.Fprintf(&text, "# replay: %s\n", Replay(file, flags...))
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// Replay is the line to paste that runs a saved plan again.
func Replay(file string, flags ...string) string {
	return strings.Join(append([]string{"ringproof replay", quoted(file)}, flags...), " ")
}

// plain matches a name that a shell takes as it stands.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./=:@%+,-]+$`)

// quoted is the name as one word of a POSIX shell.
func quoted(name string) string {
	if plain.MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

func (f *Found) readme() string {
	file := filepath.Join(f.Dir, PlanFile)
	text := fmt.Sprintf("# %s\n\n%s\n\nFirst shown by seed %d; %s is the plan.\n", f.Key, f.Finding.Message, f.Seed, FirstFile)
	if f.Shrunk != nil {
		text += fmt.Sprintf("Shrunk from %d steps with %d faults to %d with %d, in %d runs; %s is the plan.\n",
			len(f.Plan.Steps), len(faultSteps(f.Plan)), f.Shrunk.Steps, f.Shrunk.Faults, f.Shrunk.Runs, PlanFile)
	}
	text += fmt.Sprintf("\n    %s\n", f.Replay)
	if f.Plan.Ring.On == "" { // else there is no other world that has it
		text += fmt.Sprintf("    ringproof confirm %s --world local\n", quoted(file))
	}
	return text
}
