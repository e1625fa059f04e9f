// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package raftlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/needs"
)

// server is one etcd of a ring on this host.
type server struct {
	name, dir, peer, url string
	process              *exec.Cmd
	client               *clientv3.Client
}

// start starts an etcd beside others, whose member list it is in already.
func start(t *testing.T, s *server, others []*server, flags ...string) {
	t.Helper()
	ring, state := s.name+"="+s.peer, "new"
	for _, o := range others {
		ring, state = ring+","+o.name+"="+o.peer, "existing"
	}
	s.process = exec.Command(needs.Etcd(t).Etcd, append([]string{
		"--name", s.name, "--data-dir", s.dir, "--initial-cluster", ring, "--initial-cluster-state", state,
		"--listen-peer-urls", s.peer, "--initial-advertise-peer-urls", s.peer, "--listen-client-urls", s.url, "--advertise-client-urls", s.url,
		"--unsafe-no-fsync", "--log-outputs", filepath.Join(t.TempDir(), "log"),
	}, flags...)...)
	require.NoError(t, s.process.Start())
	t.Cleanup(s.stop)
	var err error
	s.client, err = client.Dial(s.url, nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.client.Close() })
	require.Eventually(t, func() bool {
		status, err := s.client.Status(t.Context(), s.url)
		return err == nil && status.Leader != 0
	}, 2*time.Minute, 50*time.Millisecond, "etcd %s does not serve", s.name)
}

func (s *server) stop() {
	if s.process.ProcessState == nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
	}
}

// newServer has an address of its own, of which loopback has 16 million: a port
// that is free now may be another's by the time etcd wants it.
func newServer(t *testing.T, name string) *server {
	t.Helper()
	host := fmt.Sprintf("http://127.%d.%d.%d", 64+rand.IntN(128), rand.IntN(256), 1+rand.IntN(254))
	return &server{name: name, dir: filepath.Join(t.TempDir(), name), peer: host + ":2380", url: host + ":2379"}
}

func put(t *testing.T, s *server, key, value string) {
	t.Helper()
	_, err := s.client.Put(t.Context(), key, value)
	require.NoError(t, err)
}

// join adds b to the ring of a as a learner, starts it and promotes it.
func join(t *testing.T, a, b *server, flags ...string) uint64 {
	t.Helper()
	added, err := a.client.MemberAddAsLearner(t.Context(), []string{b.peer})
	require.NoError(t, err)
	start(t, b, []*server{a}, flags...)
	require.Eventually(t, func() bool {
		_, err := a.client.MemberPromote(t.Context(), added.Member.ID)
		return err == nil
	}, 20*time.Second, 100*time.Millisecond, "it does not catch up")
	return added.Member.ID
}

// kinds are the changes without what varies.
func kinds(changes []ringproof.ConfChange) []string {
	var all []string
	for _, c := range changes {
		all = append(all, c.Kind)
	}
	return all
}

func TestValuesOfASingleMember(t *testing.T) {
	s := newServer(t, "m1")
	start(t, s, nil)
	put(t, s, "/w/a", "c0-1")
	_, err := s.client.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision("/w/b"), "=", 0)).Then(clientv3.OpPut("/w/b", "c0-2")).Else(clientv3.OpGet("/w/b")).Commit()
	require.NoError(t, err)
	_, err = s.client.Delete(t.Context(), "/w/a")
	require.NoError(t, err)
	put(t, s, "/w/a", "c0-3")
	// As an API server writes two objects that belong together: one in a transaction
	// within the other. What takes the branch of Else is written as surely.
	taken, missed := clientv3.Compare(clientv3.Version("/w/b"), ">", 0), clientv3.Compare(clientv3.Version("/w/b"), "=", 0)
	_, err = s.client.Txn(t.Context()).If(taken).Then(clientv3.OpPut("/w/a", "c0-4"),
		clientv3.OpTxn([]clientv3.Cmp{taken}, []clientv3.Op{clientv3.OpPut("/w/b", "c0-4-too")}, []clientv3.Op{clientv3.OpGet("/w/b")})).Commit()
	require.NoError(t, err)
	_, err = s.client.Txn(t.Context()).If(missed).Then(clientv3.OpGet("/w/c")).Else(clientv3.OpPut("/w/c", "c0-5")).Commit()
	require.NoError(t, err)
	status, err := s.client.Status(t.Context(), s.url)
	require.NoError(t, err)

	log, err := Read(s.dir) // while etcd holds it open
	require.NoError(t, err)
	assert.Equal(t, []string{"c0-1", "c0-2", "c0-3", "c0-4", "c0-4-too", "c0-5"}, log.Values())
	assert.Equal(t, status.Header.MemberId, log.Member)
	assert.Equal(t, status.Header.ClusterId, log.Cluster)
	assert.Equal(t, status.RaftTerm, log.Term)
	assert.EqualValues(t, 1, log.First())
	assert.Equal(t, status.RaftIndex, log.Last())
	assert.LessOrEqual(t, log.Commit, log.Last())

	s.stop() // by SIGKILL: what was acknowledged is there
	again, err := Read(s.dir)
	require.NoError(t, err)
	assert.Equal(t, log.Values(), again.Values())
	changes, err := Changes([]Log{again})
	require.NoError(t, err)
	require.Len(t, changes, 1)
	assert.Equal(t, ringproof.ConfChange{Index: 1, Term: 1, Kind: "add-voter", Member: ringproof.MemberID(log.Member), PeerURLs: []string{s.peer}, At: ringproof.Forever, Initial: true}, changes[0])
}

