// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package time

// LockstepTimed, where it is set, is called before each timer that is made.
var LockstepTimed func()
