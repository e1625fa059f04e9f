// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestASlowWorkerIsNoBug looks at workers once a second of ten minutes: what each
// uses and waits of it.
func TestASlowWorkerIsNoBug(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		used, waited time.Duration
		unknown      bool
		stopped      bool
		after        time.Duration // when it is given up; 0: never
		bug          bool
	}{
		"has the processor to itself":        {used: s, after: 61 * s, bug: true},
		"has a tenth of it":                  {used: s / 10, waited: 9 * s / 10},
		"gets nothing, and wants it":         {waited: s},
		"wants nothing":                      {after: 61 * s, bug: true},
		"wants as much as a sleeper does":    {used: s / 1000, after: 61 * s, bug: true},
		"is stopped":                         {stopped: true},
		"is on a host that keeps no account": {unknown: true, after: 61 * s},
	} {
		t.Run(name, func(t *testing.T) {
			e := effort{known: !c.unknown, stopped: c.stopped}
			p := newProgress(time.Minute, e)
			var err error
			given := time.Duration(0)
			for i := 1; i <= 600 && err == nil; i++ {
				e.used, e.waited = e.used+c.used, e.waited+c.waited
				given = time.Duration(i) * s
				err = p.look(p.began.Add(given), e)
			}
			var bug broken
			assert.Equal(t, c.bug, errors.As(err, &bug), "%v", err)
			if c.after == 0 {
				assert.NoError(t, err)
			} else {
				assert.Equal(t, c.after, given)
			}
		})
	}
}

func TestAWorkerThatIsStarvedForEverIsGivenUp(t *testing.T) {
	p := newProgress(time.Second, effort{known: true})
	err := p.look(p.began.Add(31*time.Second), effort{known: true, waited: 31 * time.Second})
	var bug broken
	assert.False(t, errors.As(err, &bug))
	assert.ErrorContains(t, err, "can't be told")
}

// TestWhoStoodStillTooAccusesNobody: the host was suspended, and both with it.
func TestWhoStoodStillTooAccusesNobody(t *testing.T) {
	p := newProgress(time.Minute, effort{known: true})
	assert.NoError(t, p.look(p.began.Add(3*time.Second), effort{known: true}))
	assert.NoError(t, p.look(p.began.Add(78*time.Second), effort{known: true}))
	assert.NoError(t, p.look(p.began.Add(81*time.Second), effort{known: true}))
}
