// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// counted is a store that counts what is read from it, and hides what is newer
// than the past that it answers from.
type counted struct {
	store.Store
	gets int
	past string // keys that contain it are not there yet
}

func (c *counted) Get(ctx context.Context, key string) ([]byte, error) {
	c.gets++
	return c.Store.Get(ctx, key)
}

func (c *counted) List(ctx context.Context, prefix string) ([]string, error) {
	keys, err := c.Store.List(ctx, prefix)
	var seen []string
	for _, key := range keys {
		if c.past == "" || !strings.Contains(key, c.past) {
			seen = append(seen, key)
		}
	}
	return seen, err
}

// TestRosterReadsARecordOnce: agents read it at every turn until the ring is
// formed, and each reading of an object costs.
func TestRosterReadsARecordOnce(t *testing.T) {
	bucket, err := store.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	require.NoError(t, store.Init(t.Context(), bucket))
	c := &counted{Store: bucket}
	put := func(name, disk string, after int) {
		log := store.Log[store.Machine]{Store: bucket, Prefix: MachinesPrefix + "/" + name}
		_, err := log.Append(t.Context(), after, store.Machine{Name: name, Address: "10.0.0.1", Disk: disk, Versions: []ring.Version{"v3.6.16"}})
		require.NoError(t, err)
	}
	disks := func(r roster) map[string]string {
		all := map[string]string{}
		for name, m := range r.machines {
			all[name] = m.Disk
		}
		return all
	}
	put("m1", "a", 0)
	put("m2", "b", 0)
	var r roster
	for range 3 {
		require.NoError(t, r.read(t.Context(), c))
		require.Equal(t, map[string]string{"m1": "a", "m2": "b"}, disks(r))
		require.Equal(t, 2, c.gets)
	}
	put("m2", "c", 1)
	require.NoError(t, r.read(t.Context(), c))
	require.Equal(t, map[string]string{"m1": "a", "m2": "c"}, disks(r))
	require.Equal(t, 3, c.gets)

	c.past = "m2/00000002"
	require.ErrorContains(t, r.read(t.Context(), c), "machines/m2: the store answers from the past: record 1 is its newest, and 2 was seen")
	require.Equal(t, map[string]string{"m1": "a", "m2": "c"}, disks(r), "what was known stays")
}

// TestRosterKnowsWhereAMachineWas: a clone of m1 came up, and went. The store's last word of
// m1 is the clone's, and the member at m1's address is one of the ring's all the same.
func TestRosterKnowsWhereAMachineWas(t *testing.T) {
	bucket, err := store.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	require.NoError(t, store.Init(t.Context(), bucket))
	log := store.Log[store.Machine]{Store: bucket, Prefix: MachinesPrefix + "/m1"}
	come := func(after int, address string) {
		_, err := log.Append(t.Context(), after, store.Machine{Name: "m1", Address: address, Disk: "a", Versions: []ring.Version{"v3.6.16"}})
		require.NoError(t, err)
	}
	var kept roster
	for after, address := range []string{"10.0.0.1", "10.0.1.1", "10.0.1.2"} {
		come(after, address)
		require.NoError(t, kept.read(t.Context(), bucket))
	}
	var late roster
	require.NoError(t, late.read(t.Context(), bucket))
	for _, r := range []roster{kept, late} {
		require.Equal(t, "10.0.1.2", r.machines["m1"].Address)
		require.Equal(t, []string{"10.0.0.1", "10.0.1.1", "10.0.1.2"}, r.addresses["m1"])
	}
}
