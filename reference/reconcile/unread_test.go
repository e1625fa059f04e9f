// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reconcile

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// TestAuthenticationIsNoLoss: a ring that wants a user's name is there.
func TestAuthenticationIsNoLoss(t *testing.T) {
	require.True(t, WantsUser(errors.Join(errors.New("no endpoint answered"), fmt.Errorf("http://10.0.0.1:2379: %w", rpctypes.ErrUserEmpty))))
	require.False(t, WantsUser(errors.New("http://10.0.0.1:2379: context deadline exceeded")))
}

// TestNoClockLosesARing: it wasn't read once, and the clock was set on by an hour.
func TestNoClockLosesARing(t *testing.T) {
	p := &place{}
	r := &Reconciler{Log: &host.Recorder{Host: p}, Next: ring.Next}
	require.Empty(t, r.Unread(ring.Spec{Nodes: 3}, errors.New("no endpoint answered")).Halt)
	p.now, p.up = p.now.Add(time.Hour), p.up+time.Second
	require.Empty(t, r.Unread(ring.Spec{Nodes: 3}, errors.New("no endpoint answered")).Halt)
	p.now, p.up = p.now.Add(-2*time.Hour), p.up+time.Minute
	require.Contains(t, r.Unread(ring.Spec{Nodes: 3}, errors.New("no endpoint answered")).Halt, "it is lost")
}
