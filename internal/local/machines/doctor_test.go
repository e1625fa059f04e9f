// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWhatTookTooLongIsNotMissing: a host under load was told to load the kernel
// modules that it had.
func TestWhatTookTooLongIsNotMissing(t *testing.T) {
	slow := &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	for _, err := range []error{context.DeadlineExceeded, fmt.Errorf("making a bridge: %w", context.DeadlineExceeded), slow, syscall.ETIMEDOUT} {
		found := verdict(canNetwork, "", err)
		assert.True(t, found.Untold, "%v", err)
		assert.NotContains(t, found.Fix, "kernel modules")
		assert.Contains(t, found.String(), "not known")
	}
	for _, err := range []error{errors.New("operation not supported"), syscall.EHOSTUNREACH, syscall.EPERM} {
		found := verdict(canNetwork, "", err)
		assert.False(t, found.Untold, "%v", err)
		assert.Contains(t, found.Fix, "kernel modules")
	}
}
