// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// What a member refuses of another, in etcd's words.
var (
	errOtherCluster = errors.New("cluster ID mismatch")
	errRemoved      = errors.New("the member has been permanently removed from the cluster")
	errUnknown      = errors.New("failed to find local node")
	errOtherMember  = errors.New("unhandled error \"to field mismatch\" when precondition failed")
	errNotSaved     = errors.New("unexpected http status Internal Server Error")
	errNotServing   = errors.New("connection refused")
)

// transport sends raft's messages to the peer URLs that the ring has stored.
// A remote is one that isn't in the ring as this member knows it, but has
// spoken to it: a lagging member must be able to answer a leader that joined
// after all it knows.
type transport struct {
	server  *Server
	peers   peers
	remotes peers
}

// peers are a few: to look for one takes less than a map would.
type peers []*peer

// of returns the peer of that ID, or nil.
func (all peers) of(id uint64) *peer {
	for _, p := range all {
		if p.id == id {
			return p
		}
	}
	return nil
}

// peer is one other member. etcd keeps a connection to it at all times and
// takes it as active while that stands: the rules about unhealthy clusters go
// by this, on every member by its own view.
type peer struct {
	transport *transport
	id        uint64
	lines     []*line // one a URL
	picked    int
	standing  *line // on which its stream stands; nil: on none
	active    bool
	since     time.Duration // of the change to what it is now
	deaf      bool          // at its URLs it doesn't answer
	opened    string        // where it is by its own word, who has opened a stream on which nothing got lost; "": none has
	taken     bool          // it is at the URL of another member
	redial    func()
	severed   func(error)
	stop      func() // of the redialing that is due; nil while it is under way
	gone      bool
}

// line is how a peer is reached at one of its URLs. A stream that stands is read on
// when the ring stores other URLs (peer.update in rafthttp/peer.go): they count at the
// next dial.
type line struct {
	url    string
	missed func(error) // a packet didn't get there
	dialed func(any, error)
}

const (
	dialEvery     = 100 * time.Millisecond
	dialSlowly    = 500 * time.Millisecond // after some seconds in vain
	dialPatience  = 5 * time.Second
	linkHeartbeat = 5 * time.Second / 3
)

// hello is the handshake of a stream.
type hello struct {
	cluster, from, to uint64
	urls              []string
}

func (t *transport) newPeer(id uint64, urls []string) *peer {
	p := &peer{transport: t, id: id, since: t.server.now()}
	p.redial, p.severed = p.dial, p.sever
	p.setURLs(urls)
	return p
}

func (p *peer) setURLs(urls []string) {
	p.lines, p.picked = nil, 0
	for _, url := range urls {
		l := &line{url: url}
		l.missed = func(err error) { p.lose(l, err) }
		l.dialed = func(_ any, err error) { p.greeted(l, err) }
		p.lines = append(p.lines, l)
	}
}

// at reports whether the ring has stored the URL for the peer.
func (p *peer) at(url string) bool {
	return slices.ContainsFunc(p.lines, func(l *line) bool { return l.url == url })
}

// line is the one that stands, or is to be dialed next.
func (p *peer) line() *line {
	if p.standing != nil {
		return p.standing
	}
	return p.lines[p.picked]
}

// replace makes the peers those of the ring, when a snapshot replaced all.
func (t *transport) replace() {
	for _, p := range t.peers {
		p.gone = true
	}
	t.peers = nil
	for _, m := range t.server.members().all {
		t.add(uint64(m.ID), m.PeerURLs)
	}
}

func (t *transport) add(id uint64, urls []string) {
	if id == t.server.id || t.peers.of(id) != nil || len(urls) == 0 {
		return
	}
	p := t.newPeer(id, urls)
	t.peers = append(t.peers, p)
	if t.server.open {
		p.dial()
	}
}

func (t *transport) remove(id uint64) {
	t.peers = slices.DeleteFunc(t.peers, func(p *peer) bool {
		p.gone = p.gone || p.id == id
		return p.gone
	})
}

func (t *transport) update(id uint64, urls []string) {
	if p := t.peers.of(id); p != nil {
		p.setURLs(urls)
	}
}

func (t *transport) addRemote(id uint64, urls []string) {
	if id == t.server.id || t.peers.of(id) != nil || t.remotes.of(id) != nil || len(urls) == 0 {
		return
	}
	t.remotes = append(t.remotes, t.newPeer(id, urls))
}

func (t *transport) dialAll() {
	all := slices.SortedFunc(slices.Values(t.peers), func(a, b *peer) int { return cmp.Compare(a.id, b.id) })
	for _, p := range all {
		p.dial()
	}
}

func (t *transport) activeCount() int {
	n := 0
	for _, p := range t.peers {
		if p.active {
			n++
		}
	}
	return n
}

// connected reports whether a member has been active since before a time.
func (t *transport) connected(id uint64, since time.Duration) bool {
	p := t.peers.of(id)
	return id == t.server.id || p != nil && p.active && p.since < since
}

func (t *transport) countConnected(members []uint64, since time.Duration) int {
	n := 0
	for _, id := range members {
		if t.connected(id, since) {
			n++
		}
	}
	return n
}

// longest is the member among some that has been active the longest.
func (t *transport) longest(among []uint64) (uint64, bool) {
	var best *peer
	for _, id := range among {
		if p := t.peers.of(id); p != nil && p.active && (best == nil || p.since < best.since) {
			best = p
		}
	}
	if best == nil {
		return 0, false
	}
	return best.id, true
}

