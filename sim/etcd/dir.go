// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"syscall"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ringproof/ringproof/internal/pile"
)

// Dir is what a data directory holds: a write-ahead log with a watermark of
// what is known to survive a loss of power, and the snapshots that it marks.
//
// Of the database only what was made of the log last is kept: etcd replays on it what
// the log has beyond it, so that snapshot and log say nearly all. The database may be
// ahead of what the log knows to be committed, and tells then who the members are.
type Dir struct {
	wal     pile.Of[record]
	synced  int    // records that survive a loss of power
	handed  int    // that survive the process: etcd keeps the others in its own memory
	base    uint64 // what must be added to a place in wal: records that are forgotten keep theirs
	bytes   int64
	broken  bool
	torn    bool
	cut     bool            // records lie behind its end, and no etcd has been started on it since
	blank   bool            // other bytes lie where the log begins: it tells nothing
	missing bool            // the keyspace is gone, and the log is not
	bare    bool            // and with it the snapshots
	garbled bool            // the keyspace can't be read
	removed bool            // no name leads to its files: who has them open goes on, and makes no new one
	past    []*raftpb.Entry // that no start reads any more
	made    made
	stored  uint64 // index up to which the database's file has what was applied
}

// made is what the last process on the directory had made of its log. The next
// need not make it again, if it finds the same entry at that place and would
// have applied it too.
type made struct {
	state   *state
	entry   *raftpb.Entry // the last that is in it
	release semver.Version
}

// ready returns what there is of a log already, for a process of a release. A
// release reads a log of another in its own way, and who finds in it that it was
// removed leaves at that. What is applied may be more than what the log knows to
// be committed, as etcd's database may be; but for a change of the membership,
// which raft must hear of anew.
func (d *Dir) ready(log log, release semver.Version) *state {
	if !d.made.of(log, release) || d.ahead(log) > 0 {
		return nil
	}
	return d.made.state.clone()
}

// database returns what etcd's database has of a change of the membership that the log doesn't
// know to be committed: that is written with the next entry, and the database's file a tenth of
// a second after the change. It returns nil if the log knows as much.
func (d *Dir) database(log log, release semver.Version) *state {
	if !d.made.of(log, release) {
		return nil
	}
	if at := d.ahead(log); at == 0 || d.stored < at {
		return nil
	}
	return d.made.state.clone()
}

// of reports whether it is what a process of a release has made of the log.
func (m made) of(log log, release semver.Version) bool {
	if m.state == nil || m.release != release || m.entry.GetIndex() != m.state.index ||
		len(log.entries) == 0 || m.state.book.removed[types.ID(log.owner.member)] {
		return false
	}
	at := m.state.index - log.entries[0].GetIndex()
	return at < uint64(len(log.entries)) && log.entries[at] == m.entry
}

// ahead returns the index of the last change of the membership that is applied and that the log
// doesn't know to be committed; 0: there is none. What was applied is of the log.
func (d *Dir) ahead(log log) (last uint64) {
	first := log.entries[0].GetIndex()
	for i := max(first, log.hard.commit+1); i <= d.made.state.index; i++ {
		if log.entries[i-first].GetType() == raftpb.EntryConfChange {
			last = i
		}
	}
	return last
}

// suits returns why etcd doesn't start with what its database says of the members.
func (d *Dir) suits(maxLearners int) error {
	if d.made.state == nil {
		return nil
	}
	// order: they are counted
	return membership.ValidateMaxLearnerConfig(maxLearners, slices.Collect(maps.Values(d.made.state.book.members)), false)
}

// record is one of the log's; exactly one field is set.
type record struct {
	owner *owner
	hard  hard
	entry *raftpb.Entry
	snap  *snapshot
}

// hard is raft's hard state, and nothing at term 0. It is in every second record:
// by value, as the collector would look at each of its numbers otherwise.
type hard struct{ term, vote, commit uint64 }

func hardOf(s *raftpb.HardState) hard { return hard{s.GetTerm(), s.GetVote(), s.GetCommit()} }

func (h hard) state() *raftpb.HardState {
	if h == (hard{}) {
		return nil
	}
	return &raftpb.HardState{Term: &h.term, Vote: &h.vote, Commit: &h.commit}
}

type owner struct{ member, cluster uint64 }

// snapshot is the replicated state at an index. Nobody changes it any more.
type snapshot struct {
	state    *state
	received bool // from the leader: what the log held before is not its past
}

func (s *snapshot) index() uint64 { return s.state.index }

// NewDir returns an empty directory.
func NewDir() *Dir { return &Dir{} }

var errDamaged = errors.New("wal: crc mismatch")

