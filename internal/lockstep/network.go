// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// port is a place at which a process can listen.
type port struct {
	host   byte
	number uint16
}

// path is the way from one machine to another.
type path struct{ from, to byte }

// cut is what waits on a path: what is dialled at a port, all but that, or, with port 0, all.
type cut struct {
	path
	port uint16
	but  bool
}

// cuts reports whether what goes one way on a connection to a port waits.
func (n network) cuts(from, to byte, port uint16) bool {
	for c := range n.cut { // order: one of them is enough
		if c.path == (path{from, to}) && (c.port == 0 || (c.port == port) != c.but) {
			return true
		}
	}
	return false
}

// connection is who dialled and who accepted; nil: it has ended.
type connection struct {
	dialler, acceptor *process
	port              uint16 // that was dialled
	opened, tls       bool   // the dialler has said something, and it began as TLS does
}

// dialled is a port of a machine, and the machine from which somebody spoke to it.
type dialled struct {
	from, to byte
	port     uint16
}

// Heard is when somebody on a machine has last spoken to a port of another, in plain text
// and by TLS, in nanoseconds as Unix counts them; 0: never.
type Heard struct {
	From, To   byte
	Port       uint16
	Plain, TLS int64
}

// network is the switchboard.
type network struct {
	ports       map[port]*process
	connections map[uint64]connection
	sent        map[uint64]uint64 // how many frames went to an end
	last        map[uint64]int64  // when the last one arrives
	cut         map[cut]bool
	held        []frame // that wait for a cut to end
	dark        map[byte]bool
	asleep      map[byte]int64 // since when
	orphans     []orphan
	walls       map[byte]time.Duration
	disks       map[byte]time.Duration // how much longer than others they take to sync
	slow        map[byte]slowness
	lossy       map[byte]lossiness
	names       string // a file as /etc/hosts is; "": the host's
	mute        map[byte]muteness
	silent      map[uint64]bool // ends that hear nothing any more
	heard       map[dialled]*Heard
	services    map[netip.AddrPort]*behind
}

// behind is who is behind an address that is no machine's, as kube-proxy has it.
type behind struct {
	machines []byte
	port     uint16
	turn     int // whose
}

// next is whose turn it is.
func (b *behind) next() int {
	if b == nil {
		return 0
	}
	return b.turn
}

// serviceAt is who answers at an address that is no machine's: one after another.
func (w *world) serviceAt(number uint64) (int64, syscall.Errno) {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], uint32(number>>16))
	b, known := w.services[netip.AddrPortFrom(netip.AddrFrom4(ip), uint16(number))]
	switch {
	case !known:
		return 0, syscall.ENETUNREACH
	case len(b.machines) == 0:
		return 0, syscall.ECONNREFUSED
	}
	b.turn++
	return int64(b.machines[b.turn%len(b.machines)])<<16 | int64(b.port), 0
}

// slowness is how much longer a machine's frames are under way, but those of some others.
type slowness struct {
	by     time.Duration
	exempt []byte
}

// longer is by how much a frame takes longer than others.
func (n network) longer(f frame) (by time.Duration) {
	for at, other := range map[byte]byte{f.SrcHost: f.DstHost, f.DstHost: f.SrcHost} { // order: a sum
		if s := n.slow[at]; !slices.Contains(s.exempt, other) {
			by += s.by
		}
	}
	return by
}

// lossiness is how many of 100 packets from and to a machine are lost, but those of some others.
type lossiness struct {
	percent int
	exempt  []byte
}

// When TCP sends again what it has heard nothing of: a packet, or who it dials; each time after twice as long, but no
// longer than the last (RFC 6298; Linux's TCP_RTO_MIN, TCP_TIMEOUT_INIT and TCP_RTO_MAX).
const (
	firstResent = 200 * time.Millisecond
	firstRedial = time.Second
	lastResent  = 120 * time.Second
)

