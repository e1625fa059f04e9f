// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"context"
	"fmt"
	"strings"

	"github.com/ringproof/ringproof"
)

// Divergence is a plan that two processes ran differently. Nothing that was
// found can be trusted until its cause is.
type Divergence struct {
	Cell   string         `json:"cell"`
	Hashes [2]string      `json:"hashes"`
	Lines  [2]string      `json:"lines"` // the first event that differs, as each process had it; "": not found
	Note   string         `json:"note,omitempty"`
	Plan   ringproof.Plan `json:"-"`
}

// HexHash prints a trace hash as plans and reports hold it.
func HexHash(hash uint64) string { return fmt.Sprintf("%016x", hash) }

func differ(a, b Result) bool {
	return a.Outcome.Hash != b.Outcome.Hash || a.Outcome.Events != b.Outcome.Events || a.Broken != b.Broken
}

// divergence runs the plan again in both, for the lines between the last mark
// that is equal and the first that isn't.
func (s Search) divergence(ctx context.Context, p ringproof.Plan, a, b Outcome) Divergence {
	d := Divergence{Cell: p.Cell, Hashes: [2]string{HexHash(a.Hash), HexHash(b.Hash)}, Plan: p}
	mark := firstDifference(a.Marks, b.Marks)
	job := []Job{{Plan: p, Options: Options{TraceFrom: mark*MarkEvery + 1, TraceTo: (mark+1)*MarkEvery + 1}}}
	one, other := s.Runner.Run(ctx, job)[0], s.Mirror.Run(ctx, job)[0]
	switch {
	case one.Err != nil || other.Err != nil || one.Broken+other.Broken != "":
		d.Note = "a second look failed"
		return d
	case !differ(one, other):
		d.Note = fmt.Sprintf("a second look saw no difference: it depends on what the process did before; they had parted after event %d, and within %d", mark*MarkEvery, MarkEvery)
	}
	x, y := one.Outcome.TraceLines, other.Outcome.TraceLines
	if i := firstDifference(x, y); i < max(len(x), len(y)) {
		d.Lines = [2]string{lineAt(x, i), lineAt(y, i)}
	}
	return d
}

// firstDifference is the first index at which a and b differ; one that ends
// there differs.
func firstDifference[E comparable](a, b []E) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// lineAt is one line of a trace. An indented one tells more of the event above
// it, and means nothing without.
func lineAt(lines []string, i int) string {
	if i >= len(lines) {
		return "(the trace ends)"
	}
	line := strings.TrimSpace(lines[i])
	for ; i > 0 && strings.HasPrefix(lines[i], " "); i-- {
		if !strings.HasPrefix(lines[i-1], " ") {
			line = lines[i-1] + ": " + line
		}
	}
	return line
}
