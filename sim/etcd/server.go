// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ringproof/ringproof/sim/etcd/mvcc"
)

// Server is one etcd process.
type Server struct {
	host    Host
	config  Config
	release semver.Version
	data    *Dir

	id, cluster uint64
	ring        *membership.RaftCluster
	replay      *membership.RaftCluster // the ring as the log has it, as long as the database is ahead of it; mostly nil
	state       *state
	file        file
	view        view
	ids         ids
	unanswered  []func() // what peers asked before they are served

	node      *raft.RawNode
	trail     *trail
	lead      uint64
	leads     bool
	elected   time.Duration // when this member last came to lead
	committed uint64
	applied   uint64 // index and term of the last entry that came by itself: what a
	term      uint64 // snapshot brings etcd doesn't count, and tells a client so
	stirred   bool   // raft may have something ready
	answers   bool   // it has: a message that it answers, or nothing, which is taken as well
	advancing bool   // in the loop over what raft has ready
	syncing   bool   // until the disk has it, raft gets no further
	work      work
	does      Work

	peers     transport
	proposals proposals
	reads     reads
	leases    leases
	snapshots snapshots
	watches   []*WatchStream
	request   *Request // that is being taken in
	version   string   // the release, as a status tells it
	schema    string   // the version of the database's; "" before 3.6

	open     bool // peers are served
	ready    bool // published: clients are served
	stopping bool
	over     bool

	tickFn     func()
	savedFn    func(error)
	began      time.Duration // when it first served its peers
	lastTick   time.Duration
	ticks      int
	leaderless int // consecutive election timeouts without a leader
	monitoring bool
}

// Usage is what Go's flag package prints behind why it refuses a flag: then the code is 2, and it is
// no panic.
const Usage = "\nUsage:\n"

// Start starts an etcd of a release, such as v3.6.16, with the flags after the
// binary's name. What keeps it from starting ends the process, by Host.Exit.
func Start(h Host, version string, args []string) *Server {
	s := &Server{host: h, does: h.Work()}
	config, err := Parse(version, args)
	if err != nil {
		code, why := 1, err.Error()
		if end, ok := err.(errExit); ok {
			code = end.code
		}
		if code == 2 {
			why += Usage
		}
		s.exit(code, why)
		return s
	}
	s.config = config
	s.release = *semver.New(strings.TrimPrefix(version, "v"))
	s.version = s.release.String()
	s.tickFn, s.savedFn = s.tick, s.saved
	s.boot()
	return s
}

// Config is what the flags said.
func (s *Server) Config() Config { return s.config }

// Listening tells which ports answer. etcd serves its peers once it knows who
// it is, and clients once the ring knows its name.
func (s *Server) Listening() (peer, client bool) {
	return s.open && !s.over, s.ready && !s.over && !s.stopping
}

// Holds reports whether the client port takes connections without serving them
// yet: etcd listens there from its start.
func (s *Server) Holds() bool { return !s.ready && !s.over && !s.stopping }

func (s *Server) exit(code int, why string) {
	if s.over {
		return
	}
	s.over = true
	if s.data != nil && code == 0 {
		s.data.flush() // it closes its log
	}
	s.host.Exit(code, why)
}

// since3 reports whether the release is 3.minor or later.
func (s *Server) since3(minor int64) bool { return s.release.Major > 3 || s.release.Minor >= minor }

func (s *Server) minor() *semver.Version {
	return &semver.Version{Major: s.release.Major, Minor: s.release.Minor}
}

func (s *Server) now() time.Duration { return s.host.Elapsed() }

// serve begins what runs until the process ends.
func (s *Server) serve() {
	s.open = true
	for _, answer := range s.unanswered {
		answer()
	}
	s.unanswered = nil
	s.lastTick, s.began = s.now(), s.now()
	s.host.After(s.config.Heartbeat, s.tickFn)
	s.peers.dialAll()
	s.adjustTicks()
	s.publish()
	s.host.After(monitorInterval, s.monitor)
	s.compactOnItsOwn()
	s.advance()
}

// adjustTicks shortens the wait for the first election, as etcd does: at once
// if alone, else as soon as two peers answer, within five seconds.
func (s *Server) adjustTicks() {
	if len(s.members().all) == 1 {
		s.skipTicks(s.config.electionTicks() - 1)
		return
	}
	if !s.config.AdvanceTicks {
		return
	}
	const every, patience = 50 * time.Millisecond, 5 * time.Second
	begin := s.now()
	var look func()
	look = func() {
		if s.peers.activeCount() > 1 {
			s.skipTicks(s.config.electionTicks() - 2)
		} else if s.now()-begin < patience {
			s.host.After(every, look)
		}
	}
	s.host.After(every, look)
}

func (s *Server) skipTicks(n int) {
	for range n {
		s.tickRaft()
	}
	s.advance()
}

