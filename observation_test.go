// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestOverdue: who was to leave his machine and had another to go to. Of five machines two are
// to be vacated; with one lost there are two others for three voters, so that one may stay.
func TestOverdue(t *testing.T) {
	for name, c := range map[string]struct {
		on   []string
		lost string
		want []string
	}{
		"both have left":                 {on: []string{"m3", "m4", "m5"}},
		"one has not":                    {on: []string{"m2", "m3", "m4"}, want: []string{"m2"}},
		"neither has":                    {on: []string{"m1", "m2", "m3"}, want: []string{"m1", "m2"}},
		"one has nowhere to go":          {on: []string{"m1", "m3", "m4"}, lost: "m5"},
		"one of them has nowhere to go":  {on: []string{"m1", "m2", "m3"}, lost: "m5", want: []string{"m1", "m2"}},
		"a machine that is lost is none": {on: []string{"m2", "m3", "m4"}, lost: "m1", want: []string{"m2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var o ringproof.Observation
			for _, machine := range []string{"m1", "m2", "m3", "m4", "m5"} {
				o.Machines = append(o.Machines, ringproof.MachineView{Name: machine, Lost: machine == c.lost})
			}
			for _, machine := range c.on {
				o.Members = append(o.Members, ringproof.MemberView{Machine: machine})
			}
			assert.Equal(t, c.want, o.Overdue([]string{"m1", "m2"}, 3))
		})
	}
}