// Whose returns the member that wrote the log, its cluster and the last index;
// found is false when there is no log, and err says why one can't be read.
func (d *Dir) Whose() (member, cluster, last uint64, found bool, err error) {
	if d.broken || d.blank {
		return 0, 0, 0, true, errDamaged
	}
	log := d.head()
	if log.owner == nil {
		return 0, 0, 0, false, nil
	}
	return log.owner.member, log.owner.cluster, d.last(log.snap), true, nil
}

// Entries returns the entries that the log still holds, in order, without those
// that a later one replaced.
func (d *Dir) Entries() []*raftpb.Entry {
	all := append(make([]*raftpb.Entry, 0, len(d.past)+d.wal.Len()), d.past...)
	for _, r := range d.wal.All() {
		switch {
		case r.snap != nil && r.snap.received:
			all = nil
		case r.entry != nil:
			all = appendEntry(all, r.entry)
		}
	}
	return all
}

// Hard returns the last hard state, or nil.
func (d *Dir) Hard() *raftpb.HardState { return d.hard().state() }

// Size returns the directory's size in bytes.
func (d *Dir) Size() int64 { return d.bytes }

// Unsynced returns how many records a loss of power may lose, of those that a
// kill leaves.
func (d *Dir) Unsynced() int { return d.handed - d.synced }

// PowerLoss keeps the first of the unsynced records, and loses the rest. If
// torn, half of the next one reached the disk too: etcd cuts it off.
func (d *Dir) PowerLoss(keep int, torn bool) {
	keep = min(max(keep, 0), d.Unsynced())
	d.torn = torn && keep < d.Unsynced()
	d.keep(d.synced + keep)
	d.synced = d.wal.Len()
	if d.made.state != nil && d.made.state.index > max(d.hard().commit, d.stored) {
		d.made = made{} // the database is not synced at once either
	}
}

// flush hands all records to the kernel: from then on they outlive the process.
func (d *Dir) flush() { d.handed = d.wal.Len() }

// Killed is the end of a process that had no time to flush. etcd writes what
// wants no fsync, the word that entries are committed, into a buffer of its own:
// whoever is killed then has to hear it again.
func (d *Dir) Killed() {
	if d.handed < d.wal.Len() {
		d.keep(d.handed)
	}
}

// keep loses all but the first n records.
func (d *Dir) keep(n int) {
	all := d.wal
	d.wal, d.bytes = pile.Of[record]{}, 0
	for i, r := range all.All() {
		if i >= n {
			break
		}
		d.add(*r)
	}
	d.handed = d.wal.Len()
}

// Copy returns a copy of the directory as it is.
func (d *Dir) Copy() *Dir {
	c := &Dir{base: d.base, broken: d.broken, torn: d.torn, cut: d.cut, blank: d.blank, past: slices.Clone(d.past)}
	for _, r := range d.wal.All() {
		c.add(*r)
	}
	c.synced, c.handed = c.wal.Len(), c.wal.Len()
	return c
}

// Damage leaves a log that can't be read, as when half of its files are gone.
func (d *Dir) Damage() { d.broken = true }

// Garble leaves a keyspace that can't be opened.
func (d *Dir) Garble() { d.garbled = true }

// Unlink removes the files while an etcd may have them open.
func (d *Dir) Unlink() { d.removed = true }