func TestChangesOfARingThatGrowsAndShrinks(t *testing.T) {
	needs.RealTime(t) // a ring of two may lose its leader
	a, b := newServer(t, "m1"), newServer(t, "m2")
	start(t, a, nil)
	id := join(t, a, b)
	put(t, a, "k", "both")
	moved := "http://127.0.0.1:1"
	_, err := a.client.MemberUpdate(t.Context(), id, []string{b.peer, moved})
	require.NoError(t, err)
	require.Eventually(t, func() bool { // strict reconfiguration: not before both have been connected for a while
		_, err = a.client.MemberRemove(t.Context(), id)
		return err == nil
	}, 20*time.Second, 200*time.Millisecond)
	put(t, a, "k", "alone")

	first, err := Read(a.dir)
	require.NoError(t, err)
	second, err := Read(b.dir)
	require.NoError(t, err)
	assert.Equal(t, id, second.Member)
	assert.Equal(t, first.Cluster, second.Cluster)
	assert.NotContains(t, second.Values(), "alone")
	changes, err := Changes([]Log{second, first})
	require.NoError(t, err)
	require.Equal(t, []string{"add-voter", "add-learner", "promote", "update", "remove"}, kinds(changes))
	for i, c := range changes {
		if i > 0 {
			assert.Greater(t, c.Index, changes[i-1].Index)
			assert.Equal(t, ringproof.MemberID(id), c.Member)
			assert.False(t, c.Initial)
		}
	}
	assert.Equal(t, []string{b.peer}, changes[1].PeerURLs)
	assert.ElementsMatch(t, []string{b.peer, moved}, changes[3].PeerURLs)
}

// TestASecondLearner: it is refused by an etcd that was told nothing else, and nobody asks for its
// promotion then; who was promoted was there.
func TestASecondLearner(t *testing.T) {
	entry := func(index uint64, kind raftpb.ConfChangeType, member uint64, promotes bool) *raftpb.Entry {
		context, err := json.Marshal(membership.ConfigChangeContext{IsPromote: promotes})
		require.NoError(t, err)
		data, err := proto.Marshal(&raftpb.ConfChange{Type: &kind, NodeId: &member, Context: context})
		require.NoError(t, err)
		return &raftpb.Entry{Type: raftpb.EntryConfChange.Enum(), Term: new(uint64(2)), Index: &index, Data: data}
	}
	all := []*raftpb.Entry{
		entry(1, raftpb.ConfChangeAddNode, 1, false), entry(2, raftpb.ConfChangeAddLearnerNode, 2, false), entry(3, raftpb.ConfChangeAddLearnerNode, 3, false),
		entry(4, raftpb.ConfChangeAddNode, 2, true),
	}
	changes, err := Changes([]Log{{Commit: 4, entries: all}})
	require.NoError(t, err)
	assert.Equal(t, []string{"add-voter", "add-learner", "promote"}, kinds(changes))
	all = append(all, entry(5, raftpb.ConfChangeAddNode, 3, true))
	changes, err = Changes([]Log{{Commit: 5, entries: all}})
	require.NoError(t, err)
	assert.Equal(t, []string{"add-voter", "add-learner", "add-learner", "promote", "promote"}, kinds(changes))
}

