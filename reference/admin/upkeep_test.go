// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestASumIsThatOfAllButItself: whatever the pieces come in, and a snapshot that is cut
// short, changed or empty is refused.
func TestASumIsThatOfAllButItself(t *testing.T) {
	db := bytes.Repeat([]byte("page"), 1000)
	sum := sha256.Sum256(db)
	whole := append(bytes.Clone(db), sum[:]...)
	changed := bytes.Clone(whole)
	changed[7]++
	for name, text := range map[string][]byte{"whole": whole, "cut short": whole[:len(whole)-1], "without its sum": db, "changed": changed, "empty": nil} {
		for _, piece := range []int{1, 31, 32, 33, 4096} {
			var to bytes.Buffer
			told := int64(0)
			s := &summed{to: &to, hash: sha256.New(), tell: func(n int64) { told = n }}
			for at := 0; at < len(text); at += piece {
				n, err := s.Write(text[at:min(at+piece, len(text))])
				require.NoError(t, err)
				require.Equal(t, min(piece, len(text)-at), n)
			}
			assert.Equal(t, name == "whole", s.check() == nil, "%s in pieces of %d", name, piece)
			assert.Equal(t, text, to.Bytes(), name)
			assert.EqualValues(t, len(text), told, name)
		}
	}
}