func (s *Server) tick() {
	if s.over {
		return
	}
	now := s.now()
	s.lastTick = now
	s.ticks++
	s.host.After(s.config.Heartbeat, s.tickFn)
	s.tickRaft()
	if now-s.file.at >= batch {
		s.measure()
	}
	s.proposals.expire(now)
	s.reads.look(now)
	s.leases.look(now)
	if s.ticks%s.config.electionTicks() == 0 {
		s.lookForLeader()
	}
	s.advance()
}

func (s *Server) tickRaft() {
	defer s.crash()
	s.raft().Tick()
}

// advance handles all that raft has ready, until it waits for the disk. A
// callback into here from a reply finds the loop running, and leaves it to it.
func (s *Server) advance() {
	s.request = nil // what is proposed from here on, the member proposes itself
	if s.does.Own {
		s.stirred, s.answers = s.node != nil, false
	}
	if s.advancing || s.syncing || !s.stirred {
		return
	}
	defer s.crash()
	s.advancing = true
	for !s.over && !s.syncing && s.stirred {
		s.proposals.early()
		if s.stirred = s.answers || s.node.HasReady(); s.stirred {
			s.work = work{Ready: s.node.Ready()}
			s.stirred, s.answers = false, false
			s.take(&s.work)
		}
	}
	s.advancing = false
}

// raft is the node, for who moves it: it need not be asked what it has ready when
// nobody did.
func (s *Server) raft() *raft.RawNode {
	s.stirred = true
	return s.node
}

// work is what raft has ready, from when it is taken until the disk has it.
type work struct {
	raft.Ready
	leads bool   // when it was taken
	end   uint64 // of what is to be synced
}

// settles reports whether raft, which knows a leader, goes on when it hears that this
// is done: what was nothing but messages and answers settles nothing. A member
// that asks for votes may give itself the last one.
func (w *work) settles() bool {
	return len(w.Entries)+len(w.CommittedEntries) > 0 || !raft.IsEmptyHardState(w.HardState) || !raft.IsEmptySnap(w.Snapshot)
}

// take follows the order of etcd's raft loop: a leader's messages leave while
// its own disk writes, since its own vote for an entry counts only after that;
// all other messages promise what the disk must hold first. Entries are
// committed by others' disks and may be applied before this one has them.
func (s *Server) take(rd *work) {
	if rd.SoftState != nil {
		s.turn(rd.SoftState)
	}
	rd.leads = s.leads
	if n := len(rd.ReadStates); n > 0 {
		s.reads.confirm(rd.ReadStates[n-1])
	}
	if rd.leads {
		s.send(rd.Messages) // etcd applies beside it: whom an entry removes is told that it is committed
	}
	alone := !s.since3(6) && rd.leads && len(s.members().voters) == 1
	s.apply(rd.CommittedEntries)
	if s.over {
		return
	}
	s.write(rd)
	if alone {
		s.data.flush() // 3.5 commits an entry of its own as it writes it: both are synced
	}
	if !rd.MustSync && raft.IsEmptySnap(rd.Snapshot) {
		s.persisted(rd)
		return
	}
	s.syncing = true
	s.data.flush()
	rd.end = s.data.end()
	s.host.Sync(s.data, s.savedFn)
}

// saved is the end of the fsync. What is answered on the way finds the disk
// still at work: raft takes no more until it has been told of this.
func (s *Server) saved(err error) {
	defer s.crash()
	if err != nil {
		s.exit(1, "failed to save Raft hard state and entries: "+err.Error())
		return
	}
	s.data.markSynced(s.work.end, s.config.CatchUp)
	s.persisted(&s.work)
	s.syncing = false
	s.advance()
}

// write appends to the log. A snapshot's mark comes first: a hard state that
// commits it is what makes it valid.
func (s *Server) write(rd *work) {
	if !raft.IsEmptySnap(rd.Snapshot) {
		at := rd.Snapshot.GetMetadata().GetIndex()
		body, ok := s.snapshots.incoming[at]
		if !ok {
			s.exit(2, fmt.Sprintf("failed to open snapshot backend: failed to find database snapshot file %016x.snap.db", at))
			return
		}
		s.data.add(record{snap: &snapshot{state: body, received: true}})
	}
	for _, e := range rd.Entries {
		s.data.add(record{entry: e})
	}
	if !raft.IsEmptyHardState(rd.HardState) {
		s.data.add(record{hard: hardOf(rd.HardState)})
	}
}

func (s *Server) persisted(rd *work) {
	if s.over {
		return
	}
	if !raft.IsEmptySnap(rd.Snapshot) {
		s.restore(rd.Snapshot.GetMetadata())
	}
	s.trail.append(rd.Entries)
	if !rd.leads {
		s.send(rd.Messages)
	}
	s.node.Advance(rd.Ready)
	s.stirred = s.stirred || s.lead == raft.None || rd.settles() || s.does.Own
	s.snapshots.look()
}

