// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build !linux

package cli

// oneCore is left to the machine here: one thread works, on whichever core.
func oneCore() error { return nil }