// resent is how much longer a frame is under way that is lost on it, until it is sent again. What is sent meanwhile comes
// with it. What says that there is room for more is not lost: the next one says so too.
func (w *world) resent(f frame) (by time.Duration) {
	percent := 0
	for at, other := range map[byte]byte{f.SrcHost: f.DstHost, f.DstHost: f.SrcHost} { // order: either comes first
		if l := w.lossy[at]; !slices.Contains(l.exempt, other) {
			percent += l.percent - percent*l.percent/100 // it may be lost at either end
		}
	}
	wait := firstResent
	switch f.Kind {
	case syn, synAck:
		wait = firstRedial
	case window:
		return 0
	}
	if w.last[f.Conn] > f.At+int64(w.Latency+w.Jitter) {
		return 0
	}
	for nth := uint64(1); int(mix(w.Seed, f.Conn, w.sent[f.Conn], uint64(f.At), nth)%100) < percent; nth++ {
		by += wait
		wait = min(2*wait, lastResent)
	}
	return by
}

// muteness is how many of 100 things are lost that come back to a machine, or from it, on what was dialled at a port.
type muteness struct {
	percent int
	port    uint16
}

// What a connection begins with is a handshake, and no reply; and how long one lasts on which a reply is missing.
const (
	greetings = 6
	silentFor = 3 * time.Second
)

// mutes reports whether a frame is lost that comes back to who dialled, and with it all that comes after it on its
// connection: a stream has no gaps. Who waits for it gives up by itself, or hears after a while that the connection
// is gone.
func (w *world) mutes(f frame) bool {
	if f.Conn&acceptor != 0 || w.silent[f.Conn] {
		return f.Conn&acceptor == 0
	}
	percent := 0
	for _, m := range []byte{f.SrcHost, f.DstHost} {
		if of := w.mute[m]; of.port == w.connections[f.Conn].port {
			percent = max(percent, of.percent)
		}
	}
	if f.Kind != payload || w.sent[f.Conn] < greetings || int(mix(w.Seed, f.Conn, w.sent[f.Conn], uint64(f.At))%100) >= percent {
		return false
	}
	w.silent[f.Conn] = true
	for _, number := range []uint64{f.Conn, f.Conn | acceptor} {
		if to, _ := w.ends(number); to != nil && to.alive() {
			to.insert(frame{Kind: rst, SrcHost: f.SrcHost, DstHost: to.host, Conn: number, At: f.At + int64(silentFor)})
		}
	}
	return true
}

func newNetwork() network {
	return network{ports: map[port]*process{}, connections: map[uint64]connection{}, sent: map[uint64]uint64{}, last: map[uint64]int64{},
		cut: map[cut]bool{}, dark: map[byte]bool{}, asleep: map[byte]int64{}, walls: map[byte]time.Duration{}, disks: map[byte]time.Duration{}, slow: map[byte]slowness{}, lossy: map[byte]lossiness{}, heard: map[dialled]*Heard{},
		services: map[netip.AddrPort]*behind{}, mute: map[byte]muteness{}, silent: map[uint64]bool{}}
}

func digest(text []byte) uint64 {
	h := fnv.New64a()
	h.Write(text)
	return h.Sum64()
}

// listen has the process listen at a port of its machine.
func (w *world) listen(p *process, number uint16) syscall.Errno {
	at := port{p.host, number}
	if w.ports[at] != nil {
		return syscall.EADDRINUSE
	}
	w.ports[at] = p
	return 0
}

// route sends a frame on its way. What is sent over a cut arrives once that ends, as TCP
// would send it again; what is sent by or to a machine without power is lost. Who gives a
// dial up has sent nothing, if the other end has not heard of it.
func (w *world) route(f frame) {
	w.frames++
	w.hash = mix(w.hash, uint64(f.At), uint64(f.Kind), uint64(f.SrcHost), uint64(f.DstHost), f.Conn, uint64(len(f.Payload)), digest(f.Payload))
	if w.Trace != nil {
		w.Trace(fmt.Sprintf("%d frame %d %d>%d %x %d %.160q", f.At-epoch, f.Kind, f.SrcHost, f.DstHost, f.Conn, len(f.Payload), f.Payload))
	}
	switch {
	case w.dark[f.SrcHost] || w.dark[f.DstHost]:
		w.lose(f)
	case w.mutes(f):
	case f.Kind == rst && w.dropDial(f.Conn):
	case w.waits(f):
		w.held = append(w.held, f)
	default:
		w.carry(f)
	}
}

