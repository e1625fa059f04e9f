// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package seam

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

var m1 = Origin{Machine: "m1"}

func TestAJournalBeginsAnew(t *testing.T) {
	j := &Journal{}
	before := j.Reach(m1, "start")
	j.Begin()
	after := j.Reach(m1, "start")
	j.Done(before)
	assert.Equal(t, []ringproof.Effect{{Machine: "m1", Name: "start", Nth: 1, State: "0"}}, j.Effects, "what was under way is not in it")
	j.Done(after)
	j.End()
	j.Done(j.Reach(m1, "stop"))
	j.Decided(m1, "next", "", false)
	assert.Equal(t, []ringproof.Effect{{Machine: "m1", Name: "start", Nth: 1, Done: 1, State: "0"}}, j.Effects)
	assert.Empty(t, j.Decisions)
	var none *Journal
	none.Begin()
	none.Done(none.Reach(m1, "start"))
	none.Decided(m1, "next", "", false)
}

// What is tried again is the same change: a sweep need not cut in every try.
func TestAJournalTellsHowManyChangesWereDecided(t *testing.T) {
	j := &Journal{}
	for _, said := range []string{"wait", "add", "add", "wait", "remove", "add"} {
		j.Decided(m1, "next", said, said != "wait")
		j.Reach(m1, "etcd put")
	}
	var decisions, effects []string
	for i := range j.Decisions {
		decisions, effects = append(decisions, j.Decisions[i].State), append(effects, j.Effects[i].State)
	}
	assert.Equal(t, []string{"0 wait", "0 add", "1 add", "1 wait", "1 remove", "2 add"}, decisions)
	assert.Equal(t, []string{"0", "1", "1", "1", "2", "3"}, effects)
}
