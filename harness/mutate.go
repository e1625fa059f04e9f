// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"slices"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/reports"
)

// Trial is one mutant, or one release of a known bug, and what became of it.
type Trial struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"`     // OfMutant, OfAffected or OfFixed
	Check    string   `json:"check"`    // that must fail it
	FailedBy []string `json:"failedBy"` // the checks that failed it
	Verdict  string   `json:"verdict"`
	Seeds    int      `json:"seeds"`   // that ran, the last of them the one that decided
	Reached  int      `json:"reached"` // cells in which the mutant did what it does wrong
	Seconds  float64  `json:"seconds"` // on the wall, all its cells
	Cells    []string `json:"cells"`   // that ran
	Replay   string   `json:"replay,omitempty"`

	Jobs []Job `json:"-"` // cell by cell, seed after seed

	findings [][]ringproof.Finding // by cell
	unsure   bool
}

// The kinds of trials: a mutant of the reference, a release with a bug, and one
// without it.
const (
	OfMutant   = "mutant"
	OfAffected = "affected"
	OfFixed    = "fixed"
)

// What becomes of a trial.
const (
	Killed        = "killed"         // a mutant failed the check that is meant for it
	Reproduced    = "reproduced"     // so did a release with a bug
	AnotherCheck  = "another-check"  // it failed, but not by that check
	Survived      = "survived"       // it passed, though it did what is wrong
	NotCovered    = "not-covered"    // it passed, and never did what is wrong
	Passed        = "passed"         // a release without the bug passed
	FalsePositive = "false-positive" // a release without the bug failed
	Unjudged      = "inconclusive"
)

// Mutate runs round after round, a cell of each trial that is open, until none is, and
// judges what became of each. It returns the cells. run returns a cell for each job, in
// their order.
func Mutate(ctx context.Context, trials []Trial, run func([]Job) ([]reports.Cell, error)) (all []reports.Cell, err error) {
	for ctx.Err() == nil {
		open, due := next(trials)
		if len(due) == 0 {
			break
		}
		cells, err := run(due)
		if err != nil {
			return all, err
		}
		for i, cell := range cells {
			open[i].credit(cell)
		}
		all = append(all, cells...)
	}
	for i := range trials {
		trials[i].judge()
	}
	return all, nil
}

// NewTrial is a trial that has not begun: check is what must fail it.
func NewTrial(name, kind, check string, jobs []Job) Trial {
	return Trial{Name: name, Kind: kind, Check: check, FailedBy: []string{}, Cells: []string{}, Jobs: jobs}
}

// next takes the next cell of every trial that isn't decided yet.
func next(trials []Trial) (open []*Trial, due []Job) {
	for i := range trials {
		t := &trials[i]
		if ran := len(t.Cells); ran < len(t.Jobs) && !t.Decided() {
			open, due = append(open, t), append(due, t.Jobs[ran])
		}
	}
	return open, due
}

// Decided reports whether no further cell can change the verdict.
func (t *Trial) Decided() bool {
	if t.Kind == OfFixed {
		return len(t.FailedBy) > 0
	}
	return slices.Contains(t.FailedBy, t.Check)
}

// credit adds what the trial's next cell came to.
func (t *Trial) credit(cell reports.Cell) {
	if n := len(t.Cells); n == 0 || t.Jobs[n].Plan.Seed != t.Jobs[n-1].Plan.Seed {
		t.Seeds++
	}
	t.Cells = append(t.Cells, cell.Name)
	t.Replay = cell.Replay
	t.findings = append(t.findings, cell.Findings)
	if len(cell.Reached) > 0 {
		t.Reached++
	}
	if cell.Measurements.WallSeconds != nil {
		t.Seconds += *cell.Measurements.WallSeconds
	}
	if t.Kind != OfMutant && len(cell.Missed) > 0 {
		t.unsure = true // the fault that shows the bug did not happen as written
		return
	}
	for _, f := range cell.Findings {
		if t.notices(f) && !slices.Contains(t.FailedBy, f.Check) {
			t.FailedBy = append(t.FailedBy, f.Check)
		}
	}
	t.unsure = t.unsure || cell.Verdict == ringproof.Inconclusive
}

// notices reports whether the finding fails the trial. A check that never fails
// notices by its doubt, where it is the one that must.
func (t *Trial) notices(f ringproof.Finding) bool {
	if f.Verdict == ringproof.Inconclusive && f.Check == t.Check {
		c, known := checks.Lookup(f.Check)
		return known && c.Doubts
	}
	return f.Verdict == ringproof.Fail
}

func (t *Trial) judge() {
	whole := !t.unsure && len(t.Cells) > 0 && len(t.Cells) == len(t.Jobs)
	switch {
	case t.Decided() && t.Kind == OfFixed:
		t.Verdict = FalsePositive
	case t.Decided() && t.Kind == OfMutant:
		t.Verdict = Killed
	case t.Decided():
		t.Verdict = Reproduced
	case len(t.FailedBy) > 0:
		t.Verdict = AnotherCheck
	case !whole:
		t.Verdict = Unjudged
	case t.Kind == OfFixed:
		t.Verdict = Passed
	case t.Kind == OfMutant && t.Reached == 0:
		t.Verdict = NotCovered
	default:
		t.Verdict = Survived
	}
}

// Good reports whether the trial came to what it must.
func (t Trial) Good() bool {
	return t.Verdict == Killed || t.Verdict == Reproduced || t.Verdict == Passed
}

// Weight is what one check adds to all others: the mutants that only it notices.
type Weight struct {
	Check string   `json:"check"`
	Only  []string `json:"only"`
	Asked bool     `json:"asked"` // some plan of the trials has what it judges, such as a ring on Kubernetes
}

// Weigh disarms each check in turn. The runs are those of Mutate: what a check
// says changes nothing in them, so none has to run again.
func Weigh(trials []Trial) []Weight {
	var all []Weight
	for _, c := range slices.Concat(checks.Always(), checks.All()) {
		w := Weight{Check: c.Name, Only: []string{}}
		for _, t := range trials {
			w.Asked = w.Asked || slices.ContainsFunc(t.Jobs, func(j Job) bool { return j.NotApplicable == "" && c.Suits(j.Plan) })
			if t.Kind == OfMutant && !t.passes("") && t.passes(c.Name) {
				w.Only = append(w.Only, t.Name)
			}
		}
		all = append(all, w)
	}
	return all
}

// passes reports whether every cell of the trial passes when one check always
// does.
func (t Trial) passes(disarmed string) bool {
	return !slices.ContainsFunc(t.findings, func(cell []ringproof.Finding) bool {
		verdicts := []ringproof.Verdict{}
		for _, f := range cell {
			if f.Check == disarmed {
				f.Verdict = ringproof.Pass
			}
			verdicts = append(verdicts, f.Verdict)
		}
		return ringproof.Merge(verdicts...) != ringproof.Pass
	})
}