// TestValuesOfATransaction: they are all that it may write, whichever branch it
// takes and however deep it lies, and nothing that it only compares or reads.
func TestValuesOfATransaction(t *testing.T) {
	put := func(value string) *etcdserverpb.RequestOp {
		return &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestPut{RequestPut: &etcdserverpb.PutRequest{Key: []byte("k"), Value: []byte(value)}}}
	}
	within := func(txn *etcdserverpb.TxnRequest) *etcdserverpb.RequestOp {
		return &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestTxn{RequestTxn: txn}}
	}
	get := &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestRange{RequestRange: &etcdserverpb.RangeRequest{Key: []byte("k")}}}
	compared := &etcdserverpb.Compare{Key: []byte("k"), TargetUnion: &etcdserverpb.Compare_Value{Value: []byte("compared")}}
	for name, c := range map[string]struct {
		txn  *etcdserverpb.TxnRequest
		want []string
	}{
		"nothing":     {&etcdserverpb.TxnRequest{Compare: []*etcdserverpb.Compare{compared}, Success: []*etcdserverpb.RequestOp{get}}, nil},
		"one branch":  {&etcdserverpb.TxnRequest{Success: []*etcdserverpb.RequestOp{put("a")}}, []string{"a"}},
		"the other":   {&etcdserverpb.TxnRequest{Failure: []*etcdserverpb.RequestOp{get, put("b")}}, []string{"b"}},
		"both":        {&etcdserverpb.TxnRequest{Success: []*etcdserverpb.RequestOp{put("a")}, Failure: []*etcdserverpb.RequestOp{put("b")}}, []string{"a", "b"}},
		"one within":  {&etcdserverpb.TxnRequest{Success: []*etcdserverpb.RequestOp{put("a"), within(&etcdserverpb.TxnRequest{Success: []*etcdserverpb.RequestOp{put("a-too")}})}}, []string{"a", "a-too"}},
		"deep within": {&etcdserverpb.TxnRequest{Failure: []*etcdserverpb.RequestOp{within(&etcdserverpb.TxnRequest{Success: []*etcdserverpb.RequestOp{within(&etcdserverpb.TxnRequest{Failure: []*etcdserverpb.RequestOp{put("c")}})}})}}, []string{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := proto.Marshal(&etcdserverpb.InternalRaftRequest{Txn: c.txn})
			require.NoError(t, err)
			e := nothing(1, 2)
			e.Data = text
			assert.Equal(t, c.want, line(1, e).Values())
		})
	}
}

// TestALogThatBeginsWithASnapshot: what was before it is in the other's log.
func TestALogThatBeginsWithASnapshot(t *testing.T) {
	needs.RealTime(t) // a ring of two may lose its leader
	sparse := []string{"--snapshot-count", "10", "--snapshot-catchup-entries", "5"}
	a, b := newServer(t, "m1"), newServer(t, "m2")
	start(t, a, nil, sparse...)
	for i := range 40 {
		put(t, a, "k", fmt.Sprint("early-", i))
	}
	id := join(t, a, b, sparse...)
	put(t, a, "k", "late")
	require.Eventually(t, func() bool {
		got, err := b.client.Get(t.Context(), "k", clientv3.WithSerializable())
		return err == nil && string(got.Kvs[0].Value) == "late"
	}, 10*time.Second, 50*time.Millisecond)

	joiner, err := Read(b.dir)
	require.NoError(t, err)
	assert.Equal(t, id, joiner.Member)
	assert.Greater(t, joiner.First(), uint64(30), "it came by a snapshot")
	assert.Contains(t, joiner.Values(), "late")
	assert.NotContains(t, joiner.Values(), "early-0")
	_, err = Changes([]Log{joiner})
	require.ErrorContains(t, err, "no log holds entry 1")

	first, err := Read(a.dir)
	require.NoError(t, err)
	assert.EqualValues(t, 1, first.First(), "a log keeps what its snapshots cover")
	changes, err := Changes([]Log{joiner, first})
	require.NoError(t, err)
	assert.Equal(t, []string{"add-voter", "add-learner", "promote"}, kinds(changes))
}

