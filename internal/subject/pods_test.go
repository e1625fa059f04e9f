// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// What an EtcdRing can't be is said before anything runs, and is never a pass.
func TestRunsInPods(t *testing.T) {
	for want, ring := range map[string]ringproof.RingSpec{
		"":                     {Size: 5, Security: "tls"},
		"clients talk plainly": {Size: 3, Security: "plain"},
		"without launchers":    {Size: 5, Security: "tls", Peers: "plain"},
	} {
		if err := RunsInPods(ringproof.Plan{Ring: ring}); want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
			assert.ErrorIs(t, err, errors.ErrUnsupported)
		}
	}
	assert.NoError(t, RunsInPods(ringproof.Plan{Ring: ringproof.RingSpec{Size: 3, Security: "tls", Peers: "plain"}}))
}
