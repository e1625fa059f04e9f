// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/ringproof/ringproof"
)

// saved writes entries as etcd does, and what it puts behind them.
func saved(t *testing.T, entries map[int64]*mvccpb.KeyValue, deletions ...int64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "snapshot.db")
	db, err := bbolt.Open(file, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("key"))
		require.NoError(t, err)
		for revision, kv := range entries { // order: bbolt sorts
			name := append(binary.BigEndian.AppendUint64(nil, uint64(revision)), '_')
			name = binary.BigEndian.AppendUint64(name, 0)
			for _, d := range deletions {
				if d == revision {
					name = append(name, 't')
				}
			}
			value, err := proto.Marshal(kv)
			require.NoError(t, err)
			require.NoError(t, b.Put(name, value))
		}
		return nil
	}))
	require.NoError(t, db.Close())
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	sum := sha256.Sum256(content)
	require.NoError(t, os.WriteFile(file, append(content, sum[:]...), 0o600))
	return file
}

func TestReadSnapshot(t *testing.T) {
	put := func(key, value string, revision int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: revision, ModRevision: revision, Version: 1}
	}
	file := saved(t, map[int64]*mvccpb.KeyValue{2: put("a", "1", 2), 3: put("b", "1", 3), 4: put("b", "2", 4), 5: {Key: []byte("a")}}, 5)
	revision, keys, err := readSnapshot(file)
	require.NoError(t, err)
	assert.Equal(t, int64(5), revision, "a deletion is a change too")
	assert.Equal(t, []ringproof.KV{{Key: "b", Value: "2", CreateRevision: 4, ModRevision: 4, Version: 1}}, keys)

	require.NoError(t, os.WriteFile(file, make([]byte, 8192), 0o600))
	_, _, err = readSnapshot(file)
	require.Error(t, err, "zeros are no keyspace")
	_, _, err = readSnapshot(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
