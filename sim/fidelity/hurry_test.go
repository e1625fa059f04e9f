// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answer is how a play's last command is answered.
type answer struct {
	after time.Duration
	err   error
}

// pace is a system that answers a cut as each of its plays is to. A join takes
// a second.
type pace struct {
	Machines
	virtual bool
	answers []answer // one a play
	plays   int
	now     time.Time
}

func (*pace) Name() string      { return "pace" }
func (*pace) Release() string   { return "v3.6.16" }
func (*pace) Lacks(Need) string { return "" }

func (p *pace) Play(_ Script, play func(context.Context, Machines)) error {
	p.plays++
	play(context.Background(), p)
	return nil
}

func (p *pace) Now() time.Time { return p.now }
func (p *pace) Virtual() bool  { return p.virtual }

func (p *pace) Join(string) error {
	p.now = p.now.Add(time.Second)
	return nil
}

func (p *pace) Cut(string) error {
	now := p.answers[p.plays-1]
	p.now = p.now.Add(now.after)
	return now.err
}

const hurried = "join c\n----\nc is back\n\ncut c hurry=5s\n----\nc is cut off\n"

// TestHurry: only what came too late is played again, and what never came in
// time is no agreement. The join counts: etcd may count from its beginning.
func TestHurry(t *testing.T) {
	const inTime, tooLate = 4*time.Second - 1, 4 * time.Second
	other := errors.New("another answer")
	for name, c := range map[string]struct {
		answers []answer
		virtual bool
		plays   int
		want    Summary
		says    string
	}{
		"in time":                       {answers: []answer{{inTime, nil}}, plays: 1, want: Summary{Agree: 1}},
		"too slow, then in time":        {answers: []answer{{tooLate, nil}, {inTime, nil}}, plays: 2, want: Summary{Agree: 1}},
		"too slow to differ":            {answers: []answer{{tooLate, other}, {inTime, nil}}, plays: 2, want: Summary{Agree: 1}},
		"differs in time":               {answers: []answer{{inTime, other}, {inTime, nil}}, plays: 1, want: Summary{Differ: 1}},
		"too slow, then differs":        {answers: []answer{{tooLate, nil}, {inTime, other}, {inTime, nil}}, plays: 2, want: Summary{Differ: 1}},
		"always too slow":               {answers: []answer{{tooLate, nil}, {tooLate, other}, {tooLate, nil}}, plays: 3, want: Summary{Slow: 1}, says: "testdata/x:5: cut c hurry=5s: answered after 5s, and too late in each of 3 plays: the machine is too slow"},
		"too late in virtual time":      {answers: []answer{{tooLate, nil}, {inTime, nil}}, virtual: true, plays: 1, want: Summary{Differ: 1}, says: "this one is wrong"},
		"in time, also in virtual time": {answers: []answer{{inTime, nil}}, virtual: true, plays: 1, want: Summary{Agree: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			script, err := Parse("x", hurried)
			require.NoError(t, err)
			system := &pace{answers: c.answers, virtual: c.virtual}
			r := script.Play(system)
			assert.Equal(t, c.plays, system.plays)
			assert.Equal(t, c.want.Agree == 0, r.Failed())
			assert.Equal(t, c.want.Agree == 1, r.Agrees())
			s := Summarize("", []Result{r})
			assert.Equal(t, c.want, Summary{Agree: s.Agree, Differ: s.Differ, Slow: s.Slow})
			if c.says != "" {
				require.ErrorContains(t, cmp.Or(r.Slow, r.Broken), c.says)
				assert.Equal(t, c.want.Slow == 1, strings.Contains(s.String(), "1 too slow to tell"))
			}
		})
	}
}

// TestSlowIsNotKnown: what may differ may not be taken for it unseen.
func TestSlowIsNotKnown(t *testing.T) {
	script, err := Parse("x", hurried)
	require.NoError(t, err)
	known := Known{{Script: "x", System: "pace", Reason: "it is young"}}
	r := known.Mark(script.Play(&pace{answers: slices.Repeat([]answer{{after: time.Minute}}, attempts)}))
	assert.True(t, r.Failed())
	assert.Equal(t, 1, Summarize("", []Result{r}).Slow)
}

// TestSlowIsNotWritten: a golden that was taken too late would be wrong for all.
func TestSlowIsNotWritten(t *testing.T) {
	script, err := Parse("x", hurried)
	require.NoError(t, err)
	slow := answer{after: time.Minute}
	text, err := script.Rewritten(&pace{answers: []answer{slow, slow, slow}}, "v3.6.16")
	require.ErrorContains(t, err, "too slow to tell")
	assert.Empty(t, text)
	text, err = script.Rewritten(&pace{answers: []answer{slow, {err: errors.New("another answer")}}}, "v3.6.16")
	require.NoError(t, err)
	assert.Contains(t, text, "cut c hurry=5s\n----\nerror: another answer\n")
}