// waits reports whether a frame is held. One that dials needs the way back, too, as nobody
// accepts before a handshake is over: of two etcds the one that is only not heard accepted
// connections on which nothing ever came, and waited for them when it was to stop. What
// follows on a connection stays behind what came before.
func (w *world) waits(f frame) bool {
	port := f.DstPort
	if f.Kind != syn {
		port = w.connections[f.Conn&^acceptor].port
	}
	return w.cuts(f.SrcHost, f.DstHost, port) || f.Kind == syn && w.cuts(f.DstHost, f.SrcHost, port) ||
		slices.ContainsFunc(w.held, func(h frame) bool { return h.Conn == f.Conn })
}

// dropDial forgets what is held of a dial, and reports whether there was one.
func (w *world) dropDial(number uint64) bool {
	dials := slices.ContainsFunc(w.held, func(h frame) bool { return h.Conn == number && h.Kind == syn })
	if dials {
		w.held = slices.DeleteFunc(w.held, func(h frame) bool { return h.Conn == number })
	}
	return dials
}

// carry gives a frame its time of arrival, after those before it, and whom it is for.
func (w *world) carry(f frame) {
	w.sent[f.Conn]++
	f.At += int64(w.Latency) + int64(mix(w.Seed, f.Conn, w.sent[f.Conn])%uint64(w.Jitter)) + int64(w.longer(f)+w.resent(f))
	f.At = max(f.At, w.last[f.Conn]+1)
	w.last[f.Conn] = f.At
	if f.DstHost == coordinatorHost {
		w.orders = append(w.orders, f)
		slices.SortStableFunc(w.orders, func(a, b frame) int { return int(a.At - b.At) })
		return
	}
	if f.Kind == syn {
		w.connections[f.Conn&^acceptor] = connection{dialler: w.lifeOf(f.Conn), acceptor: w.ports[port{f.DstHost, f.DstPort}], port: f.DstPort}
	}
	to, from := w.ends(f.Conn)
	switch {
	case to != nil && to.alive():
		w.overhear(f)
		to.insert(f)
	case f.Kind == syn || f.Kind == synAck || f.Kind == payload: // nobody is there
		if from != nil && from.alive() {
			from.insert(frame{Kind: rst, SrcHost: f.DstHost, DstHost: f.SrcHost, Conn: f.Conn ^ acceptor, At: f.At + int64(w.Latency)})
		}
		w.part(f.Conn)
	}
}

// overhear notes how whoever dialled a connection speaks there: a record of TLS's begins with
// the number of a handshake, and of its version.
func (w *world) overhear(f frame) {
	number := f.Conn &^ acceptor
	c, known := w.connections[number]
	if f.Kind != payload || f.Conn == number || !known || len(f.Payload) == 0 {
		return
	}
	if !c.opened {
		c.opened, c.tls = true, bytes.HasPrefix(f.Payload, []byte{0x16, 0x03})
		w.connections[number] = c
	}
	at := dialled{f.SrcHost, f.DstHost, c.port}
	if w.heard[at] == nil {
		w.heard[at] = &Heard{From: at.from, To: at.to, Port: at.port}
	}
	if c.tls {
		w.heard[at].TLS = f.At
	} else {
		w.heard[at].Plain = f.At
	}
}

// ends are whom a frame of this number is for, and whom it is from.
func (w *world) ends(number uint64) (to, from *process) {
	c, known := w.connections[number&^acceptor]
	if !known { // whoever dialled is in its number
		c.dialler = w.lifeOf(number &^ acceptor)
	}
	if number&acceptor != 0 {
		return c.acceptor, c.dialler
	}
	return c.dialler, c.acceptor
}

// lifeOf is the process that dialled the connection of this number; nil: it has ended.
func (w *world) lifeOf(number uint64) *process {
	life := uint16(number >> 48 &^ (1 << 15))
	i := slices.IndexFunc(w.processes, func(p *process) bool { return p.life == life })
	if i < 0 {
		return nil
	}
	return w.processes[i]
}

// part forgets a connection.
func (w *world) part(number uint64) { delete(w.connections, number&^acceptor) }

