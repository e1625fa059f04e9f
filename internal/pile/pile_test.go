// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package pile_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	_ "github.com/ringproof/ringproof/internal/needs" // the seed, in CI
	"github.com/ringproof/ringproof/internal/pile"
)

// TestIsASlice: a pile holds what a slice holds, over the ends of its pieces too.
func TestIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pile.Of[int]
		var want []int
		for i := range rapid.IntRange(0, 1600).Draw(t, "many") {
			p.Add(i)
			want = append(want, i)
		}
		assert.Equal(t, len(want), p.Len())
		assert.True(t, slices.Equal(want, p.Slice()))
		for i, x := range p.All() {
			assert.Equal(t, want[i], *x)
		}
		next := len(want) - 1
		for i, x := range p.Backward() {
			assert.Equal(t, next, i)
			assert.Equal(t, want[i], *x)
			next--
		}
		assert.Equal(t, -1, next)
		for range p.All() {
			break
		}
	})
}
