// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/sim/etcd"
)

// Times of the network: one way between two machines of a region.
const (
	quickHop    = 150 * time.Microsecond
	slowHop     = 600 * time.Microsecond
	tailHop     = 8 * time.Millisecond   // one packet in a hundred
	firstResent = 200 * time.Millisecond // until TCP sends again what it has heard nothing of
	streamDead  = 5 * time.Second        // without a packet, until etcd gives a peer's stream up
)

// link is one direction between two machines.
type link struct{ from, to *Machine }

// way is one direction of what one machine's processes, or its etcd as a peer, say to another.
type way struct {
	link
	peers bool
}

// network carries packets between machines. The harness's own clients, whose
// machine is nil, reach everyone.
type network struct {
	world *World
	cuts  map[link]map[string]string // which port is cut, by the step that made it so; "": all
	chaos *stream
	slow  map[*Machine]map[string]time.Duration // added to each hop, by step
	mute  map[*Machine]map[string]int           // of 100 replies, how many are lost, by step
	lossy map[*Machine]map[string]int           // of 100 packets, how many are lost, by step
	stuck map[way]ringproof.Instant             // until what was lost there has been sent again
	spare []*parcel
	reset bool                     // what is cut is refused, not dropped
	stale int                      // how many machines' names don't resolve to them
	talks map[link]*ringproof.Talk // of peers; nil: nobody asks how they speak
}

func newNetwork(w *World) *network {
	return &network{world: w, cuts: map[link]map[string]string{}, chaos: w.engine.chance("network"),
		slow: map[*Machine]map[string]time.Duration{}, mute: map[*Machine]map[string]int{}, lossy: map[*Machine]map[string]int{}, stuck: map[way]ringproof.Instant{}}
}

// cut drops what from sends to to, of one port or of all, until the step is healed.
func (n *network) cut(step string, from, to *Machine, port string) {
	l := link{from, to}
	if n.cuts[l] == nil {
		n.cuts[l] = map[string]string{}
	}
	n.cuts[l][step] = port
}

// note notes in which way an etcd has spoken to another as its peer. A machine that sleeps reads
// later what it was sent before.
func (n *network) note(from *Machine, to *place, at ringproof.Instant) {
	if n.talks == nil || from == to.machine {
		return
	}
	l := link{from, to.machine}
	if n.talks[l] == nil {
		n.talks[l] = &ringproof.Talk{From: from.name, To: to.machine.name}
	}
	if to.secure {
		n.talks[l].TLS = max(n.talks[l].TLS, at)
	} else {
		n.talks[l].Plain = max(n.talks[l].Plain, at)
	}
}

// mend takes away what the step cut and slowed.
func (n *network) mend(step string) {
	for _, steps := range n.cuts { // order: each is changed by itself
		delete(steps, step)
	}
	for _, steps := range n.slow { // order: each is changed by itself
		delete(steps, step)
	}
	for _, lost := range []map[*Machine]map[string]int{n.mute, n.lossy} {
		for _, steps := range lost { // order: each is changed by itself
			delete(steps, step)
		}
	}
}

// passes reports whether a packet of a connection to a port gets from one to the other, whoever dialled.
func (n *network) passes(from, to *Machine, port string) bool {
	if from == nil || to == nil {
		return true
	}
	return to.on && !to.lost && (len(n.cuts) == 0 || !n.isCut(link{from, to}, port))
}

func (n *network) isCut(l link, port string) bool {
	for _, cut := range n.cuts[l] { // order: one of them is enough
		if cut == "" || cut == ringproof.PortAll || cut == port {
			return true
		}
	}
	return false
}

// hop is how long one packet takes. What is slow is the way out of a machine and into it.
func (n *network) hop(from, to *Machine) time.Duration { return n.takes(way{link{from, to}, false}) }

func (n *network) takes(w way) time.Duration {
	d := n.chaos.between(quickHop, slowHop)
	if n.chaos.draw()%100 == 0 {
		d = n.chaos.between(slowHop, tailHop)
	}
	if w.from == w.to {
		return d
	}
	d += n.resent(w)
	if len(n.slow) == 0 {
		return d
	}
	for _, m := range [...]*Machine{w.from, w.to} {
		if m != nil {
			for _, slow := range n.slow[m] { // order: a sum
				d += slow
			}
		}
	}
	return d
}

