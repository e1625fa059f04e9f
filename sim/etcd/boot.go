// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"encoding/json"
	"fmt"
	"io"
	stdlog "log"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	serverversion "go.etcd.io/etcd/server/v3/etcdserver/version"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// boot goes by what the disk holds: with a log, the flags about the cluster
// count for nothing.
func (s *Server) boot() {
	data, err := s.host.Open(s.config.DataDir)
	if err != nil {
		s.exit(1, "cannot access data directory: "+err.Error())
		return
	}
	s.data = data
	data.Killed()
	if data.broken {
		s.exit(1, "failed to read WAL, cannot be repaired: "+errDamaged.Error())
		return
	}
	if data.blank {
		s.exit(2, s.blankLog())
		return
	}
	data.cut = false // what is behind its end is written over
	if data.torn {
		data.torn = false
		s.host.Log("repaired WAL: unexpected EOF")
	}
	if s.config.ForceNew {
		s.host.ForceNew(data)
	}
	if !s.since3(7) {
		data.unsnap()
	}
	if log := data.read(); log.owner != nil {
		if err := data.open(log); err != nil {
			s.exit(2, err.Error())
			return
		}
		s.restart(log)
		return
	}
	wanted, err := s.initialRing()
	switch {
	case err != nil:
		s.exit(1, err.Error())
	case s.config.State == "new":
		s.found(wanted)
	default:
		s.join(wanted)
	}
}

// blankLog is the panic of a member that finds in its log not even its own ID.
func (s *Server) blankLog() string {
	if s.since3(7) {
		return "panic: runtime error: invalid memory address or nil pointer dereference"
	}
	return "panic: cannot use none as id"
}

// fail ends a boot with etcd's words.
func (s *Server) fail(format string, args ...any) {
	s.exit(1, fmt.Sprintf(format, args...))
}

// initialRing is --initial-cluster, checked as etcd checks it for this state.
func (s *Server) initialRing() (*membership.RaftCluster, error) {
	urls, err := types.NewURLsMap(s.config.InitialCluster)
	if err != nil {
		return nil, fmt.Errorf("error setting up initial cluster: %w", err)
	}
	own := urls[s.config.Name]
	if own == nil {
		return nil, fmt.Errorf("couldn't find local name %q in the initial cluster configuration", s.config.Name)
	}
	if s.config.State == "new" {
		if err := matches(s.config, own.StringSlice(), urls); err != nil {
			return nil, err
		}
	}
	all := strings.Split(urls.String(), ",")
	for i := range all {
		_, all[i], _ = strings.Cut(all[i], "=")
	}
	slices.Sort(all)
	if len(slices.Compact(all)) < urls.Len() {
		return nil, fmt.Errorf("initial cluster %s has duplicate url", urls)
	}
	return membership.NewClusterFromURLsMap(zap.NewNop(), s.config.Token, urls, membership.WithMaxLearners(s.config.MaxLearners))
}

// matches compares what the member advertises with what the cluster says of it.
func matches(c Config, listed []string, urls types.URLsMap) error {
	advertised := slices.Clone(c.AdvertisePeer)
	slices.Sort(advertised)
	slices.Sort(listed)
	if slices.Equal(advertised, listed) {
		return nil
	}
	if missing := without(listed, advertised, c.Name+"="); missing != "" {
		return fmt.Errorf("--initial-cluster has %s but missing from --initial-advertise-peer-urls=%s (%w)",
			missing, strings.Join(advertised, ","), unequal(advertised, listed))
	}
	if missing := without(advertised, listed, ""); missing != "" {
		own, _ := types.NewURLs(advertised)
		return fmt.Errorf("--initial-advertise-peer-urls has %s but missing from --initial-cluster=%s", missing, types.URLsMap{c.Name: own})
	}
	return fmt.Errorf("failed to resolve %s to match --initial-cluster=%s (%w)", strings.Join(advertised, ","), urls, unequal(advertised, listed))
}

func without(all, but []string, prefix string) string {
	var left []string
	for _, one := range all {
		if !slices.Contains(but, one) {
			left = append(left, prefix+one)
		}
	}
	return strings.Join(left, ",")
}

// unequal says why two sorted lists of URLs don't match, as etcd's resolver
// does. Names are never resolved here.
func unequal(a, b []string) error {
	if len(a) != len(b) {
		return fmt.Errorf("len(%q) != len(%q)", a, b)
	}
	for i := range a {
		if a[i] != b[i] {
			return fmt.Errorf("resolved urls: %q != %q", a[i], b[i])
		}
	}
	return nil
}

