// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package rand

import (
	inner "crypto/internal/rand"
	"io"
)

// LockstepReader makes r the chance of all of crypto: of keys, nonces and what TLS draws.
func LockstepReader(r io.Reader) {
	inner.SetTestingReader(r)
	Reader = r
}
