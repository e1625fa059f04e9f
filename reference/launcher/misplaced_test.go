// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestADiskStaysByTheLooksAtIt(t *testing.T) {
	var m misplaced
	now := time.Unix(1e9, 0)
	look := func(after time.Duration) bool {
		now = now.Add(after)
		return m.stays("d", now)
	}
	assert.False(t, look(0))
	assert.False(t, look(40*24*time.Hour), "the clock went on")
	assert.False(t, look(-41*24*time.Hour), "and back")
	for range 13 {
		assert.False(t, look(time.Second))
	}
	assert.True(t, look(time.Second))
	assert.False(t, m.stays("another", now))
}