func (p *peer) dial() {
	s := p.transport.server
	if p.gone || s.over {
		return
	}
	p.stop = nil
	l := p.line()
	s.host.Ask(l.url, hello{s.cluster, s.id, p.id, s.config.AdvertisePeer}, l.dialed)
}

func (p *peer) greeted(l *line, err error) {
	s := p.transport.server
	if p.gone || s.over {
		return
	}
	if err != nil {
		p.lose(l, err)
	} else {
		p.deaf, p.standing = false, l
		p.activate()
	}
	wait := linkHeartbeat
	if !p.active {
		wait = dialEvery
		if s.now()-p.since > dialPatience {
			wait = dialSlowly
		}
	}
	p.stop = s.host.After(wait, p.redial)
}

// HungUp tells that the process at a peer URL has ended, and its streams with it:
// etcd takes the peer as inactive at once, and dials again (streamReader.run in
// rafthttp/stream.go).
func (s *Server) HungUp(url string) {
	for _, p := range s.peers.peers {
		if !p.active || p.line().url != url {
			continue
		}
		p.lose(p.line(), errNotServing)
		if p.stop != nil {
			p.stop()
			p.stop = s.host.After(dialEvery, p.redial)
		}
	}
}

// answers is a stream that a member opens: etcd sends it what is for that member
// from then on, whoever opened one before, and wherever the member is by the list.
func (p *peer) answers(urls []string) {
	p.opened, p.taken = p.line().url, false
	if len(urls) > 0 {
		p.opened, p.taken = urls[0], !slices.ContainsFunc(urls, p.at) && p.transport.at(urls[0])
	}
}

// at reports whether another member of the ring is at a URL.
func (t *transport) at(url string) bool {
	return slices.ContainsFunc(t.peers, func(p *peer) bool { return p.at(url) })
}

func (p *peer) activate() {
	if !p.active {
		p.active, p.since = true, p.transport.server.now()
	}
}

// lose is the end of a connection, or a packet that didn't get there.
func (p *peer) lose(l *line, err error) {
	s := p.transport.server
	if s.over || p.gone {
		return
	}
	if errors.Is(err, errRemoved) {
		s.removed()
		return
	}
	if p.deaf = true; p.active {
		p.active, p.since = false, s.now()
	}
	if p.standing == l {
		p.standing = nil
	}
	if p.lines[p.picked] == l {
		p.picked = (p.picked + 1) % len(p.lines)
	}
	s.raft().ReportUnreachable(p.id)
	s.advance()
}

// send sends what raft wants sent, but for what etcd leaves out: all but the
// last acknowledgement, which covers the others, and snapshots, which are made
// of the newest state once it is applied.
func (s *Server) send(ms []*raftpb.Message) {
	if !s.open {
		return
	}
	last := 0 // the last acknowledgement
	for i, m := range ms {
		if m.GetType() == raftpb.MsgAppResp {
			last = i
		}
	}
	for i, m := range ms {
		switch {
		case i < last && m.GetType() == raftpb.MsgAppResp, m.GetTo() == raft.None, s.state.book.removed[types.ID(m.GetTo())]:
		case m.GetType() == raftpb.MsgSnap:
			s.snapshots.ask(m)
		default:
			s.peers.send(m)
		}
	}
}

func (t *transport) send(m *raftpb.Message) {
	p := t.peers.of(m.GetTo())
	if p == nil {
		p = t.remotes.of(m.GetTo())
	}
	if p == nil {
		return
	}
	packet := t.packet(m)
	if packet.Back = p.opened != "" && (p.deaf || p.taken); packet.Back {
		t.server.host.Send(p.opened, packet, p.severed)
		return
	}
	l := p.line()
	t.server.host.Send(l.url, packet, l.missed)
}

// sever is a packet that got lost on the stream that the peer had opened.
func (p *peer) sever(error) { p.opened, p.taken = "", false }

func (t *transport) packet(m *raftpb.Message) Packet {
	s := t.server
	return Packet{Cluster: s.cluster, From: s.id, URLs: s.config.AdvertisePeer, Message: m}
}

// Receive takes a peer's message. The error is what the sender is told: one
// that hears that it was removed ends itself, as etcd does.
func (s *Server) Receive(p Packet) error {
	m := p.Message
	switch {
	case !s.open || s.over:
		return errNotServing
	case p.Cluster != s.cluster:
		return errOtherCluster
	case s.state.book.removed[types.ID(p.From)]:
		return errRemoved
	case m.GetTo() != s.id:
		return errOtherMember
	}
	if from := s.peers.peers.of(p.From); from != nil {
		from.activate()
	} else {
		s.peers.addRemote(p.From, p.URLs)
	}
	if body, ok := p.Body.(*state); ok {
		if s.data.noFile("/member/snap") != nil {
			return errNotSaved
		}
		s.snapshots.receive(body)
	}
	if m.GetType() == raftpb.MsgProp {
		s.proposals.forwarded(m)
	} else {
		_ = s.step(m) // what raft doesn't like it drops: the sender repeats it
	}
	s.advance()
	return nil
}

func (s *Server) greet(h hello) error {
	switch {
	case h.cluster != s.cluster:
		return errOtherCluster
	case s.state.book.removed[types.ID(h.from)]:
		return errRemoved
	case s.peers.peers.of(h.from) == nil:
		s.peers.addRemote(h.from, h.urls)
		return errUnknown
	case h.to != s.id:
		return errOtherMember
	}
	from := s.peers.peers.of(h.from)
	from.answers(h.urls)
	from.activate()
	return nil
}
