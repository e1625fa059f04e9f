// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/memblob"

	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/store"
)

// TestAuthorityIsNeverReplaced: machines that took another record would trust nobody
// who has not.
func TestAuthorityIsNeverReplaced(t *testing.T) {
	bucket, err := store.On(memblob.OpenBucket(nil), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	require.NoError(t, store.Init(t.Context(), bucket))
	s := &source{store: bucket}
	_, err = s.authority(t.Context())
	assert.ErrorContains(t, err, "holds none")
	record, err := launcher.NewAuthority(time.Now(), 1)
	require.NoError(t, err)
	log := store.Log[store.Authority]{Store: bucket, Prefix: AuthorityPrefix}
	_, err = log.Append(t.Context(), 0, record)
	require.NoError(t, err)
	found, err := s.authority(t.Context())
	require.NoError(t, err)
	assert.Equal(t, record.CertPEM, found.CertPEM)
	_, err = log.Append(t.Context(), 1, record)
	require.NoError(t, err)
	_, err = s.authority(t.Context())
	assert.ErrorContains(t, err, "remove all but the first")
}
