// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package http

// Whoever serves or asks by HTTP is a part of a world: no program needs a change, nor
// another main, to be in lockstep.
import _ "internal/lockstep"
