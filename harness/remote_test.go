// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// remote is a world whose plan another process carries out.
type remote struct {
	ringproof.World
	trace  func() string
	refuse error
}

func (w remote) CarryOut(_ context.Context, p ringproof.Plan, told func(ringproof.Event)) (ringproof.History, error) {
	e := ringproof.Event{Kind: ringproof.EventRunBegins}
	if told != nil {
		told(e)
	}
	return ringproof.History{Plan: p, Events: []ringproof.Event{e}, Trace: w.trace()}, w.refuse
}

// TestRemote: what another process carried out is judged and kept as if it had been done here.
func TestRemote(t *testing.T) {
	w := remote{trace: func() string { return "abc" }}
	heard := 0
	s := Suite{Jobs: []Job{{Plan: ringproof.Plan{Cell: "far#1"}}}, Out: t.TempDir(), OnProgress: func(p Progress) {
		if p.Event != nil {
			heard++
		}
	}, World: func(ringproof.Plan) (ringproof.World, error) { return w, nil }}
	cells := s.Run(t.Context())
	assert.Equal(t, 1, heard)
	assert.Equal(t, "abc", cells[0].Trace)
	w.refuse = errors.New("its seat ended")
	require.Contains(t, s.Run(t.Context())[0].Findings[0].Message, "its seat ended")
}

// TestTwice: a plan that isn't the same the second time is told as such, and is no pass.
func TestTwice(t *testing.T) {
	for _, wanders := range []bool{false, true} {
		runs := 0
		w := remote{trace: func() string {
			if runs++; wanders {
				return fmt.Sprint(runs)
			}
			return "same"
		}}
		s := Suite{Jobs: []Job{{Plan: ringproof.Plan{Cell: "far#1"}}}, Out: t.TempDir(), Twice: true, World: func(ringproof.Plan) (ringproof.World, error) { return w, nil }}
		cell := s.Run(t.Context())[0]
		assert.Equal(t, 2, runs)
		found := false
		for _, f := range cell.Findings {
			found = found || f.Verdict == ringproof.Inconclusive && strings.Contains(f.Message, "its trace was 1 and then 2")
		}
		assert.Equal(t, wanders, found)
	}
}

// TestBroken: a bug of ringproof's own judges no plan, and takes no other along.
func TestBroken(t *testing.T) {
	w := remote{trace: func() string { return "same" }}
	s := Suite{Jobs: []Job{{Plan: ringproof.Plan{Cell: "near#1"}}, {Plan: ringproof.Plan{Cell: "far#1"}}}, Out: t.TempDir(), World: func(p ringproof.Plan) (ringproof.World, error) {
		if p.Cell == "near#1" {
			panic("a world without a bottom")
		}
		return w, nil
	}}
	cells := s.Run(t.Context())
	assert.Equal(t, ringproof.Inconclusive, cells[0].Verdict)
	require.Len(t, cells[0].Findings, 1)
	assert.Contains(t, cells[0].Findings[0].Message, "ringproof itself broke, which is a bug of it: a world without a bottom")
	assert.Equal(t, filepath.Join("cells", "near_1_", "plan.yaml"), cells[0].PlanFile, "it can be replayed")
	assert.Equal(t, "same", cells[1].Trace)
}
