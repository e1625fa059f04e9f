// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/store"
	"github.com/ringproof/ringproof/scenarios"
)

// TestFlagsOfTheReference: what a scenario may not give is what the reference
// refuses.
func TestFlagsOfTheReference(t *testing.T) {
	require.Equal(t, store.OwnFlags(), scenarios.Standard().Flags)
}
