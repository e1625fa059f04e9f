// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

func TestClass(t *testing.T) {
	for message, want := range map[string]string{
		"expected add-voter of 8e9e05c52164694d to leave a margin of at least 0, saw -1: 4 voters":   "expected add-voter of ID to leave a margin of at least N, saw N",
		"expected m10.eu-1.example.internal to serve, it does not":                                   "expected M to serve, it does not",
		"expected add-voter of 8e9e05c52164694d (m10.eu-1.internal) to leave a margin of at least 0": "expected add-voter of ID to leave a margin of at least N",
		"expected a leader but c22777927078207, saw none":                                            "expected a leader but ID, saw none", // a member's ID, and no machine c2277…
		"expected a voter's disk to be kept, machine m3 has a new one without a fault: margin 1":     "expected a voter's disk to be kept, machine M has a new one without a fault",
		"expected rest after the convergence at 41.2003s, saw process-exited":                        "expected rest after the convergence at N, saw process-exited",
		"expected the ring to converge to 5 voters within 1m20s of the last fault, it did not; no":   "expected the ring to converge to N voters within N of the last fault, it did not",
		"a worker died over the plan: index out of range [3]":                                        "a worker died over the plan",
	} {
		assert.Equal(t, want, Class(message))
	}
}

// One bug in two runs is one key; two bugs of one check are two.
func TestKey(t *testing.T) {
	key := func(check, message string) string {
		return Key(ringproof.Finding{Check: check, Verdict: ringproof.Fail, Message: message})
	}
	a := key("quorum-margin", "expected remove of 8e9e05c52164694d to leave a margin of at least 1, saw 0: 3 voters")
	b := key("quorum-margin", "expected remove of 1234abcd5678ef to leave a margin of at least 0, saw -1: 5 voters")
	c := key("quorum-margin", "expected a voter's disk to be kept, machine m3 has a new one")
	assert.Equal(t, a, b)
	assert.NotEqual(t, a, c)
	assert.NotEqual(t, key(Self, "a worker died over the plan: index out of range [3]"), key(Self, "a worker died over the plan: out of memory"))
	assert.Regexp(t, `^quorum-margin-[0-9a-f]{8}$`, a)
}
