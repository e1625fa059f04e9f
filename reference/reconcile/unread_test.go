// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reconcile

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// TestAuthenticationIsNoLoss: a ring that wants a user's name is there.
func TestAuthenticationIsNoLoss(t *testing.T) {
	require.True(t, WantsUser(errors.Join(errors.New("no endpoint answered"), fmt.Errorf("http://10.0.0.1:2379: %w", rpctypes.ErrUserEmpty))))
	require.False(t, WantsUser(errors.New("http://10.0.0.1:2379: context deadline exceeded")))
}