// resent is how much longer a packet between machines takes that is lost, until it has been sent again: each time
// after twice as long (RFC 6298, Linux's TCP_RTO_MIN), and by streamDead on another connection. What is sent
// meanwhile waits for it.
func (n *network) resent(w way) (d time.Duration) {
	if len(n.lossy) == 0 || w.from == nil || w.to == nil {
		return 0
	}
	now := n.world.engine.now
	if until := n.stuck[w]; until > now {
		return until.Sub(now)
	}
	out, in := worst(n.lossy, w.from), worst(n.lossy, w.to)
	percent := out + in - out*in/100 // it may be lost at either end
	for wait := firstResent; percent > 0 && d < streamDead && n.chaos.below(100) < percent; wait *= 2 {
		d += wait
	}
	d = min(d, streamDead)
	n.stuck[w] = now.Add(d)
	return d
}

// loses reports whether a reply between the two gets lost.
func (n *network) loses(from, to *Machine) bool {
	percent := max(worst(n.mute, from), worst(n.mute, to))
	return percent > 0 && n.chaos.below(100) < percent
}

// worst is the most that any step has lost of 100 at the machine; nil is the harness's own.
func worst(lost map[*Machine]map[string]int, at *Machine) (percent int) {
	if len(lost) == 0 || at == nil {
		return 0
	}
	for _, of := range lost[at] { // order: the largest
		percent = max(percent, of)
	}
	return percent
}

// inOrder is hop for a stream: no packet overtakes the one before it.
func (n *network) inOrder(from, to *Machine) time.Duration {
	now := n.world.engine.now
	last := from.sent(to)
	*last = max(now.Add(n.takes(way{link{from, to}, true})), *last+1)
	return last.Sub(now)
}

// place is where a URL leads.
type place struct {
	machine   *Machine // nil: nowhere
	secure    bool     // by its scheme
	host      string   // and port
	port      string
	name      string // of the host alone
	met       []*handshake
	strangers bool // every handshake is the first
}

