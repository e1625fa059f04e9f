// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// mortal is a world whose ring can be deleted.
type mortal struct {
	*toy
	refuses int                                                 // so many requests to delete it
	left    func(since time.Duration) (all []string, err error) // since it was deleted
	deleted time.Time
}

func (m *mortal) Delete(context.Context) error {
	if m.refuses--; m.refuses >= 0 {
		return errors.New("connection refused")
	}
	m.deleted = time.Now()
	return nil
}

func (m *mortal) Left(context.Context) ([]string, error) { return m.left(time.Since(m.deleted)) }

// A ring is deleted once all else has been judged, and what happens from then on is in no history.
func TestEnd(t *testing.T) {
	off := ringproof.Fault{Kind: ringproof.FaultKill, Scope: "process", Target: "m2", For: 5e9}
	claim := func(long time.Duration) func(time.Duration) ([]string, error) {
		return func(since time.Duration) ([]string, error) {
			if since < long {
				return []string{"persistentvolumeclaim/data-r-0"}, nil
			}
			return nil, nil
		}
	}
	for name, c := range map[string]struct {
		world *mortal
		fault *ringproof.Fault
		judge func(t *testing.T, e ringproof.Ending)
	}{
		"it goes": {&mortal{toy: &toy{}, refuses: 3, left: claim(4 * time.Second)}, nil, func(t *testing.T, e ringproof.Ending) {
			assert.Empty(t, e.Left)
			assert.InDelta(t, 4*time.Second, e.Took.Std(), float64(poll))
		}},
		"something stays": {&mortal{toy: &toy{}, left: claim(time.Hour)}, nil, func(t *testing.T, e ringproof.Ending) {
			assert.Equal(t, []string{"persistentvolumeclaim/data-r-0"}, e.Left)
			assert.GreaterOrEqual(t, e.Took.Std(), 20*time.Second)
			assert.Empty(t, e.Err)
		}},
		"it comes again": {&mortal{toy: &toy{}, left: func(since time.Duration) ([]string, error) {
			if since > 7*time.Second {
				return []string{"configmap/r-identity"}, nil
			}
			return nil, nil
		}}, &off, func(t *testing.T, e ringproof.Ending) {
			assert.Equal(t, []string{"configmap/r-identity"}, e.Left, "who was held up for five seconds has made it again")
			assert.Less(t, e.Took.Std(), time.Second)
		}},
		"nobody can tell": {&mortal{toy: &toy{}, left: func(time.Duration) ([]string, error) { return []string{"pod/r-0"}, errors.New("no answer") }}, nil, func(t *testing.T, e ringproof.Ending) {
			assert.Equal(t, "no answer", e.Err)
			assert.Empty(t, e.Left)
		}},
		"while one is away": {&mortal{toy: &toy{}, left: claim(time.Second)}, &off, func(t *testing.T, e ringproof.Ending) {
			assert.NotEmpty(t, e.Fault)
			assert.Empty(t, e.Err)
		}},
		"the fault does not land": {&mortal{toy: &toy{injecting: func(ringproof.Step, []string) error { return errors.New("no process") }}, left: claim(0)}, &off, func(t *testing.T, e ringproof.Ending) {
			assert.Equal(t, "kill did not land: no process", e.Err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := ring()
			p.End = &ringproof.End{Within: ringproof.Duration(20 * time.Second), Fault: c.fault}
			h := playIn(t, c.world, c.world.toy, p)
			require.NotNil(t, h.Evidence.End)
			c.judge(t, *h.Evidence.End)
			assert.Equal(t, ringproof.EventRunEnds, h.Events[len(h.Events)-1].Kind, "nothing that came after is in the history")
			assert.Empty(t, of(h, ringproof.EventFaultLanded, ""))
		})
	}
	p := ring()
	p.End = &ringproof.End{Within: ringproof.Duration(time.Second)}
	assert.Equal(t, "no ring of the toy world can be deleted", play(t, &toy{}, p).Evidence.End.Err)
}
