// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The line is for a shell, so a shell is asked what it makes of it.
func TestReplayIsOneLineToPaste(t *testing.T) {
	for _, file := range []string{"out/cells/create[size=3]_1/plan.yaml", "out dir/a b/plan.yaml", "it's/$HOME/`id`/plan.yaml", "a\\b/*.yaml"} {
		words, err := exec.Command("sh", "-c", "set -f; ringproof() { printf '%s' \"$2\"; }; "+Replay(file)).Output()
		require.NoError(t, err, file)
		assert.Equal(t, file, string(words))
	}
}
