// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRaftAlone: what is measured is work that was done, on every member.
func TestRaftAlone(t *testing.T) {
	const seconds = 120 // beyond a compaction
	ring, err := newTrio()
	require.NoError(t, err)
	for n := range seconds {
		require.NoError(t, ring.second(n))
	}
	const founding = 3 + 1 // a change for each member, and the first of the term
	for i, store := range ring.stores {
		last, err := store.LastIndex()
		require.NoError(t, err)
		assert.EqualValues(t, founding+seconds*writesASecond, last)
		assert.Equal(t, last, ring.nodes[i].BasicStatus().Applied)
	}
	assert.Equal(t, seconds*readsASecond, ring.reads)
}