// restore replaces the state by the leader's.
func (s *Server) restore(snap *raftpb.SnapshotMetadata) {
	at := snap.GetIndex()
	s.trail.restore(snap)
	body := s.snapshots.incoming[at].clone()
	// A later one may have come while the disk was at work with this one.
	maps.DeleteFunc(s.snapshots.incoming, func(index uint64, _ *state) bool { return index <= at })
	s.adopt(body)
	s.replay = nil
	s.snapshots.disk, s.snapshots.memory = at, at
	s.committed = max(s.committed, at)
	s.peers.replace()
	s.leases.forget()
	for _, w := range s.watches {
		w.rebase()
	}
	s.reads.applied()
}

// adopt makes a state the server's.
func (s *Server) adopt(st *state) {
	s.state = st
	st.kv.Release = s.answersLike()
	s.measure()
	s.view.stale = true
	s.ring.SetBackend(st.book)
	if s.tooOld(st.book.version, st.book.downgrade) {
		return
	}
	s.ring.Recover(ignoreVersion)
	s.migrate()
}

// answersLike is the keyspace's release: a state that came from another member, or
// was left by another binary, answers like this one now.
func (s *Server) answersLike() mvcc.Release {
	switch {
	case s.since3(7):
		return mvcc.V3_7
	case s.since3(6):
		return mvcc.V3_6
	}
	return mvcc.V3_5
}

// turn is a change of leader or role.
func (s *Server) turn(soft *raft.SoftState) {
	fresh := soft.Lead != raft.None && soft.Lead != s.lead
	s.lead, s.leads = soft.Lead, soft.RaftState == raft.StateLeader
	if s.lead != s.id {
		s.leases.demote()
	} else if fresh {
		s.elected = s.now()
		s.host.Log(fmt.Sprintf("became leader: %s", types.ID(s.id)))
	}
	if fresh {
		s.reads.leaderChanged()
	}
	s.proposals.flush()
}

// lookForLeader ends streams that require a leader after three election
// timeouts without one.
func (s *Server) lookForLeader() {
	if s.lead != raft.None {
		s.leaderless = 0
		return
	}
	if s.leaderless++; s.leaderless >= 3 {
		s.endLeaderless()
	}
}

// Stop is SIGTERM: new clients are refused, those that have streams open keep them for a
// while, leadership is handed over, and the process ends (embed.Etcd.Close).
func (s *Server) Stop() {
	if s.over || s.stopping {
		return
	}
	s.stopping = true
	s.awaitClients(s.now()+s.config.ReqTimeout(), time.Millisecond, s.handOver)
}

// awaitClients goes on, as a member like any other, until no client has a stream open, or
// until end. It looks ever less often (http.Server.Shutdown).
func (s *Server) awaitClients(end, pause time.Duration, done func()) {
	if len(s.watches) == 0 || s.now() >= end {
		done()
		return
	}
	s.host.After(min(pause, end-s.now()), func() { s.awaitClients(end, min(2*pause, 500*time.Millisecond), done) })
}

func (s *Server) handOver() {
	end := func() { s.exit(0, "terminated") }
	to, ok := s.heir()
	if !ok {
		end()
		return
	}
	s.transfer(to, s.config.ReqTimeout(), func(bool) { end() })
}

// heir is the voter that has been connected the longest, if there is reason to
// hand over to one.
func (s *Server) heir() (uint64, bool) {
	if s.node == nil || s.lead != s.id || s.id == raft.None || len(s.members().voters) < 2 {
		return 0, false
	}
	return s.peers.longest(s.members().voters)
}

// transfer asks raft to hand over and looks at every heartbeat whether it did.
func (s *Server) transfer(to uint64, patience time.Duration, done func(bool)) {
	end := s.now() + patience
	s.raft().TransferLeader(to)
	s.advance()
	var look func()
	look = func() {
		switch {
		case s.lead == to:
			done(true)
		case s.now() >= end:
			done(false)
		default:
			s.host.After(s.config.Heartbeat, look)
		}
	}
	look()
}

// leave ends the process after a second, when the ring has removed it: its own
// last messages still get out.
func (s *Server) leave() {
	s.host.After(time.Second, s.removed)
}

// removed is how a member ends that the ring has removed: in order, for etcd,
// unless it never got to serve, when its listeners fail first.
func (s *Server) removed() {
	if s.ready {
		s.exit(0, errRemoved.Error())
	} else {
		s.exit(1, "server is stopping")
	}
}

// ids makes request and lease IDs as etcd does: two bytes of the member's ID,
// the milliseconds of its start, and a counter that may overflow into them.
type ids struct{ prefix, suffix uint64 }

func newIDs(member uint64, now time.Time) ids {
	const clockBits, countBits = 40, 8
	return ids{prefix: member << (clockBits + countBits), suffix: uint64(now.UnixMilli()) & (1<<clockBits - 1) << countBits}
}

func (g *ids) next() uint64 {
	g.suffix++
	return g.prefix | g.suffix&(1<<48-1)
}
