// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package observe

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
)

// finalTimeout is how long each question at the end of a run may take.
const finalTimeout = 10 * time.Second

// Dump reads the whole keyspace with a quorum, through the first of so many
// seats that answers. Nobody's answer is unknown, and never an empty keyspace.
func Dump(ctx context.Context, w ringproof.World, seats int, e *ringproof.Evidence) {
	for i := range seats {
		c, err := w.Client(ctx, i)
		if err != nil {
			continue
		}
		asking, cancel := w.Timeout(ctx, finalTimeout)
		all, err := c.(*client.Client).Etcd.Get(asking, "", clientv3.WithPrefix())
		cancel()
		c.Close()
		if err != nil {
			continue
		}
		e.Revision = all.Header.Revision
		for _, kv := range all.Kvs {
			e.Dump = append(e.Dump, ringproof.KV{Key: string(kv.Key), Value: string(kv.Value), CreateRevision: kv.CreateRevision,
				ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease})
		}
		return
	}
	e.Unknown = append(e.Unknown, "the keyspace: nobody answered a read with a quorum")
}

// Hasher is a client that asks one member for its HashKV.
type Hasher interface {
	HashKV(ctx context.Context, endpoint string, revision int64) (*clientv3.HashKVResponse, error)
}

// Hashes asks every serving member of e.Final for its hash at one revision that
// all have. reach returns a client of the member on a machine, and its URL; nil
// without an error is a machine that there is not.
func Hashes(ctx context.Context, w ringproof.World, reach func(machine string) (Hasher, string, error), e *ringproof.Evidence) {
	revision := int64(0)
	for _, m := range e.Final.Members {
		if m.Serving && (revision == 0 || m.Revision < revision) {
			revision = m.Revision
		}
	}
	for _, m := range e.Final.Members {
		if !m.Serving {
			continue
		}
		c, url, err := reach(m.Machine)
		if c == nil && err == nil {
			continue
		}
		h := ringproof.Hash{Machine: m.Machine, Member: m.ID, Version: m.Version, Revision: revision}
		if err == nil {
			err = hash(ctx, w, c, url, &h)
		}
		if err != nil {
			h.Err = err.Error()
		}
		e.Hashes = append(e.Hashes, h)
	}
}

func hash(ctx context.Context, w ringproof.World, c Hasher, url string, h *ringproof.Hash) error {
	asking, cancel := w.Timeout(ctx, finalTimeout)
	defer cancel()
	hashed, err := c.HashKV(asking, url, h.Revision)
	if err == nil {
		h.Hash, h.Compact = hashed.Hash, hashed.CompactRevision
	}
	return err
}

// Backup has a subject make a file of what the ring holds, and reads that. A file of which nothing can be
// made is no error: it is what the subject made.
func Backup(now func() ringproof.Instant, save func() ([]byte, error), read func([]byte) (int64, []ringproof.KV, error)) (ringproof.Backup, error) {
	b := ringproof.Backup{Asked: now()}
	file, err := save()
	if err != nil {
		return b, err
	}
	b.Made = now()
	if !client.Whole(file) {
		b.Err = fmt.Sprintf("%d bytes are no pages and their sum", len(file))
		return b, nil
	}
	if b.Revision, b.Keys, err = read(file); err != nil {
		b.Err = err.Error()
	}
	return b, nil
}
