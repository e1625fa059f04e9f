// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof/faults"
)

// TestPutBack: every disk is in one machine afterwards.
func TestPutBack(t *testing.T) {
	for name, c := range map[string]struct{ in, from map[string]string }{
		"nothing is swapped": {map[string]string{}, map[string]string{}},
		"two": {
			map[string]string{"m1": "m2", "m2": "m1"},
			map[string]string{"m1": "m2", "m2": "m1"},
		},
		"in a circle": {
			map[string]string{"m1": "m3", "m2": "m1", "m3": "m2"},
			map[string]string{"m1": "m2", "m2": "m3", "m3": "m1"},
		},
		"m1 was lost with the disk of m3": {
			map[string]string{"m2": "m1", "m3": "m2"},
			map[string]string{"m2": "m3", "m3": "m2"},
		},
		"m2 was lost with the disk of m1, which has got a new one since": {
			map[string]string{"m3": "m2"},
			map[string]string{"m3": "m3"},
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.from, faults.PutBack(c.in)) })
	}
}
