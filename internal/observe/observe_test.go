// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package observe

import (
	"context"
	"crypto/sha256"
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

// TestBackup: what a subject says that it made is read, and what can't be told of it said.
func TestBackup(t *testing.T) {
	now := ringproof.Instant(0)
	clock := func() ringproof.Instant { now++; return now }
	pages := make([]byte, 512)
	sum := sha256.Sum256(pages)
	keys := []ringproof.KV{{Key: "k"}}
	read := func([]byte) (int64, []ringproof.KV, error) { return 7, keys, nil }
	whole := func() ([]byte, error) { return append(pages, sum[:]...), nil }

	b, err := Backup(clock, whole, read)
	require.NoError(t, err)
	assert.Equal(t, ringproof.Backup{Asked: 1, Made: 2, Revision: 7, Keys: keys}, b)
	b, err = Backup(clock, func() ([]byte, error) { return pages, nil }, read)
	require.NoError(t, err)
	assert.Equal(t, "512 bytes are no pages and their sum", b.Err)
	b, err = Backup(clock, whole, func([]byte) (int64, []ringproof.KV, error) { return 0, nil, errors.New("it has no bucket of keys") })
	require.NoError(t, err)
	assert.Equal(t, "it has no bucket of keys", b.Err)
	_, err = Backup(clock, func() ([]byte, error) { return nil, ringproof.ErrRefused }, read)
	require.ErrorIs(t, err, ringproof.ErrRefused)
}