// restart goes on from a log.
func (s *Server) restart(log log) {
	s.id, s.cluster = log.owner.member, log.owner.cluster
	s.ring = membership.NewCluster(zap.NewNop(), membership.WithMaxLearners(s.config.MaxLearners))
	s.ring.SetID(types.ID(s.id), types.ID(s.cluster))
	// What the dying process had written and not synced is read and trusted: so
	// does etcd, which opens the files as they are.
	s.data.synced, s.data.handed = s.data.wal.Len(), s.data.wal.Len()
	if err := s.data.suits(s.config.MaxLearners); s.since3(6) && err != nil {
		s.fail("%v", err)
		return
	}
	before, st := s.data.made.state, (*state)(nil)
	// The keyspace file says it, also where the log is read again from its beginning.
	if before != nil && s.tooOld(before.book.version, before.book.downgrade) {
		return
	}
	if s.since3(6) {
		st = s.data.database(log, s.release)
	}
	ahead := st != nil
	if !ahead && !s.does.Own {
		st = s.data.ready(log, s.release)
	}
	switch {
	case st != nil:
	case log.snap != nil:
		st = log.snap.state.clone()
	default:
		st = newState()
	}
	s.begin(st)
	if s.over {
		return
	}
	applied := min(st.index, log.hard.commit)
	if ahead && !s.since3(7) {
		applied = s.replays(log)
	}
	s.trail = newTrail(log, st.conf)
	if at := min(st.index, log.hard.commit); at > s.trail.before {
		s.applied, s.term = at, log.entries[at-s.trail.before-1].GetTerm() // it goes over them, in etcd
		s.committed = max(at, s.trail.before)
	}
	// A state that goes on is further than the last snapshot.
	s.snapshots.disk, s.snapshots.memory = s.trail.before, s.trail.before
	s.start(nil, applied)
	s.advance() // applies what is known to be committed; nothing is sent yet
	if s.over {
		return
	}
	if before != nil {
		s.state.kv.Reopen(before.kv)
	}
	s.measure()
	s.snapshots.look()
	if s.config.CorruptCheck {
		s.host.After(loading, s.compareHashes)
		return
	}
	s.serveUnlessOver()
}

