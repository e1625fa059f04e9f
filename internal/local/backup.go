// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
)

// readSnapshot reads what etcdctl snapshot save writes, but for the sum at its end. The bucket
// "key" has an entry of each key by the revision in which it was put, and of each deletion.
func readSnapshot(file string) (revision int64, keys []ringproof.KV, err error) {
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return 0, nil, err
	}
	defer db.Close()
	last := map[string]*mvccpb.KeyValue{}
	err = db.View(func(tx *bbolt.Tx) error {
		entries := tx.Bucket([]byte("key"))
		if entries == nil {
			return errors.New("it has no bucket of keys")
		}
		return entries.ForEach(func(at, value []byte) error {
			kv := &mvccpb.KeyValue{}
			if err := proto.Unmarshal(value, kv); err != nil || len(at) < revisionSize {
				return errors.Join(fmt.Errorf("entry %x is of no key", at), err)
			}
			revision = int64(binary.BigEndian.Uint64(at))
			last[string(kv.Key)] = kv
			if len(at) > revisionSize { // marked as a deletion
				delete(last, string(kv.Key))
			}
			return nil
		})
	})
	var held []*mvccpb.KeyValue
	for _, kv := range last { // order: sorted below
		held = append(held, kv)
	}
	slices.SortFunc(held, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	return revision, client.KVs(held), err
}

// revisionSize is the length of an entry's name: the revision, '_', and its place in the transaction.
const revisionSize = 17
