// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// Shrinker makes a failing plan small. It works on the plan itself, step by
// step as a person would, and not on the draws that made it: any plan can be
// shrunk, a scenario's too.
type Shrinker struct {
	Runner Runner
	Runs   int           // how many runs it may cost; 0: 300
	For    time.Duration // how long it may take on the wall; 0: a minute
}

const (
	shrinkRuns = 300
	shrinkFor  = time.Minute
	// batch is how many candidates are run before one is chosen. It is the same
	// whatever the number of workers, and the first that fails is taken, not the
	// one that is done first: else the result would depend on the machine's load.
	batch = 4
)

// Shrunk is a plan that was made small.
type Shrunk struct {
	Plan    ringproof.Plan `json:"-"`
	Outcome Outcome        `json:"-"`
	Key     string         `json:"key"`
	Steps   int            `json:"steps"`
	Faults  int            `json:"faults"`
	Runs    int            `json:"runs"` // that it cost
	Seconds float64        `json:"seconds"`
	Minimal bool           `json:"minimal"` // nothing more could be left out; false: the budget ran out
}

// ErrPasses says that a plan doesn't fail as it should: it can't be shrunk.
var ErrPasses = errors.New("the plan does not fail so")

// Shrink returns the smallest plan found that still fails with that key.
func (s Shrinker) Shrink(ctx context.Context, plan ringproof.Plan, key string) (Shrunk, error) {
	if s.Runs == 0 {
		s.Runs = shrinkRuns
	}
	if s.For == 0 {
		s.For = shrinkFor
	}
	limited, cancel := context.WithTimeout(ctx, s.For)
	defer cancel()
	began := time.Now()
	plan.Expect = nil
	x := &shrinking{Shrinker: s, ctx: limited, key: key, known: map[[32]byte]Outcome{}}
	if failed, err := x.try([]ringproof.Plan{plan}); err != nil {
		return Shrunk{}, err
	} else if !failed {
		return Shrunk{}, fmt.Errorf("shrinking %s for %s: %w", plan.Cell, key, ErrPasses)
	}
	err := x.all()
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return x.shrunk(began), err
}

// shrinking is one plan on its way.
type shrinking struct {
	Shrinker
	ctx   context.Context
	key   string
	known map[[32]byte]Outcome // by the hash of the plan
	runs  int
	done  bool // nothing more can be left out

	best    ringproof.Plan
	outcome Outcome
}

// all goes through the passes until none of them leaves anything out.
func (x *shrinking) all() error {
	for {
		before := x.best
		for _, pass := range passes {
			for {
				smaller, err := x.try(pass(x.best))
				if err != nil {
					return err
				}
				if !smaller {
					break
				}
			}
		}
		if digest(before) == digest(x.best) {
			x.done = x.runs < x.Runs
			return nil
		}
	}
}

// try takes the first candidate that fails.
func (x *shrinking) try(candidates []ringproof.Plan) (bool, error) {
	for len(candidates) > 0 && x.runs < x.Runs {
		n := min(batch, len(candidates))
		outcomes, err := x.run(candidates[:n])
		if err != nil {
			return false, err
		}
		for i, o := range outcomes {
			if o.fails(x.key) {
				x.best, x.outcome = candidates[i], o
				return true, nil
			}
		}
		candidates = candidates[n:]
	}
	return false, nil
}

// run runs the plans that were not run before.
func (x *shrinking) run(plans []ringproof.Plan) ([]Outcome, error) {
	var jobs []Job
	for _, p := range plans {
		if _, ran := x.known[digest(p)]; !ran {
			jobs = append(jobs, Job{Plan: p})
		}
	}
	x.runs += len(jobs)
	for i, r := range x.Runner.Run(x.ctx, jobs) {
		if r.Err != nil {
			return nil, r.Err
		}
		x.known[digest(jobs[i].Plan)] = r.Outcome.lean()
	}
	outcomes := make([]Outcome, len(plans))
	for i, p := range plans {
		outcomes[i] = x.known[digest(p)]
	}
	return outcomes, nil
}

func (x *shrinking) shrunk(began time.Time) Shrunk {
	s := Shrunk{Plan: x.best, Outcome: x.outcome, Key: x.key, Steps: len(x.best.Steps), Faults: len(faultSteps(x.best)),
		Runs: x.runs, Seconds: time.Since(began).Seconds(), Minimal: x.done}
	s.Plan.Expect = Expected(x.outcome, x.key)
	return s
}

// Expected is what a saved plan says of its outcome; key picks the finding,
// the first that fails when it is empty.
func Expected(o Outcome, key string) *ringproof.Expect {
	for _, f := range o.failing() {
		if key == "" || Key(f) == key {
			return &ringproof.Expect{Verdict: ringproof.Fail.String(), Check: f.Check, Hash: o.trace()}
		}
	}
	return &ringproof.Expect{Verdict: o.Verdict.String(), Hash: o.trace()}
}

// trace is the hash of the run, as a plan holds it; one in real time has none.
func (o Outcome) trace() string {
	if o.Hash == 0 {
		return ""
	}
	return HexHash(o.Hash)
}

// digest tells two plans apart.
func digest(p ringproof.Plan) [32]byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("a plan that can't be written: %v", err))
	}
	return sha256.Sum256(text)
}

// KeyOf returns the key of the first finding that fails, or of the first of
// that check.
func (o Outcome) KeyOf(check string) (string, error) {
	var failed []string
	for _, f := range o.failing() {
		if check == "" || f.Check == check {
			return Key(f), nil
		}
		failed = append(failed, f.Check)
	}
	if len(failed) == 0 {
		return "", fmt.Errorf("no check fails it: %s", o.Verdict)
	}
	return "", fmt.Errorf("%s doesn't fail it, but %s", check, strings.Join(failed, ", "))
}