// at returns the place of a URL.
func (n *network) at(address string) (*place, error) {
	if known, ok := n.world.places[address]; ok {
		return known, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	p := placeOf(u)
	if m := n.owner(p.name); m != nil {
		p.machine, p.strangers = m, n.world.work.Own
		n.world.places[address] = p
		return p, nil
	}
	return p, fmt.Errorf("dial tcp %s: no route to host", u.Host)
}

// owner is who answers at the name or IP address: its machine, or one that has it
// meanwhile.
func (n *network) owner(host string) *Machine {
	for _, m := range slices.Concat(n.world.machines, n.world.twins) {
		switch at := m.address == host || m.ip == host; {
		case at && m.standIn != nil:
			return m.standIn
		case at:
			return m
		}
	}
	return nil
}

func placeOf(u *url.URL) *place {
	return &place{secure: u.Scheme == "https", host: u.Host, port: u.Port(), name: u.Hostname()}
}

var (
	errRefused = errors.New("connection refused")
	errSilent  = errors.New("i/o timeout")
	errReset   = errors.New("connection reset by peer")
)

// reach delivers f to the etcd that listens at a peer URL, if it serves its peers or f waits
// until it does. failed is called with why not: a refusal at once, silence only after a while.
func (s *server) reach(address string, waits bool, f func(*server), failed func(error)) {
	n := s.machine.world.network
	e := s.engine
	at, err := n.at(address)
	if err == nil {
		at, err = n.resolve(s.machine, at)
	}
	if err != nil {
		e.after(0, prioArrival, kindPacket, s.process, func() { failed(err) })
		return
	}
	m := at.machine
	late := func() { s.unheard(s.dials, failed) }
	back := func(err error) {
		if n.passes(m, s.machine, ringproof.PortPeer) {
			e.after(n.hop(m, s.machine), prioArrival, kindPacket, s.process, func() { failed(err) })
		} else {
			late()
		}
	}
	e.after(n.hop(s.machine, m), prioArrival, kindPacket, nil, func() {
		switch to := m.etcd; {
		case !n.passes(s.machine, m, ringproof.PortPeer):
			late()
		case to == nil || to.etcd == nil || !to.listens(at) && !(waits && to.bound(at)):
			back(fmt.Errorf("dial tcp %s: connect: %w", at.host, errRefused))
		default:
			came := n.world.Now()
			to.hear(func() {
				if err := s.greet(to, at); err != nil {
					back(err)
					return
				}
				n.note(s.machine, at, came)
				f(to)
			})
		}
	})
}

// hear runs f in the process, once it is not paused any more. A panic in it is
// one of the model, also when it comes up in a call of the agent: what raft
// itself gives up on ends the etcd, by its own hand.
func (s *server) hear(f func()) {
	if s.stands() {
		s.engine.after(0, prioArrival, kindPacket, s.process, f)
		return
	}
	before := s.engine.actor
	s.engine.actor = s.process
	defer func() {
		s.engine.actor = before
		if what := recover(); what != nil {
			s.engine.panicked(s.name, what)
			panic(what)
		}
	}()
	f()
}

// listens reports whether the process serves peers at the place's port.
func (s *server) listens(at *place) bool {
	peer, _ := s.etcd.Listening()
	return peer && s.bound(at)
}

// bound reports whether the place's port is the process's, as it is before it serves anybody.
func (s *server) bound(at *place) bool {
	_, here := s.ports[at.port]
	return here
}

// shows is what the process shows a peer that dials the port; nil: it takes no TLS there.
func (s *server) shows(port string) *credentials {
	if s.ports[port] {
		return s.peer
	}
	return nil
}

// holds reports whether who connects to the client port is kept waiting: the etcd
// listens there, and isn't ready to serve.
func (s *server) holds() bool { return s.etcd != nil && s.etcd.Holds() }

// Ready lets those in who were kept waiting.
func (s *server) Ready() {
	held := s.held
	s.held = nil
	for _, enter := range held {
		s.engine.after(quickHop, prioArrival, kindRequest, s.process, enter)
	}
}

func (s *server) clients() bool {
	_, client := s.etcd.Listening()
	return client
}

// parcel is one packet on its way.
type parcel struct {
	timer
	from   *server
	to     *route
	packet etcd.Packet
	failed func(error)
	came   ringproof.Instant // when it first got there
}

// Send delivers a packet to a peer.
func (s *server) Send(address string, p etcd.Packet, failed func(error)) {
	to, err := s.route(address)
	if err != nil {
		s.engine.after(0, prioArrival, kindPacket, s.process, func() { failed(err) })
		return
	}
	n := s.machine.world.network
	x := n.parcel()
	x.from, x.to, x.packet, x.failed = s, to, p, failed
	x.prio, x.kind, x.on, x.who = prioArrival, kindPacket, x, s.number
	s.engine.schedule(&x.timer, n.inOrder(s.machine, to.machine))
}

// route is where a peer's URL leads. A stream that stands needs no name.
func (s *server) route(address string) (*route, error) {
	r, err := s.known(address)
	if err != nil || r.with != nil && r.with == r.machine.etcd {
		return r, err
	}
	at, err := s.machine.world.network.resolve(s.machine, r.place)
	if err != nil || at == r.place {
		return r, err
	}
	return &route{address: address, place: at}, nil
}

// known is the route to the URL's machine, looked up once: the process sends to the
// same few all its life.
func (s *server) known(address string) (*route, error) {
	for _, r := range s.routes {
		if r.address == address {
			return r, nil
		}
	}
	to, err := s.machine.world.network.at(address)
	if err != nil {
		return nil, err
	}
	r := &route{address: address, place: to}
	s.routes = append(s.routes, r)
	return r, nil
}

// route is the way to a peer, and who has let the process in there. etcd keeps the
// stream: a certificate that expires ends none, and counts at the next handshake,
// which is due once the stream is lost or the peer is another process.
type route struct {
	*place
	address string
	with    *server
}

// enter does the handshake that the peer asks for.
func (r *route) enter(from, to *server) error {
	if r.with == to {
		return nil
	}
	err := from.greet(to, r.place)
	if err == nil {
		r.with = to
	}
	return err
}

// parcel returns an empty one. Half of all events are parcels: they are used
// again.
func (n *network) parcel() *parcel {
	if len(n.spare) == 0 {
		return &parcel{}
	}
	last := len(n.spare) - 1
	x := n.spare[last]
	n.spare = n.spare[:last]
	return x
}

// drop ends a parcel that nothing knows any more.
func (n *network) drop(x *parcel) {
	*x = parcel{}
	n.spare = append(n.spare, x)
}

// happen is the parcel's arrival.
func (x *parcel) happen() {
	s, to := x.from, x.to.machine.etcd
	s.engine.trace.aside(func() string {
		return fmt.Sprintf("%s to %s: %s", s.name, x.to.machine.name, raft.DescribeMessage(x.packet.Message, nil))
	})
	switch {
	case !s.machine.world.network.passes(s.machine, x.to.machine, ringproof.PortPeer):
		x.to.with = nil
		s.unheard(streamDead, x.failed)
	case to == nil || to.etcd == nil || !x.packet.Back && !to.listens(x.to.place):
		x.bounce(fmt.Errorf("dial tcp %s: connect: %w", x.to.host, errRefused))
	case to.stands():
		x.owner, x.came = to.process, cmp.Or(x.came, to.machine.world.Now())
		to.keep(slot{timer: &x.timer})
		return
	default:
		to.receive(x)
	}
	s.machine.world.network.drop(x)
}

// unheard tells a sender that nothing comes back: when etcd's patience ends, or
// at once where a cut resets connections.
func (s *server) unheard(d time.Duration, failed func(error)) {
	err := errSilent
	if s.machine.world.network.reset {
		d, err = quickHop, errReset
	}
	s.engine.after(d, prioTimer, kindPacket, s.process, func() { failed(err) })
}

// receive takes a parcel in.
func (s *server) receive(x *parcel) {
	var err error
	if !x.packet.Back {
		err = x.to.enter(x.from, s)
	}
	if err == nil {
		if !x.packet.Back { // the stream was noted when it was opened
			s.machine.world.network.note(x.from.machine, x.to.place, cmp.Or(x.came, s.machine.world.Now()))
		}
		s.engine.actor = s.process
		err = s.etcd.Receive(x.packet)
	}
	if err != nil {
		x.bounce(err)
	}
}

// bounce tells the sender why the parcel didn't get there.
func (x *parcel) bounce(err error) {
	s, failed := x.from, x.failed
	n := s.machine.world.network
	s.engine.trace.aside(func() string { return "refused: " + err.Error() })
	if at := x.to.machine; n.passes(at, s.machine, ringproof.PortPeer) {
		s.engine.after(n.hop(at, s.machine), prioArrival, kindPacket, s.process, func() { failed(err) })
	} else {
		s.unheard(streamDead, failed)
	}
}

// Ask puts a question to a peer. Whoever asks for an answer has a patience of his own; a
// stream, and what it carries, is given up by etcd's transport.
func (s *server) Ask(address string, question any, answer func(any, error)) {
	over := false
	once := func(a any, err error) {
		if !over {
			over = true
			answer(a, err)
		}
	}
	s.reach(address, etcd.Waits(question), func(to *server) {
		to.etcd.Answer(question, func(a any, err error) {
			n := s.machine.world.network
			switch {
			case n.passes(to.machine, s.machine, ringproof.PortPeer):
				s.engine.after(n.hop(to.machine, s.machine), prioArrival, kindPacket, s.process, func() { once(a, err) })
			case n.reset:
				s.unheard(streamDead, func(err error) { once(nil, err) })
			}
		})
	}, func(err error) { once(nil, err) })
	if !etcd.Waits(question) {
		s.engine.after(streamDead, prioTimer, kindTimer, s.process, func() { once(nil, errSilent) })
	}
}

// call is one request of a client, until its reply.
type call struct {
	timer
	from    *connection
	to      *place
	request any
	server  *server      // that has the request; nil before
	asked   etcd.Request // of it
	back    bool         // the reply is on its way
	wait    waiter
	reply   any
	err     error
	over    bool
}

// end gives the caller its answer, now.
func (c *call) end() {
	if c.over {
		return
	}
	c.over = true
	c.wait.woken = true
	c.wait.happen()
}

// answer sends the answer on its way, unless the way is cut.
func (n *network) answer(c *call, at *Machine, reply any, err error) {
	if c.over || c.back || !n.passes(at, c.from.from, ringproof.PortClient) || n.loses(at, c.from.from) {
		return
	}
	c.reply, c.err, c.back = reply, err, true
	c.prio, c.kind, c.owner = prioTask, kindReply, c.wait.task.process
	n.world.engine.schedule(&c.timer, n.hop(at, c.from.from))
}

// happen is the request's arrival, or the reply's.
func (c *call) happen() {
	if c.back {
		c.end()
	} else {
		c.from.arrive(c)
	}
}

// ask makes one request of the etcd at an endpoint, and waits for the answer.
func (x *connection) ask(ctx context.Context, request any) (any, error) {
	w := x.world
	e := w.engine
	if ctx.Err() != nil {
		e.alive()
		return nil, status.FromContextError(ended(ctx)).Err()
	}
	c := &call{from: x, request: request}
	e.wait(ctx, &c.wait)
	var err error
	if c.to, err = x.place(); err != nil {
		c.over, c.err = true, undialled(err)
		c.wait.wake()
	} else {
		c.prio, c.kind, c.on = prioArrival, kindRequest, c
		e.schedule(&c.timer, w.network.hop(x.from, c.to.machine))
	}
	defer c.cease(false) // a task that is killed goes this way: its connections are closed
	if err := e.pause(&c.wait); err != nil && !c.over {
		c.cease(errors.Is(err, context.DeadlineExceeded))
		return nil, status.FromContextError(err).Err()
	}
	return c.reply, c.err
}

// place is where the endpoint is, once there is such a machine. A connection that
// stands needs no name.
func (x *connection) place() (*place, error) {
	if x.to == nil {
		to, err := x.world.network.at(x.endpoint)
		if err != nil {
			return nil, err
		}
		x.to = to
	}
	if x.with != nil && x.with == x.to.machine.etcd {
		return x.to, nil
	}
	return x.world.network.resolve(x.from, x.to)
}

// cease ends a call that its caller doesn't wait for any more. gRPC tells the
// server: by a packet, or by the deadline, which came with the request.
func (c *call) cease(deadline bool) {
	if c.over {
		return
	}
	c.over = true
	x, s := c.from, c.server
	if s == nil || x.world.closing || x.from != nil && !x.from.on {
		return
	}
	d := quickHop
	if deadline {
		d = 0
	}
	x.world.engine.after(d, prioArrival, kindRequest, nil, func() {
		if !s.ended && (deadline || x.world.network.passes(x.from, c.to.machine, ringproof.PortClient)) {
			s.hear(c.asked.GiveUp)
		}
	})
}

func undialled(err error) error {
	return status.Error(codes.Unavailable, "connection error: desc = \"transport: Error while dialing: "+err.Error()+"\"")
}

// errBroken is a connection that ended while a request was under way.
var errBroken = status.Error(codes.Unavailable, "error reading from server: EOF")

// arrive is the request at its machine.
func (x *connection) arrive(c *call) {
	n, m := x.world.network, c.to.machine
	s := m.etcd
	switch {
	case c.over || !n.passes(x.from, m, ringproof.PortClient) || !m.on || m.lost || x.from == nil && m.strange: // nothing comes back: the caller's patience ends it
	case s != nil && s.holds():
		s.open(c)
		s.held = append(s.held, func() { x.arrive(c) })
	case s == nil || s.etcd == nil || !s.clients():
		n.answer(c, m, nil, undialled(fmt.Errorf("dial tcp %s: connect: %w", c.to.host, errRefused)))
	case s.stands():
		c.owner = s.process
		s.keep(slot{timer: &c.timer})
	default:
		s.engine.actor = s.process
		s.serve(c)
	}
}

// serve hands a request to the etcd.
func (s *server) serve(c *call) {
	n := s.machine.world.network
	s.engine.trace.aside(func() string { return fmt.Sprintf("%s is asked %T", s.name, c.request) })
	if err := c.from.enter(s, c.to); err != nil {
		n.answer(c, s.machine, nil, undialled(err))
		return
	}
	s.open(c)
	reply := func(reply any, err error) { n.answer(c, s.machine, reply, err) }
	if _, ok := c.request.(*pb.SnapshotRequest); ok {
		reply(s.backup())
		return
	}
	c.server = s
	s.etcd.Call(&c.asked, c.request, reply)
}

// backup is a snapshot as one reply: how its parts arrive tells nobody anything.
func (s *server) backup() (any, error) {
	var parts []*pb.SnapshotResponse
	err := s.etcd.Snapshot(func(part *pb.SnapshotResponse) { parts = append(parts, part) })
	return parts, err
}

// open remembers a call, to break it off if the process ends. Calls that are
// over are forgotten now and then.
func (s *server) open(c *call) {
	if len(s.calls) >= 64 {
		s.calls = slices.DeleteFunc(s.calls, func(c *call) bool { return c.over })
	}
	s.calls = append(s.calls, c)
}

// breakOff ends what clients had open with a process that is gone.
func (w *World) breakOff(s *server) {
	for _, c := range s.calls {
		if !c.over {
			w.network.answer(c, s.machine, nil, errBroken)
		}
	}
	for _, x := range s.streams {
		x.broke(errBroken)
	}
	s.calls, s.streams = nil, nil
	if !s.vanished {
		w.breakPeersOff(s)
	}
}

// breakPeersOff ends the streams that other members have to a process that is gone: the
// kernel closes its connections, and they hear it at once.
func (w *World) breakPeersOff(s *server) {
	for _, m := range w.machines {
		to := m.etcd
		if to == nil || to == s || to.etcd == nil {
			continue
		}
		for _, r := range to.routes {
			if r.with != s || !w.network.passes(s.machine, m, ringproof.PortPeer) {
				continue
			}
			r.with = nil
			w.engine.after(w.network.inOrder(s.machine, m), prioArrival, kindPacket, to.process, func() {
				to.hear(func() { to.etcd.HungUp(r.address) })
			})
		}
	}
}