func TestNoLog(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "gone")} {
		_, err := Read(dir)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	left := t.TempDir() // what a lost volume may leave
	require.NoError(t, os.MkdirAll(filepath.Join(left, "member", "wal"), 0o700))
	_, err := Read(left)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestADamagedLog reads a log that was cut off or changed anywhere: what it
// says is an error or the beginning of what was there, and never a panic.
func TestADamagedLog(t *testing.T) {
	s := newServer(t, "m1")
	start(t, s, nil)
	for i := range 5 {
		put(t, s, "k", fmt.Sprint("v", i))
	}
	s.stop()
	sound, err := Read(s.dir)
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(s.dir, "member", "wal", "*.wal"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	text = bytes.TrimRight(text, "\x00") // 64 MB of nothing
	name := filepath.Base(files[0])

	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "member", "wal"), 0o700))
	read := func(what string, text []byte) (log Log, err error) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "member", "wal", name), text, 0o600))
		require.NotPanics(t, func() { log, err = Read(dir) }, what)
		return log, err
	}
	whole, err := read("whole", append(bytes.Clone(text), make([]byte, 64)...))
	require.NoError(t, err)
	require.Equal(t, sound.Values(), whole.Values())

	for i := 0; i < len(text); i += 3 {
		log, err := read(fmt.Sprintf("cut off at %d", i), text[:i])
		if err == nil {
			require.True(t, slices.Equal(sound.Values()[:len(log.Values())], log.Values()), "cut off at %d", i)
		}
	}
	refused := 0
	for i := range text {
		changed := append(bytes.Clone(text), make([]byte, 64)...)
		changed[i] ^= 0x11
		if _, err := read(fmt.Sprintf("changed at %d", i), changed); err != nil {
			refused++
		}
	}
	assert.Greater(t, refused, len(text)/2)
	for what, text := range map[string][]byte{"empty": {}, "zeros": make([]byte, 4096), "noise": bytes.Repeat([]byte("ringproof"), 999)} {
		_, err := read(what, text)
		require.Error(t, err, what)
		require.NotErrorIs(t, err, fs.ErrNotExist, "%s: there is a log, though nobody can read it", what)
	}
}

// line is a synthetic log.
func line(commit uint64, entries ...*raftpb.Entry) Log {
	return Log{Commit: commit, entries: entries}
}

func nothing(index, term uint64) *raftpb.Entry {
	return &raftpb.Entry{Index: proto.Uint64(index), Term: proto.Uint64(term), Type: raftpb.EntryNormal.Enum()}
}

func configure(t *testing.T, index, term uint64, kind raftpb.ConfChangeType, id uint64, promote bool) *raftpb.Entry {
	t.Helper()
	context, err := json.Marshal(membership.ConfigChangeContext{Member: membership.Member{RaftAttributes: membership.RaftAttributes{PeerURLs: []string{fmt.Sprint("http://m", id)}}}, IsPromote: promote})
	require.NoError(t, err)
	text, err := proto.Marshal(&raftpb.ConfChange{Type: kind.Enum(), NodeId: proto.Uint64(id), Context: context})
	require.NoError(t, err)
	return &raftpb.Entry{Index: proto.Uint64(index), Term: proto.Uint64(term), Type: raftpb.EntryConfChange.Enum(), Data: text}
}

// TestWhatWasReadBefore: of a ring whose initial members are gone with their disks the log that was
// read while they served says the changes, without a value; and it is kept once.
func TestWhatWasReadBefore(t *testing.T) {
	put := nothing(4, 2)
	put.Data = []byte("secret")
	first := line(4, configure(t, 1, 1, raftpb.ConfChangeAddNode, 1, false), configure(t, 2, 1, raftpb.ConfChangeAddNode, 2, false), configure(t, 3, 2, raftpb.ConfChangeAddLearnerNode, 3, false), put)
	last := line(6, nothing(5, 2), configure(t, 6, 2, raftpb.ConfChangeAddNode, 3, true))
	before := first.WithoutValues()
	require.NotContains(t, fmt.Sprint(before), "secret")
	require.Equal(t, "secret", string(put.GetData()), "the log itself is as it was")

	whole, err := Changes([]Log{first, last})
	require.NoError(t, err)
	require.Len(t, whole, 4)
	kept, err := Changes([]Log{last, before})
	require.NoError(t, err)
	require.Equal(t, whole, kept)

	longer := line(5, append(slices.Clone(first.entries), nothing(5, 2))...)
	require.True(t, longer.Continues(before))
	require.False(t, before.Continues(longer), "it is shorter")
	require.False(t, last.Continues(before), "its entries before were released")
	others := longer
	others.Member = 7
	require.False(t, others.Continues(before))
}

