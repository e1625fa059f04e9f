// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package raftlog reads the write-ahead logs of etcd data directories: whose
// they are, which membership changes and which values they hold. It is the
// ring's own word, where polling sees only moments.
package raftlog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/ringproof/ringproof"
)

// Log is the write-ahead log of one data directory.
type Log struct {
	Member  uint64
	Cluster uint64
	Term    uint64 // the highest voted in or heard of
	Commit  uint64 // raft index known to be committed
	entries []*raftpb.Entry
}

// First is the lowest raft index that the log holds; 0 when it is empty.
func (l Log) First() uint64 {
	if len(l.entries) == 0 {
		return 0
	}
	return l.entries[0].GetIndex()
}

// Last is the highest; 0 when it is empty.
func (l Log) Last() uint64 {
	if len(l.entries) == 0 {
		return 0
	}
	return l.entries[len(l.entries)-1].GetIndex()
}

// Forced is the first entry by which a member was removed and nobody had asked for it, as
// etcd --force-new-cluster writes them: each change that somebody asks for has an ID
// (etcd's storage.CreateConfigChangeEnts). 0: there is none.
func (l Log) Forced() uint64 {
	for _, e := range l.entries {
		var change raftpb.ConfChange
		if e.GetType() == raftpb.EntryConfChange && proto.Unmarshal(e.GetData(), &change) == nil &&
			change.GetType() == raftpb.ConfChangeRemoveNode && change.GetId() == 0 {
			return e.GetIndex()
		}
	}
	return 0
}

// Read reads the log in an etcd data directory, which an etcd may hold open.
// fs.ErrNotExist says that there is none.
func Read(dataDir string) (Log, error) {
	dir := filepath.Join(dataDir, "member", "wal")
	if !wal.Exist(dir) {
		return Log{}, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	// A member that joined by a snapshot has no entries before it, and its log
	// can only be read from there: try each snapshot, the oldest first.
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), dir)
	if err != nil {
		return Log{}, fmt.Errorf("reading the snapshots of %s: %w", dir, err)
	}
	for _, snapshot := range snapshots {
		w, openErr := wal.OpenForRead(zap.NewNop(), dir, snapshot)
		if openErr != nil {
			err = openErr
			continue
		}
		metadata, state, entries, readErr := w.ReadAll()
		w.Close()
		if len(metadata) == 0 || readErr != nil && len(entries) == 0 {
			err = readErr
			continue
		}
		return newLog(metadata, state, entries)
	}
	return Log{}, fmt.Errorf("reading %s: no snapshot leads into it: %w", dir, cmp.Or(err, fs.ErrInvalid))
}

// Applied is the log, of whose entries its member says that it has applied those up to an
// index. They are committed, and the log may not say so yet: etcd keeps a hard state in
// memory that moves nothing but the commit (wal.Save), until there is another entry.
func (l Log) Applied(index uint64) Log {
	l.Commit = max(l.Commit, index)
	return l
}

// Of is a log that is held in memory.
func Of(member, cluster uint64, state *raftpb.HardState, entries []*raftpb.Entry) Log {
	return Log{Member: member, Cluster: cluster, Term: state.GetTerm(), Commit: state.GetCommit(), entries: entries}
}

func newLog(metadata []byte, state *raftpb.HardState, entries []*raftpb.Entry) (Log, error) {
	var whose etcdserverpb.Metadata
	if err := proto.Unmarshal(metadata, &whose); err != nil {
		return Log{}, fmt.Errorf("reading a log's metadata: %w", err)
	}
	return Of(whose.GetNodeID(), whose.GetClusterID(), state, entries), nil
}

// Continues reports whether the log is of the other's member, begins where the other does and
// is as long or longer.
func (l Log) Continues(other Log) bool {
	return l.Member == other.Member && l.Cluster == other.Cluster && l.First() == other.First() && l.Last() >= other.Last()
}

// WithoutValues is the log without what its entries write, for [Changes] alone.
func (l Log) WithoutValues() Log {
	l.entries = slices.Clone(l.entries)
	for i, e := range l.entries {
		if e.GetType() == raftpb.EntryNormal {
			l.entries[i] = &raftpb.Entry{Index: e.Index, Term: e.Term, Type: e.Type}
		}
	}
	return l
}

// Values lists the values that the log's entries write, committed or not. Which
// branch a transaction takes is found out as it is applied, and no log says it:
// the values of both are listed.
func (l Log) Values() []string {
	var values []string
	for _, e := range l.entries {
		if e.GetType() != raftpb.EntryNormal || len(e.GetData()) == 0 {
			continue
		}
		var r etcdserverpb.InternalRaftRequest
		if proto.Unmarshal(e.GetData(), &r) != nil {
			continue
		}
		if put := r.GetPut(); put != nil {
			values = append(values, string(put.GetValue()))
		}
		values = appendPuts(values, r.GetTxn())
	}
	return values
}