// noFile is what etcd is told of a file that it wants to make.
func (d *Dir) noFile(name string) error {
	if d.removed {
		return &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return nil
}

// Hole leaves zeros in the middle of the log. They are its end for etcd, which starts without what
// is behind.
func (d *Dir) Hole() {
	at := d.wal.Len() / 2
	d.cut = d.TellsHole()
	d.keep(at)
	d.synced, d.made = d.wal.Len(), made{}
}

// TellsHole reports whether what is behind the middle of the log would tell of a hole there. Of what was
// saved at once nothing does: it may have been torn as the power went.
func (d *Dir) TellsHole() bool { return batches(d.wal.Slice()[d.wal.Len()/2:]) }

// batches reports whether the records were saved at two times at least: an entry, the hard state
// that is saved with it or after it, and another entry.
func batches(all []record) bool {
	entry, more := false, false
	for _, r := range all {
		switch {
		case r.entry != nil && more:
			return true
		case r.entry != nil:
			entry = true
		case r.hard != (hard{}):
			more = entry
		}
	}
	return false
}

// Cut reports whether the log goes on behind the place where etcd ends reading it.
func (d *Dir) Cut() bool { return d.cut }

// ForceNew writes into the log what etcd --force-new-cluster does, at its start: it
// forgets what isn't known to be committed and isn't applied, and then every other member
// is removed, in the last term, and all of that is committed (etcdserver/bootstrap.go).
// removals makes the entries that follow the last of a log which begins with conf.
func (d *Dir) ForceNew(removals func(conf *raftpb.ConfState, entries []*raftpb.Entry, self, term, last uint64) []*raftpb.Entry) {
	log := d.read()
	if log.owner == nil {
		return
	}
	conf, last := &raftpb.ConfState{}, log.hard.commit
	if log.snap != nil {
		conf, last = log.snap.state.conf, max(last, log.snap.index())
	}
	if d.made.state != nil {
		last = max(last, min(d.stored, d.made.state.index))
	}
	kept := log.entries
	for len(kept) > 0 && kept[len(kept)-1].GetIndex() > last {
		kept = kept[:len(kept)-1]
	}
	for _, e := range removals(conf, kept, log.owner.member, log.hard.term, last) {
		d.add(record{entry: e})
		last = e.GetIndex()
	}
	d.add(record{hard: hard{log.hard.term, log.hard.vote, last}})
	d.handed, d.synced = d.wal.Len(), d.wal.Len()
}

// Changes returns the entries of the log that change the membership.
func (d *Dir) Changes() (changes []*raftpb.Entry) {
	for _, r := range d.wal.All() {
		if r.entry == nil {
			continue
		}
		for n := len(changes); n > 0 && changes[n-1].GetIndex() >= r.entry.GetIndex(); n-- {
			changes = changes[:n-1] // a later entry replaced it
		}
		if r.entry.GetType() == raftpb.EntryConfChange {
			changes = append(changes, r.entry)
		}
	}
	return changes
}

// V2 returns the index of the log's last request of the v2 API since its last snapshot; 0:
// there is none.
func (d *Dir) V2() (last uint64) {
	for _, e := range d.read().entries {
		if e.GetType() == raftpb.EntryNormal && len(e.Data) > 0 && decoded(e).GetID() == oldFormat {
			last = e.GetIndex()
		}
	}
	return last
}

// Lose takes a part of the directory away: the log, "wal", or the keyspace: "db", or
// "snap", the folder that it is in.
func (d *Dir) Lose(part string) error {
	switch part {
	case "wal":
		*d = Dir{}
	case "db":
		d.missing = true
	case "snap":
		d.missing, d.bare = true, true
	default:
		return fmt.Errorf("a data directory has no %s", part)
	}
	return nil
}

// unsnap takes snapshots away whose folder is gone. Until 3.7 etcd reads its log from the
// beginning then, which it throws away only when the files after it are many; a member that
// was sent a snapshot has none that goes back so far.
func (d *Dir) unsnap() {
	log, all := d.head(), d.Entries()
	if !d.bare || log.snap == nil || len(all) == 0 || all[0].GetIndex() != 1 {
		return
	}
	d.wal, d.past, d.bytes = pile.Of[record]{}, nil, 0
	d.add(record{owner: log.owner})
	for _, e := range all {
		d.add(record{entry: e})
	}
	d.add(record{hard: log.hard})
	d.synced, d.handed = d.wal.Len(), d.wal.Len()
}

// DamagePart writes over the beginning of a part of the directory: the log, "wal", or
// the keyspace: "db", or "snap", the folder that it is in. In the middle of the log it leaves zeros: "wal-block".
func (d *Dir) DamagePart(part string) error {
	switch part {
	case "wal":
		d.blank = true
	case "wal-block":
		d.Hole()
	case "snap", "db":
		d.Garble()
	default:
		return fmt.Errorf("a damaged %s is not modelled", part)
	}
	return nil
}

// Unopened says why etcd can't open its keyspace; "": it can, or makes it anew.
func (d *Dir) Unopened() string {
	if !d.garbled && !d.missing {
		return ""
	}
	if err := d.opens(d.head()); err != nil {
		return err.Error()
	}
	return ""
}

// open is what etcd does with its keyspace before it looks at the log. One that is
// missing it makes of the log, if that begins at its beginning.
func (d *Dir) open(log log) error {
	if err := d.opens(log); err != nil {
		return err
	}
	if d.missing {
		d.missing, d.bare, d.made = false, false, made{}
	}
	return nil
}

func (d *Dir) opens(log log) error {
	switch {
	case d.garbled:
		return errors.New("invalid database")
	case d.missing && log.snap != nil:
		return errors.New("failed to find database snapshot file (snap: snapshot file doesn't exist)")
	}
	return nil
}

func (d *Dir) add(r record) {
	d.bytes += r.size()
	d.wal.Add(r)
}

func (r record) size() int64 {
	const frame = 48 // length, checksum and protobuf around a record's payload
	switch {
	case r.entry != nil:
		return frame + int64(len(r.entry.Data))
	case r.snap != nil:
		return frame + r.snap.state.kv.Size()
	}
	return frame
}

// end is the place after the last record, for markSynced.
func (d *Dir) end() uint64 { return d.base + uint64(d.wal.Len()) }

// markSynced says that all before a place survives from now on, and forgets
// what the newest snapshot made superfluous, but for the last keep entries.
func (d *Dir) markSynced(end, keep uint64) {
	if end < d.base+uint64(d.synced) {
		return // a sync that began later ended before
	}
	newest, n := -1, int(end-d.base)
	for i := d.synced; i < n; i++ {
		if d.wal.At(i).snap != nil {
			newest = i
		}
	}
	d.synced, d.handed = n, max(n, d.handed)
	if newest >= 0 {
		d.release(newest, keep)
	}
}

func (d *Dir) release(newest int, keep uint64) {
	mark := d.wal.At(newest).snap
	if log := d.head(); log.snap != mark {
		return // it is not committed yet: a start would begin with an older one
	}
	cut := uint64(0)
	if mark.index() > keep {
		cut = mark.index() - keep
	}
	all, last, synced, handed := d.wal, hard{}, 0, 0
	apart := lastBetween(all, newest)
	d.wal, d.bytes = pile.Of[record]{}, 0
	for i, r := range all.All() {
		switch {
		case i < newest && r.hard != (hard{}):
			if last = r.hard; i != apart {
				continue
			}
		case i < newest && (r.snap != nil || r.entry != nil && (mark.received || r.entry.GetIndex() <= cut)):
			d.shelve(r.entry)
			continue
		case i == newest && last != (hard{}):
			d.add(record{hard: last})
		}
		if d.add(*r); i < d.synced {
			synced = d.wal.Len()
		}
		if i < d.handed {
			handed = d.wal.Len()
		}
	}
	d.base += uint64(all.Len() - d.wal.Len())
	d.synced, d.handed = synced, handed
}

// lastBetween is the place before another of the last hard state that stands between two entries; -1:
// there is none. A real log keeps all of them, and one is enough to tell whether batches lie behind a
// place.
func lastBetween(all pile.Of[record], before int) int {
	place, more := -1, false
	for i := before - 1; i >= 0; i-- {
		switch r := all.At(i); {
		case r.entry != nil && place >= 0:
			return place
		case r.entry != nil:
			more = true
		case r.hard != (hard{}) && more && place < 0:
			place = i
		}
	}
	return -1
}

// shelve keeps an entry that no start reads any more. etcd leaves the segments
// that a snapshot made superfluous on the disk for a while, five of 64 MB: in a
// ring as small as a simulated one they all are still there.
func (d *Dir) shelve(e *raftpb.Entry) {
	if e != nil {
		d.past = appendEntry(d.past, e)
	}
}

// log is what a start finds.
type log struct {
	owner   *owner
	hard    hard
	snap    *snapshot
	entries []*raftpb.Entry // after the snapshot
}

// head is what a start finds before the entries. It begins with the newest snapshot
// that is known to be committed: one whose mark was written, and its hard state
// not, is as if it had never come.
func (d *Dir) head() (l log) {
	for _, r := range d.wal.All() {
		if r.owner != nil {
			l.owner = r.owner // there is one
			break
		}
	}
	l.hard = d.hard()
	for _, r := range d.wal.Backward() {
		if r.snap != nil && r.snap.index() <= l.hard.commit {
			l.snap = r.snap
			break
		}
	}
	return l
}

// hard is the last hard state.
func (d *Dir) hard() hard {
	for _, r := range d.wal.Backward() {
		if r.hard != (hard{}) {
			return r.hard
		}
	}
	return hard{}
}

// last is the index of the last entry after a snapshot, or of the snapshot itself.
func (d *Dir) last(from *snapshot) (index uint64) {
	if from != nil {
		index = from.index()
	}
	for _, r := range d.wal.Backward() {
		switch {
		case r.snap != nil && r.snap == from && from.received:
			return index
		case r.entry != nil && r.entry.GetIndex() > index:
			return r.entry.GetIndex()
		}
	}
	return index
}

func (d *Dir) read() log {
	l := d.head()
	l.entries = make([]*raftpb.Entry, 0, d.wal.Len())
	for _, r := range d.wal.All() {
		switch {
		case r.snap != nil && r.snap == l.snap && r.snap.received:
			l.entries = l.entries[:0]
		case r.entry != nil && (l.snap == nil || r.entry.GetIndex() > l.snap.index()):
			l.entries = appendEntry(l.entries, r.entry)
		}
	}
	return l
}

// appendEntry replaces what all has from e's index on.
func appendEntry(all []*raftpb.Entry, e *raftpb.Entry) []*raftpb.Entry {
	if len(all) > 0 {
		if at := e.GetIndex() - all[0].GetIndex(); at < uint64(len(all)) {
			all = all[:at]
		}
	}
	return append(all, e)
}

// String is for a person who debugs.
func (d *Dir) String() string {
	return fmt.Sprintf("%d records, %d unsynced, last index %d", d.wal.Len(), d.Unsynced(), d.last(d.head().snap))
}