func TestMerge(t *testing.T) {
	const add, learn, remove = raftpb.ConfChangeAddNode, raftpb.ConfChangeAddLearnerNode, raftpb.ConfChangeRemoveNode
	initialMembers := []*raftpb.Entry{configure(t, 1, 1, add, 1, false), configure(t, 2, 1, add, 2, false)}
	with := func(more ...*raftpb.Entry) []*raftpb.Entry { return append(initialMembers[:2:2], more...) }
	for name, c := range map[string]struct {
		logs []Log
		want []string // member and kind, after the initial members
		err  string
	}{
		"in raft order": {
			[]Log{line(5, with(configure(t, 3, 2, learn, 3, false), nothing(4, 2), configure(t, 5, 2, add, 3, true))...)},
			[]string{"3 add-learner", "3 promote"}, "",
		},
		"not committed by anyone": {
			[]Log{line(2, with(configure(t, 3, 2, learn, 3, false))...), line(2, initialMembers...)}, nil, "",
		},
		"committed, as another log knows": {
			[]Log{line(2, with(configure(t, 3, 2, learn, 3, false))...), line(3, with(configure(t, 3, 2, learn, 3, false))...)},
			[]string{"3 add-learner"}, "",
		},
		"committed, as its member has applied it": {
			[]Log{line(2, with(configure(t, 3, 2, learn, 3, false))...).Applied(3), line(2, with(configure(t, 3, 3, remove, 2, false))...).Applied(1)},
			[]string{"3 add-learner"}, "",
		},
		"overwritten by a later term": {
			[]Log{line(2, with(configure(t, 3, 2, remove, 1, false))...), line(3, with(configure(t, 3, 3, remove, 2, false))...)},
			[]string{"2 remove"}, "",
		},
		"overwritten, and nobody who has it knows that it is committed": {
			[]Log{line(2, with(configure(t, 3, 2, remove, 1, false))...), line(2, with(configure(t, 3, 3, remove, 2, false))...), line(4, nothing(4, 3))},
			[]string{"2 remove"}, "",
		},
		// m1 leads in term 2, logs entry 3 and is cut off with it half sent; m2 leads
		// in term 3, logs its own entry 3 alone and dies; m1 leads again in term 4
		// and commits its entry 3 by one of term 4. The entry of the higher term was
		// never committed.
		"a later term that was never committed": {
			[]Log{line(4, with(configure(t, 3, 2, remove, 2, false), nothing(4, 4))...), line(2, with(configure(t, 3, 3, remove, 1, false))...)},
			[]string{"2 remove"}, "",
		},
		"the same in the other order": {
			[]Log{line(2, with(configure(t, 3, 3, remove, 1, false))...), line(4, with(configure(t, 3, 2, remove, 2, false), nothing(4, 4))...)},
			[]string{"2 remove"}, "",
		},
		"a gap": {
			[]Log{line(5, with(nothing(4, 2), nothing(5, 2))...)}, nil, "no log holds entry 3",
		},
		"a gap at the end": { // a joiner came by a snapshot, and who sent it is lost
			[]Log{line(3, with(nothing(3, 2))...), line(9)}, nil, "no log holds entry 4",
		},
		"nothing but a snapshot": {[]Log{line(9)}, nil, "no log holds entry 1"},
		"a gap after what is committed": {
			[]Log{line(3, with(nothing(3, 2))...), line(3, nothing(7, 5))}, nil, "",
		},
		"an ID that has left is added again": {
			[]Log{line(7, with(configure(t, 3, 2, learn, 3, false), configure(t, 4, 2, remove, 3, false), configure(t, 5, 2, learn, 3, false),
				configure(t, 6, 2, learn, 4, false), configure(t, 7, 2, add, 4, true))...)},
			[]string{"3 add-learner", "3 remove", "4 add-learner", "4 promote"}, "",
		},
		"added twice": {
			[]Log{line(4, with(configure(t, 3, 2, add, 2, false), configure(t, 4, 2, remove, 9, false))...)}, nil, "",
		},
		"promoted twice": {
			[]Log{line(5, with(configure(t, 3, 2, learn, 3, false), configure(t, 4, 2, add, 3, true), configure(t, 5, 2, add, 3, true))...)},
			[]string{"3 add-learner", "3 promote"}, "",
		},
		"garbage": {
			[]Log{line(3, with(&raftpb.Entry{Index: proto.Uint64(3), Term: proto.Uint64(2), Type: raftpb.EntryConfChange.Enum(), Data: []byte("\xff")})...)}, nil, "entry 3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			changes, err := Changes(c.logs)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			var got []string
			for _, each := range changes {
				if !each.Initial {
					got = append(got, fmt.Sprint(each.Member, " ", each.Kind))
				}
			}
			if c.err == "" {
				require.Equal(t, c.want, got)
			}
		})
	}
	none, err := Changes(nil)
	require.NoError(t, err)
	require.Empty(t, none)
}