// hangUp ends what a dead process listened at and was connected by. Its peers hear of it,
// unless its machine has no power.
func (w *world) hangUp(p *process, at int64) {
	maps.DeleteFunc(w.ports, func(_ port, q *process) bool { return q == p })
	w.held = slices.DeleteFunc(w.held, func(f frame) bool { return f.Kind == syn && w.lifeOf(f.Conn) == p })
	for _, number := range slices.Sorted(maps.Keys(w.connections)) {
		switch c := w.connections[number]; p {
		case c.dialler:
			w.resetFor(c.acceptor, p.host, number|acceptor, at)
		case c.acceptor:
			w.resetFor(c.dialler, p.host, number, at)
		default:
			continue
		}
		w.part(number)
	}
}

// resetFor tells the other end of a connection that this one is gone. A machine without power
// tells nobody: whoever has nothing to send to it asks now and then whether it's still there.
func (w *world) resetFor(other *process, host byte, number uint64, at int64) {
	switch {
	case other == nil || !other.alive():
	case w.dark[host]:
		o := orphan{of: other, from: host, number: number, port: w.connections[number&^acceptor].port, quiet: max(w.last[number], w.last[number^acceptor])}
		w.orphans = append(w.orphans, o)
		o.reset(o.quiet + int64(keptIdle+keptProbes*keptInterval))
	default:
		w.route(frame{Kind: rst, SrcHost: host, DstHost: other.host, Conn: number, At: at})
	}
}

// How TCP asks whether the other end of a connection on which nothing comes is still there: etcd
// sets the first (client/pkg/transport), Go the others (net.KeepAliveConfig). What nobody says
// has arrived is sent again after a time that doubles (RFC 6298; Linux's TCP_RTO_MIN and _MAX).
const (
	keptIdle     = 30 * time.Second
	keptInterval = 15 * time.Second
	keptProbes   = 9
	againFirst   = 200 * time.Millisecond
	againMost    = 2 * time.Minute
)

// orphan is an end of a connection whose other end lost its power.
type orphan struct {
	of     *process
	from   byte   // the machine that lost it
	number uint64 // of what the end is sent
	port   uint16 // that was dialled
	quiet  int64  // when something came last
	lost   int64  // when it first sent what nobody got; 0: never
}

// reset tells the end that its connection is gone.
func (o orphan) reset(at int64) {
	if o.of.alive() {
		o.of.insert(frame{Kind: rst, SrcHost: o.from, DstHost: o.of.host, Conn: o.number, At: at})
	}
}

// next is when the end next sends something, of its own accord or again.
func (o orphan) next(now int64) int64 {
	at, wait, most := o.quiet+int64(keptIdle), keptInterval, keptInterval
	if o.lost != 0 {
		at, wait, most = o.lost+int64(againFirst), 2*againFirst, againMost
	}
	for ; at < now; wait = min(2*wait, most) {
		at += int64(wait)
	}
	return at
}

// lose notes whose connection a frame was of that a machine without power doesn't get.
func (w *world) lose(f frame) {
	i := slices.IndexFunc(w.orphans, func(o orphan) bool { return o.number == f.Conn^acceptor })
	if i >= 0 && w.orphans[i].lost == 0 && f.Kind == payload {
		w.orphans[i].lost = f.At
	}
}

// refuse has a machine that has its power again refuse what is sent on a connection of before: a
// leader that was sending a snapshot had waited for an answer for ever, and sent no other.
func (w *world) refuse(m byte) {
	w.orphans = slices.DeleteFunc(w.orphans, func(o orphan) bool {
		if o.from == m && !w.cuts(o.of.host, m, o.port) && !w.cuts(m, o.of.host, o.port) {
			o.reset(max(o.next(w.now), w.soonest(o.of, w.now)))
		}
		return o.from == m
	})
}

// release sends on what was held and is not any more, as if it were sent now.
func (w *world) release() {
	free := w.held
	w.held = nil
	for _, f := range free {
		f.At = max(f.At, w.now)
		switch {
		case w.waits(f):
			w.held = append(w.held, f)
		case !w.dark[f.SrcHost] && !w.dark[f.DstHost]:
			w.carry(f)
		}
	}
}