// replays begins with the members as of the log's last snapshot, whose index it returns: until 3.7
// raft hears of each change after that anew, as far as the log knows it to be committed, while the
// database says whom to serve. Who was removed last is turned away then, and his vote is needed.
func (s *Server) replays(log log) uint64 {
	from := newState()
	if log.snap != nil {
		from = log.snap.state
	}
	s.state.conf = from.conf
	s.replay = membership.NewCluster(zap.NewNop(), membership.WithMaxLearners(s.config.MaxLearners))
	s.replay.SetBackend(from.book.clone())
	s.replay.Recover(ignoreVersion)
	return from.index
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// begin takes on a state and makes what works on it.
func (s *Server) begin(st *state) {
	s.ids = newIDs(s.id, s.host.Now())
	s.peers = transport{server: s}
	s.proposals = proposals{server: s, waits: map[uint64]*wait{}}
	s.reads = reads{server: s}
	s.leases = newLeases(s)
	s.snapshots = snapshots{server: s, incoming: map[uint64]*state{}, disk: st.index, memory: st.index}
	s.committed = st.index
	s.adopt(st)
	if !s.over {
		s.peers.replace()
	}
}

func (s *Server) start(initialMembers []raft.Peer, applied uint64) {
	node, err := raft.NewRawNode(&raft.Config{
		ID:              s.id,
		ElectionTick:    s.config.electionTicks(),
		HeartbeatTick:   1,
		Storage:         s.trail,
		Applied:         applied,
		MaxSizePerMsg:   512 * 1024,
		MaxInflightMsgs: 512,
		CheckQuorum:     true,
		PreVote:         s.config.PreVote,
		Logger:          newQuiet(),
	})
	must(err)
	s.node, s.stirred = node, true
	if len(initialMembers) > 0 {
		must(node.Bootstrap(initialMembers))
	}
}

// found starts a member of a new ring, unless the others know it as one that
// has run before: it would have forgotten its votes.
func (s *Server) found(wanted *membership.RaftCluster) {
	self := wanted.MemberByName(s.config.Name)
	s.askAny(s.others(wanted), askMembers{}, time.Second, func(answer any, err error) {
		if known, ok := answer.(answerMembers); ok && err == nil {
			for _, m := range known.members {
				if m.ID == self.ID && len(m.ClientURLs) > 0 {
					s.fail("member %s has already been bootstrapped", self.ID)
					return
				}
			}
		}
		var initialMembers []raft.Peer
		for _, m := range wanted.Members() {
			context, err := json.Marshal(m)
			must(err)
			initialMembers = append(initialMembers, raft.Peer{ID: uint64(m.ID), Context: context})
		}
		s.create(wanted, self.ID, wanted.ID(), nil, initialMembers)
	})
}

// others are the peer URLs of all but this member, sorted.
func (s *Server) others(ring *membership.RaftCluster) []string {
	var urls []string
	for _, m := range ring.Members() {
		if m.Name != s.config.Name {
			urls = append(urls, m.PeerURLs...)
		}
	}
	slices.Sort(urls)
	return urls
}

// join starts a member that the ring has added: the first peer that answers
// tells who is in it.
func (s *Server) join(wanted *membership.RaftCluster) {
	s.askAny(s.others(wanted), askMembers{}, 10*time.Second, func(answer any, err error) {
		known, ok := answer.(answerMembers)
		switch {
		case err != nil || !ok:
			s.fail("cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs")
			return
		case len(known.members) == 0:
			s.fail("cannot fetch cluster info from peer urls: failed to get raft cluster member(s) from the given URLs")
			return
		}
		members, err := assign(wanted.Members(), known.members)
		if err != nil {
			s.fail("error validating peerURLs %s: %v", known, err)
			return
		}
		ring := membership.NewClusterFromMembers(zap.NewNop(), types.ID(known.cluster), members, membership.WithMaxLearners(s.config.MaxLearners))
		self := ring.MemberByName(s.config.Name).ID
		s.compatible(ring, self, func() {
			if err := membership.ValidateMaxLearnerConfig(s.config.MaxLearners, known.members, false); err != nil {
				s.fail("%v", err)
				return
			}
			s.create(ring, self, types.ID(known.cluster), known.members, nil)
		})
	})
}

// assign gives the members of the flags the IDs that the ring has for their
// URLs. membership.ValidateClusterAndAssignIDs does it too, but resolves names
// with the real network.
func assign(wanted, known []*membership.Member) ([]*membership.Member, error) {
	if len(wanted) != len(known) {
		return nil, fmt.Errorf("member count is unequal")
	}
	for _, k := range known {
		urls := slices.Sorted(slices.Values(k.PeerURLs))
		var err error
		found := false
		for _, w := range wanted {
			if err = unequal(urls, slices.Sorted(slices.Values(w.PeerURLs))); err == nil {
				w.ID, found = k.ID, true
				break
			}
		}
		if !found {
			return nil, fmt.Errorf("PeerURLs: no match found for existing member (%v, %v), last resolver error (%w)", k.ID, k.PeerURLs, err)
		}
	}
	return wanted, nil
}

// compatible asks every member for the cluster's version. Nobody who knows one
// is a refusal, and so is one that is newer than this binary, or, in a
// downgrade, any but the next newer.
func (s *Server) compatible(ring *membership.RaftCluster, self types.ID, then func()) {
	s.askVersions(ring.Members(), self, func(all []*answerVersion) {
		s.askDowngrade(ring.Members(), self, func(downgrade bool) {
			if !s.within(all, downgrade) {
				s.fail("incompatible with current running cluster")
				return
			}
			then()
		})
	})
}

// within reports whether this binary may join a ring of these versions.
func (s *Server) within(all []*answerVersion, downgrade bool) (known bool) {
	lowest, highest := semver.New("3.0.0"), s.minor()
	if downgrade {
		highest.Minor++
		lowest = highest
	}
	for _, v := range all {
		if v == nil || v.cluster == nil {
			continue
		}
		if known = !v.cluster.LessThan(*lowest) && !highest.LessThan(*v.cluster); !known {
			return false
		}
	}
	return known
}

// create writes the head of a new log and goes on once it is safe.
func (s *Server) create(ring *membership.RaftCluster, id, cluster types.ID, remotes []*membership.Member, initialMembers []raft.Peer) {
	s.id, s.cluster, s.ring = uint64(id), uint64(cluster), ring
	s.data.add(record{owner: &owner{member: s.id, cluster: s.cluster}})
	s.data.flush()
	mark := s.data.end()
	s.host.Sync(s.data, func(err error) {
		if err != nil {
			s.exit(2, "failed to create WAL: "+err.Error())
			return
		}
		s.data.markSynced(mark, s.config.CatchUp)
		ring.SetID(id, cluster)
		s.beginNew(remotes)
		s.trail = newTrail(log{}, s.state.conf)
		s.start(initialMembers, 0)
		s.serveUnlessOver()
	})
}

// beginNew is begin for a member whose book is empty until the log fills it:
// until then the flags say who its peers are.
func (s *Server) beginNew(remotes []*membership.Member) {
	known := s.ring
	s.ring = membership.NewCluster(zap.NewNop(), membership.WithMaxLearners(s.config.MaxLearners))
	s.ring.SetID(known.ID(), types.ID(s.cluster))
	s.begin(newState())
	known.SetBackend(s.state.book)
	s.ring = known
	s.ring.SetID(types.ID(s.id), types.ID(s.cluster))
	for _, m := range remotes {
		s.peers.addRemote(uint64(m.ID), m.PeerURLs)
	}
	s.view.stale = true
	s.peers.replace()
}

func (s *Server) serveUnlessOver() {
	if !s.over {
		s.serve()
	}
}

// loading is how long etcd has listened for its peers when it comes to ask them: it opens its
// database meanwhile, and replays its log.
const loading = 30 * time.Millisecond

// compareHashes is the initial corruption check: it refuses to serve a
// keyspace that differs from a peer's at the same revision. Two that have begun together
// answer each other only when one gives up: they serve nobody before they have asked.
func (s *Server) compareHashes() {
	hash, revision, compacted, err := s.state.kv.Hash(0)
	if err != nil {
		s.fail("%s failed to fetch hash (%v)", types.ID(s.id), err)
		return
	}
	left := slices.DeleteFunc(slices.Clone(s.members().all), func(m *membership.Member) bool { return uint64(m.ID) == s.id })
	var next func()
	next = func() {
		if len(left) == 0 {
			s.serveUnlessOver()
			return
		}
		m := left[0]
		left = left[1:]
		s.askAny(m.PeerURLs, askHash{cluster: s.cluster, revision: revision}, s.config.ReqTimeout(), func(answer any, err error) {
			theirs, ok := answer.(answerHash)
			if err == nil && ok && theirs.hash != hash && theirs.compacted == compacted {
				s.fail("%s found data inconsistency with peers", types.ID(s.id))
				return
			}
			next()
		})
	}
	next()
}

// tooOld ends a binary that is older than the cluster's version. 3.5 exits in
// order; later releases panic, and while they serve that is a panic of the job
// which applies. While a downgrade is under way 3.5 ends at any other release than its
// target, that of before it too (mustDetectDowngrade).
func (s *Server) tooOld(cluster *semver.Version, d *serverversion.DowngradeInfo) bool {
	if !s.since3(6) && d != nil && d.Enabled {
		other := !d.GetTargetVersion().Equal(*s.minor())
		if other {
			s.exit(1, "invalid downgrade; server version is not allowed to join when downgrade is enabled")
		}
		return other
	}
	if cluster == nil || !s.minor().LessThan(*cluster) {
		return false
	}
	const why = "invalid downgrade; server version is lower than determined cluster version"
	switch {
	case !s.since3(6):
		s.exit(1, why)
	case !s.open:
		s.fail("version %q is not supported", cluster) // of the database: etcd goes no further
	default:
		s.exit(2, errJob)
	}
	return true
}

func ignoreVersion(*zap.Logger, *semver.Version) {}

// newQuiet is raft's logger: what it tells is in the trace already. Where raft
// can't go on it panics with what it would have logged.
func newQuiet() raft.Logger {
	return &raft.DefaultLogger{Logger: stdlog.New(io.Discard, "", 0)}
}

// crash ends the process if raft gave up, as a panic ends etcd: with a leader
// that counts on what this log has lost, say. It is deferred by all that steps
// raft, which panics with strings, and with an error where a change of the ring can't be:
// the last voter is removed. What Go itself panics with is a mistake of the model.
func (s *Server) crash() {
	switch why := recover().(type) {
	case nil:
	case string:
		s.exit(2, why)
	case runtime.Error:
		panic(why)
	case error:
		s.exit(2, "panic: "+why.Error())
	default:
		panic(why)
	}
}

// step gives raft a message, with what raft thinks of it.
func (s *Server) step(m *raftpb.Message) error {
	defer s.crash()
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgReadIndex:
		s.answers = true
	}
	return s.raft().Step(m)
}
