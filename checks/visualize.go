// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ringproof/ringproof"
)

// shownOps is how many operations a picture holds: more than a reader follows,
// and few enough for a browser.
const shownOps = 200

// Visualize draws the part of h where the linearizable check found its first
// wrong: porcupine's page, with the faults of those moments along it. It tells
// false when the finding is of another check or nothing went wrong.
func Visualize(h *ringproof.History, f ringproof.Finding) ([]byte, bool) {
	if f.Check != linearizable.Name || f.Verdict == ringproof.Pass {
		return nil, false
	}
	t := rebuild(h)
	t.judgeReads()
	if len(t.wrongs) == 0 {
		return nil, false
	}
	slices.SortStableFunc(t.wrongs, func(a, b wrong) int { return cmp.Compare(a.revision, b.revision) })
	segments, attempts := t.around(t.gravest())
	return picture(t.model(segments), attempts, faultMarks(h, attempts))
}

// picture is porcupine's page. It takes every step of the search once more, for which the search may
// have left nothing of its budget.
func picture(m *etcdModel, attempts []attempt, marks []porcupine.Annotation) ([]byte, bool) {
	_, drawn := porcupine.CheckOperationsVerbose(m.porcupine(), operations(attempts), 10*time.Second)
	drawn.AddAnnotations(marks)
	m.budget = math.MaxInt
	var page bytes.Buffer
	if err := porcupine.Visualize(m.porcupine(), drawn, &page); err != nil {
		return nil, false
	}
	return page.Bytes(), true
}

// gravest returns the wrong that the finding names first.
func (t *timeline) gravest() wrong {
	for _, w := range t.wrongs {
		if !t.ignorant(w.key) {
			return w
		}
	}
	return t.wrongs[0]
}

// around returns all keys from some revision before the wrong, and the
// operations nearest to it.
func (t *timeline) around(w wrong) ([]segment, []attempt) {
	whole := make([]segment, len(t.names))
	for key := range whole {
		whole[key] = segment{key: key, to: math.MaxInt64}
	}
	all := t.attempts(whole)
	n, _ := slices.BinarySearchFunc(all, w.revision, func(a attempt, r int64) int { return cmp.Compare(a.revision, r) })
	low, high := max(n-shownOps/2, 0), min(n+shownOps/2, len(all))
	shown := slices.Clone(all[low:high])
	if w.op >= 0 && !slices.ContainsFunc(shown, func(a attempt) bool { return a.op == &t.h.Operations[w.op] }) {
		shown = append(shown, t.attemptsOf(all, w.op)...)
	}
	if low == 0 {
		return whole, shown
	}
	for key := range whole {
		whole[key].from = all[low-1].revision
		if was := t.at(key, whole[key].from); was != nil {
			whole[key].start = cell{was.value, was.create, was.revision, was.version}
		}
	}
	return whole, shown
}

func (t *timeline) attemptsOf(all []attempt, op int) []attempt {
	n := slices.IndexFunc(all, func(a attempt) bool { return a.op == &t.h.Operations[op] })
	if n < 0 {
		return nil
	}
	return all[n : n+1]
}

func faultMarks(h *ringproof.History, shown []attempt) []porcupine.Annotation {
	first, last := ringproof.Forever, ringproof.Instant(0)
	for _, a := range shown {
		first = min(first, a.op.Call)
		if a.op.Return != ringproof.Forever {
			last = max(last, a.op.Return)
		}
	}
	var marks []porcupine.Annotation
	for _, e := range events(h, ringproof.EventFaultLanded, ringproof.EventFaultHealed, ringproof.EventLeaderChanged,
		ringproof.EventMemberAdded, ringproof.EventMemberPromoted, ringproof.EventMemberRemoved) {
		if e.At < first.Add(-time.Second) || e.At > last.Add(time.Second) {
			continue
		}
		mark := porcupine.Annotation{Tag: "ring", Start: int64(e.At), Description: string(e.Kind), Details: e.String()}
		if e.Kind == ringproof.EventFaultLanded {
			mark.Tag, mark.BackgroundColor, mark.Description = "faults", "#f4b6a6", string(e.Fault)
		}
		marks = append(marks, mark)
	}
	return marks
}