// appendPuts appends the values that the transaction may write, itself or by one
// within it.
func appendPuts(values []string, txn *etcdserverpb.TxnRequest) []string {
	for _, op := range slices.Concat(txn.GetSuccess(), txn.GetFailure()) {
		if put := op.GetRequestPut(); put != nil {
			values = append(values, string(put.GetValue()))
		}
		values = appendPuts(values, op.GetRequestTxn())
	}
	return values
}

// Changes merges the committed membership changes of several logs of one ring,
// in raft order. Of two entries at one index the one counts that its own log
// knows to be committed: a leader that was voted out may have left one of a
// higher term alone in its log. If none is known to be, the higher term counts.
// A gap that no log covers is an error: what was changed there is unknown.
func Changes(logs []Log) ([]ringproof.ConfChange, error) {
	committed := uint64(0)
	for _, l := range logs {
		committed = max(committed, l.Commit)
	}
	at, sure := make([]*raftpb.Entry, committed+1), make([]bool, committed+1)
	for _, l := range logs {
		for _, e := range l.entries {
			i, own := e.GetIndex(), e.GetIndex() <= l.Commit
			if i > committed {
				continue
			}
			if known := at[i]; known == nil || own && !sure[i] || own == sure[i] && e.GetTerm() > known.GetTerm() {
				at[i], sure[i] = e, own
			}
		}
	}
	all, missing := []ringproof.ConfChange{}, error(nil)
	promoted := map[ringproof.MemberID]bool{}
	for i := uint64(1); i <= committed; i++ {
		if at[i] == nil {
			missing = fmt.Errorf("no log holds entry %d", i)
			break
		}
		c, ok, err := change(at[i])
		if err != nil {
			missing = err
			break
		}
		if ok {
			all = append(all, c)
			promoted[c.Member] = promoted[c.Member] || c.Kind == "promote"
		}
	}
	var changes []ringproof.ConfChange
	view := members{}
	for _, c := range all {
		if view.apply(c, promoted[c.Member]) {
			changes = append(changes, c)
		}
	}
	return changes, missing
}

// change reads a membership change. Term 1 is that of the initial members: etcd
// writes them as if they had been agreed before the first election.
func change(e *raftpb.Entry) (ringproof.ConfChange, bool, error) {
	if e.GetType() != raftpb.EntryConfChange {
		return ringproof.ConfChange{}, false, nil
	}
	var cc raftpb.ConfChange
	if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
		return ringproof.ConfChange{}, false, fmt.Errorf("entry %d: %w", e.GetIndex(), err)
	}
	c := ringproof.ConfChange{Index: e.GetIndex(), Term: e.GetTerm(), Member: ringproof.MemberID(cc.GetNodeId()), At: ringproof.Forever, Initial: e.GetTerm() == 1}
	var context membership.ConfigChangeContext
	if len(cc.GetContext()) > 0 {
		if err := json.Unmarshal(cc.GetContext(), &context); err != nil {
			return c, false, fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
		c.PeerURLs = context.PeerURLs
	}
	switch cc.GetType() {
	case raftpb.ConfChangeAddNode:
		c.Kind = "add-voter"
		if context.IsPromote {
			c.Kind = "promote"
		}
	case raftpb.ConfChangeAddLearnerNode:
		c.Kind = "add-learner"
	case raftpb.ConfChangeRemoveNode:
		c.Kind = "remove"
	case raftpb.ConfChangeUpdateNode:
		c.Kind = "update"
	}
	return c, c.Kind != "", nil
}

// members replays changes: etcd commits a change that it then refuses to
// apply, such as adding a member twice, or a second learner. An ID that has left
// never comes back: it hangs on the peer URLs and the second, so that whoever is
// added again within one is refused. Who is promoted later was not refused as a second learner: etcd
// asks for no promotion of whom it doesn't list, and has room for more if it was started with
// --max-learners.
type members map[ringproof.MemberID]role

type role int

const (
	unknown role = iota
	voter
	learner
	gone
)

func (m members) apply(c ringproof.ConfChange, promoted bool) bool {
	is := m[c.Member]
	switch c.Kind {
	case "add-voter", "add-learner":
		if is != unknown || c.Kind == "add-learner" && !promoted && slices.Contains(slices.Collect(maps.Values(m)), learner) {
			return false // etcd has room for one learner, if it isn't told otherwise
		}
		m[c.Member] = voter
		if c.Kind == "add-learner" {
			m[c.Member] = learner
		}
	case "promote":
		if is != learner {
			return false
		}
		m[c.Member] = voter
	case "remove":
		if is != voter && is != learner {
			return false
		}
		m[c.Member] = gone
	case "update":
		return is == voter || is == learner
	}
	return true
}
