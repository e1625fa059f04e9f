// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ringproof/ringproof/sim/etcd"
)

// TestData reads a log as the owner of a machine does, while etcd runs and
// after it has lost its power.
func TestData(t *testing.T) {
	empty := etcd.NewDir()
	_, _, _, found, err := empty.Whose()
	require.NoError(t, err)
	assert.False(t, found)

	w := newWorld(t, 30, three...)
	ring(t, w)
	l := leader(t, w, three...)
	for i := range 10 {
		require.NoError(t, put(t, w, l, fmt.Sprint("k", i), "v"))
	}
	w.run(time.Second)
	s := status(t, w, l)
	data := w.machines[l].data
	member, cluster, last, found, err := data.Whose()
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, []uint64{s.Header.MemberId, s.Header.ClusterId, s.RaftIndex}, []uint64{member, cluster, last})
	entries := data.Entries()
	require.Len(t, entries, int(last))
	for i, e := range entries {
		assert.EqualValues(t, i+1, e.GetIndex())
	}
	assert.LessOrEqual(t, data.Hard().GetCommit(), last)
	assert.Positive(t, data.Size())

	size := data.Size()
	w.machines[l].kill()
	data.PowerLoss(0, false)
	assert.Zero(t, data.Unsynced())
	assert.LessOrEqual(t, data.Size(), size)
	_, _, kept, _, _ := data.Whose()
	assert.Equal(t, last, kept, "what was acknowledged is synced")
	short := etcd.NewDir()
	assert.False(t, short.TellsHole())
	holed := data.Copy()
	assert.True(t, holed.TellsHole())
	holed.Hole()
	_, _, before, found, err := holed.Whose()
	require.NoError(t, err)
	assert.True(t, found && holed.Cut(), "what is behind the hole tells that it is there")
	assert.Less(t, before, last)
	data.Damage()
	_, _, _, found, err = data.Whose()
	assert.True(t, found)
	assert.EqualError(t, err, "wal: crc mismatch")
}

// TestDiesBeforeItsLogIsSafe: a log whose head was never synced is none, and
// the member starts as if for the first time.
func TestDiesBeforeItsLogIsSafe(t *testing.T) {
	w := newWorld(t, 31, three...)
	w.syncTime = 100 * time.Millisecond
	m := w.machines["m1"]
	m.start("new", three...)
	w.until(t, 10*time.Second, func() bool { return m.data.Unsynced() > 0 })
	m.kill()
	m.data.PowerLoss(0, true)
	_, _, _, found, err := m.data.Whose()
	require.NoError(t, err)
	assert.False(t, found)
	ring(t, w)
}

// TestRepairsATornTail loses the record that was half written, and no other.
func TestRepairsATornTail(t *testing.T) {
	w := newWorld(t, 32, three...)
	ring(t, w)
	l := leader(t, w, three...)
	follower := others(three, l)[0]
	m := w.machines[follower]
	w.syncTime = time.Second
	w.machines[l].server.Stop()
	w.until(t, 10*time.Second, func() bool { return m.data.Unsynced() > 0 })
	m.kill()
	m.data.PowerLoss(0, true)
	w.syncTime = time.Millisecond
	m.start("existing", three...)
	assert.Contains(t, m.logs, "repaired WAL: unexpected EOF")
	m.start("existing", three...)
	assert.NotContains(t, m.logs, "repaired WAL: unexpected EOF")
	w.machines[l].start("existing", three...)
	leader(t, w, three...)
}

// TestAStartGoesOn: what a start finds made is what it would have made of the
// log, and nothing else that happens can tell the two apart.
func TestAStartGoesOn(t *testing.T) {
	life := func(forget bool) (*world, string) {
		w := newWorld(t, 31, three...)
		ring(t, w)
		w.run(6 * time.Second)
		victim := others(three, leader(t, w, three...))[0]
		for i := range 30 {
			require.NoError(t, put(t, w, victim, fmt.Sprint("k", i%7), fmt.Sprint(i)))
		}
		m := w.machines[victim]
		m.kill()
		assert.True(t, m.data.GoesOn("3.6.16"))
		assert.False(t, m.data.GoesOn("3.7.3"), "another release reads the log for itself")
		if forget {
			m.data.Forget()
			assert.False(t, m.data.GoesOn("3.6.16"))
		}
		m.start("existing", victim)
		w.run(2 * time.Second)
		require.NoError(t, put(t, w, victim, "k", "v"))
		w.run(time.Second) // till the others have applied it
		assert.Equal(t, hash(t, w, others(three, victim)[0]), hash(t, w, victim))
		return w, victim
	}
	w, victim := life(false)
	again, _ := life(true)
	assert.Equal(t, w.describe(), again.describe())
	assert.Equal(t, w.trace, again.trace)

	data := w.machines[victim].data
	w.machines[victim].kill()
	data.PowerLoss(0, false)
	assert.True(t, data.GoesOn("3.6.16"), "the database has had a second to get to the disk, whatever the log knows to be committed")

	w.machines[victim].start("existing", three...)
	w.run(2 * time.Second)
	require.NoError(t, put(t, w, victim, "k", "w"))
	w.machines[victim].kill()
	assert.True(t, data.GoesOn("3.6.16"))
	data.PowerLoss(0, false)
	assert.False(t, data.GoesOn("3.6.16"), "neither has got to the disk")
}

// TestRequestsSayWhatTheirBytesDo: who proposed a request vouches for it to all
// members. One that it changed afterwards would be applied by those who run,
// and not by who reads the log.
func TestRequestsSayWhatTheirBytesDo(t *testing.T) {
	w := newWorld(t, 32, three...)
	ring(t, w)
	for _, name := range three {
		require.NoError(t, put(t, w, name, "k", name))
		must[*pb.DeleteRangeResponse](t, w, name, &pb.DeleteRangeRequest{Key: []byte("k")})
		must[*pb.LeaseGrantResponse](t, w, name, &pb.LeaseGrantRequest{TTL: 60})
		must[*pb.TxnResponse](t, w, name, &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("t")}}}}})
	}
	seen := 0
	for _, e := range w.machines["m1"].data.Entries() {
		if e.GetType() != raftpb.EntryNormal || len(e.Data) == 0 {
			continue
		}
		var read pb.InternalRaftRequest
		require.NoError(t, proto.Unmarshal(e.Data, &read))
		assert.True(t, proto.Equal(&read, w.requests.Of(e)), "index %d: %v is taken for %v", e.GetIndex(), &read, w.requests.Of(e))
		seen++
	}
	assert.GreaterOrEqual(t, seen, 4*len(three))
}

// TestWhoProposedVouches: raft copies an entry that is proposed to it, so that
// whoever looks for the request by where its bytes lie decodes each again.
func TestWhoProposedVouches(t *testing.T) {
	w := newWorld(t, 33, three...)
	ring(t, w)
	for _, name := range three {
		request := &pb.PutRequest{Key: []byte("k"), Value: []byte(name)}
		must[*pb.PutResponse](t, w, name, request)
		entries := w.machines[name].data.Entries()
		assert.Same(t, request, w.requests.Of(entries[len(entries)-1]).GetPut(), "proposed by %s", name)
	}
}
