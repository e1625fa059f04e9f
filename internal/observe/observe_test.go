// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package observe

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// TestRollRestartsTheLeaderLast: as the ring is seen when it begins, and no further than
// the first that doesn't come back.
func TestRollRestartsTheLeaderLast(t *testing.T) {
	seen := func(context.Context) (ringproof.Observation, error) {
		return ringproof.Observation{Members: []ringproof.MemberView{{Machine: "m2", Leader: true}, {Machine: "m10"}, {Machine: "m3"}}}, nil
	}
	var rolled []string
	restart := func(_ context.Context, machine string) (string, error) {
		rolled = append(rolled, machine)
		return "", nil
	}
	text, err := Roll(t.Context(), seen, restart)
	require.NoError(t, err)
	assert.Equal(t, "3 members", text)
	assert.Equal(t, []string{"m3", "m10", "m2"}, rolled)

	fails := errors.New("it stays down")
	rolled = nil
	_, err = Roll(t.Context(), seen, func(ctx context.Context, machine string) (string, error) {
		_, _ = restart(ctx, machine)
		return "", fails
	})
	assert.ErrorIs(t, err, fails)
	assert.Equal(t, []string{"m3"}, rolled)
	_, err = Roll(t.Context(), func(context.Context) (ringproof.Observation, error) { return ringproof.Observation{}, fails }, restart)
	assert.ErrorIs(t, err, fails)
}

// A pod is known by its DNS name in any of the forms by which it is found.
func TestPlace(t *testing.T) {
	machines := []ringproof.MachineView{{Name: "m1", Address: "10.0.0.16"}, {Name: "m2", Address: "r-1.r.rings.svc"}}
	for host, want := range map[string]string{
		"10.0.0.16": "m1", "10.0.0.1": "", "r-1.r.rings.svc": "m2", "r-1.r.rings": "m2", "r-1.r.rings.svc.cluster.local": "m2", "r-1.r.rings.svc.cluster.local.": "m2",
		"r-1": "", "r-0.r.rings.svc.cluster.local": "",
	} {
		m := ringproof.MemberView{PeerURLs: []string{"http://" + host + ":2380"}}
		place(&m, machines)
		assert.Equal(t, want, m.Machine, host)
	}
}
