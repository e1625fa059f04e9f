// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestARemovalMayBeCommittedTwice: a ring that was down as a whole may not know what it
// had committed last, and the removed member is one of its voters until it does.
func TestARemovalMayBeCommittedTwice(t *testing.T) {
	for name, c := range map[string]struct {
		seen []ringproof.Observation
		want ringproof.Verdict
	}{
		"all have started again, and none serves":  {[]ringproof.Observation{seen(39, 2)}, ringproof.Pass},
		"one of the others serves":                 {[]ringproof.Observation{seen(39, 2, 1)}, ringproof.Fail},
		"all had started again, long before":       {[]ringproof.Observation{seen(30, 2), seen(31, 2, 1)}, ringproof.Fail},
		"no etcd runs but that of who was removed": {[]ringproof.Observation{lonely(seen(39, 2))}, ringproof.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			h := healthy()
			h.Observations = append(h.Observations[:2:2], c.seen...)
			event(h, ringproof.Event{At: sec(40), Kind: ringproof.EventMemberUp, Member: 2})
			f := noIdentityReuse.Judge(h, nil)
			assert.Equal(t, c.want, f.Verdict, "%+v", f)
		})
	}
}

// lonely is the observation with one etcd, on m2.
func lonely(o ringproof.Observation) ringproof.Observation {
	for i := range o.Machines {
		o.Machines[i].Etcd = o.Machines[i].Name == "m2"
	}
	return o
}
