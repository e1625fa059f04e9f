// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Result is one script on one system.
type Result struct {
	Script  string
	System  string
	Skipped string // why it was not played
	Known   string // why it may differ
	Differs string // where, and how; "" when it agrees
	Broken  error  // the system could not be had
	Slow    error  // its answers came too late to say anything
	Void    int    // plays that were late, and repeated
	got     []*string
}

// Agrees reports whether the system printed the transcript.
func (r Result) Agrees() bool {
	return r.Skipped == "" && r.Differs == "" && r.Broken == nil && r.Slow == nil
}

// Failed reports whether the result is to be mended: a difference that is not
// known, or a known one that is gone.
func (r Result) Failed() bool {
	if r.Known != "" && r.Skipped == "" {
		return r.Differs == ""
	}
	return r.Differs != "" || r.Broken != nil || r.Slow != nil
}

// Play plays a script on a system, up to the first difference.
func (s Script) Play(system System) Result {
	return s.play(system, func(st step, got string) bool { return st.want == got })
}

// stalled reports whether a step that waits for something waited in vain: on a busy
// machine that says nothing. Who means it says within=, or writes it by hand.
func (s step) stalled(got string) bool {
	if _, bounded := s.call.opts["within"]; bounded || got == s.want {
		return false
	}
	switch s.call.name {
	case "ring":
		return !strings.Contains(got, " serve") || strings.Contains(got, "doesn't")
	case "start":
		return strings.HasSuffix(got, " doesn't serve\n")
	case "leader":
		return strings.HasSuffix(got, " doesn't lead\n")
	case "wait-leader":
		return got == "no leader\n"
	case "wait-leaderless", "cut":
		return strings.Contains(got, "keeps its leader")
	case "wait-applied", "hash":
		return strings.HasSuffix(got, "don't catch up\n")
	}
	return false
}

// Rewritten plays a script to its end, whatever etcd says, and returns its text
// with that. A system of another release than the transcripts are taken from
// changes only what the others don't do. Nothing to change is "".
func (s Script) Rewritten(system System, taken string) (string, error) {
	own := minor(system.Release()) == minor(taken)
	foreign := len(s.Only) > 0 && !slices.Contains(s.Only, minor(taken))
	mine := func(st step) bool { return own || foreign || !st.on(taken) && st.on(system.Release()) }
	if !slices.ContainsFunc(s.steps, mine) {
		return "", nil
	}
	r := s.play(system, func(step, string) bool { return true })
	if r.Skipped != "" || r.Broken != nil || r.Slow != nil {
		return "", cmp.Or(r.Broken, r.Slow)
	}
	for i, st := range s.steps {
		if got := r.got[i]; got != nil && st.stalled(*got) {
			return "", fmt.Errorf("testdata/%s:%d: %s: %swhich is no answer, but a machine that is too slow: nothing is written", s.Name, st.line, st.call.name, *got)
		}
		if !mine(st) {
			r.got[i] = nil
		}
	}
	return s.text(r.got), nil
}

// play repeats what was too late to say anything, and nothing else.
func (s Script) play(system System, accept func(step, string) bool) Result {
	for void := 0; ; void++ {
		r, late := s.once(system, accept)
		r.Void = void
		if late == nil || r.Broken != nil {
			return r
		}
		switch {
		case late.virtual:
			r.Broken = s.tooSlow(late)
			return r
		case void+1 == attempts:
			r.Slow = s.tooSlow(late)
			return r
		}
	}
}

func (s Script) once(system System, accept func(step, string) bool) (result Result, late *delay) {
	result = Result{Script: s.Name, System: system.Name(), Skipped: s.unfit(system), got: make([]*string, len(s.steps))}
	if result.Skipped != "" {
		return result, nil
	}
	result.Broken = system.Play(s, func(ctx context.Context, machines Machines) {
		stage := newStage(system.Release(), machines)
		defer stage.close()
		for i, st := range s.steps {
			if !st.on(system.Release()) || st.call.name == "needs" || st.call.name == "only" {
				continue
			}
			var got string
			if got, late = stage.timed(ctx, st); late != nil {
				return
			}
			result.got[i] = &got
			if !accept(st, got) {
				result.Differs = fmt.Sprintf("testdata/%s:%d: %swant:\n%sgot:\n%s", s.Name, st.line, st.text, indent(st.want), indent(got))
				return
			}
		}
	})
	return result, late
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
	return b.String()
}

// Summary counts the results of one system.
type Summary struct {
	System                        string
	Agree, Differ, Known, Skipped int
	Slow                          int      // neither: the machine was too slow to tell
	Failures                      []Result // by script
}

// String is the line of a system: "v3.6.16  62 agree  0 differ  1 known  2 skipped".
func (s Summary) String() string {
	line := fmt.Sprintf("%-18s %3d agree  %3d differ  %3d known  %3d skipped", s.System, s.Agree, s.Differ, s.Known, s.Skipped)
	if s.Slow > 0 {
		line += fmt.Sprintf("  %3d too slow to tell", s.Slow)
	}
	return line
}

// Summarize counts results, which are of one system.
func Summarize(system string, results []Result) Summary {
	s := Summary{System: system}
	for _, r := range results {
		switch {
		case r.Skipped != "":
			s.Skipped++
		case r.Slow != nil:
			s.Slow++
		case r.Agrees():
			s.Agree++
		case r.Known != "":
			s.Known++
		default:
			s.Differ++
		}
		if r.Failed() {
			s.Failures = append(s.Failures, r)
		}
	}
	slices.SortFunc(s.Failures, func(a, b Result) int { return strings.Compare(a.Script, b.Script) })
	return s
}

// Run plays every script on a system, one after the other.
func Run(system System) (Summary, error) {
	scripts, err := Scripts()
	if err != nil {
		return Summary{}, err
	}
	known, err := Differences()
	if err != nil {
		return Summary{}, err
	}
	var results []Result
	for _, script := range scripts {
		results = append(results, known.Mark(script.Play(system)))
	}
	return Summarize(system.Name(), results), nil
}

// Difference is a script that a system doesn't print, and may not.
type Difference struct {
	Script string `yaml:"script"`
	System string `yaml:"system"` // its name, or the beginning of it
	Reason string `yaml:"reason"`
}

// Known are the differences that have a reason.
type Known []Difference

// Differences reads testdata/known.yaml.
func Differences() (Known, error) {
	text, err := testdata.ReadFile("testdata/known.yaml")
	if err != nil {
		return nil, err
	}
	var known Known
	if err := yaml.Unmarshal(text, &known); err != nil {
		return nil, fmt.Errorf("testdata/known.yaml: %w", err)
	}
	return known, nil
}

// Mark writes into a result why it may differ.
func (k Known) Mark(r Result) Result {
	for _, d := range k {
		if d.Script == r.Script && strings.HasPrefix(r.System, d.System) {
			r.Known = d.Reason
		}
	}
	return r
}
