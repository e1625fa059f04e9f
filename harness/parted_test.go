// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestParted: of what two runs have recorded the earliest difference is told, whether it
// is an event or an answer.
func TestParted(t *testing.T) {
	begins := ringproof.Event{At: 1e9, Kind: ringproof.EventLoadEnds}
	run := func(read ringproof.Instant, ends ...ringproof.Event) ringproof.History {
		return ringproof.History{Events: append([]ringproof.Event{begins}, ends...), Operations: []ringproof.Operation{{Client: 1, Call: 2e9, Return: read}}}
	}
	down := ringproof.Event{At: 4e9, Kind: ringproof.EventMemberDown, Machine: "m2"}
	assert.Equal(t, "what was recorded of both is equal", parted(run(3e9, down), run(3e9, down)))
	assert.Contains(t, parted(run(3e9, down), run(3e9)), `member-down       m2 at 4s", and the second "nothing more"`)
	later := parted(run(3e9, down), run(3e9+1))
	assert.Contains(t, later, "of client 1, from 2s to 3s")
	assert.Contains(t, later, "of client 1, from 2s to 3.000000001s")
}
