// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPowerLossForgets what waits for a cut to end, of machines that lose their power before
// that, and of no others.
func TestPowerLossForgets(t *testing.T) {
	w := &world{network: newNetwork()}
	const cutOff, off, on = 4, 2, 3
	both := []byte{off, on}
	w.tear(Deed{Do: DoCut, Machines: both, To: []byte{cutOff}})
	w.tear(Deed{Do: DoCut, Machines: []byte{cutOff}, To: both})
	for i, hosts := range [][2]byte{{off, cutOff}, {cutOff, off}, {on, cutOff}} {
		w.route(frame{Kind: payload, SrcHost: hosts[0], DstHost: hosts[1], Conn: uint64(i)})
	}
	assert.Len(t, w.held, 3)
	w.power(Deed{Do: DoOff, Machines: []byte{off}})
	w.power(Deed{Do: DoOn, Machines: []byte{off}})
	if assert.Len(t, w.held, 1) {
		assert.Equal(t, byte(on), w.held[0].SrcHost)
	}
}

// TestPowerLossIsNoticed by the other end of a connection when it next asks or sends again what was
// lost, if the machine answers by then and can be reached; else when it has asked often enough.
func TestPowerLossIsNoticed(t *testing.T) {
	const off, on, second = 2, 3, int64(time.Second)
	const gaveUp = 10 + 30 + 9*15 // with something heard at 10 s
	for _, c := range []struct {
		name       string
		lost, back int64 // in seconds; 0: never
		cut        bool
		resets     []int64 // in tenths of seconds
	}{
		{name: "it asks", back: 12, resets: []int64{400, gaveUp * 10}},
		{name: "it asks the second time", back: 41, resets: []int64{550, gaveUp * 10}},
		{name: "it sends again", lost: 20, back: 22, resets: []int64{230, gaveUp * 10}},
		{name: "it can't reach the machine", back: 12, cut: true, resets: []int64{gaveUp * 10}},
		{name: "the machine stays off", resets: []int64{gaveUp * 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{network: newNetwork(), Options: Options{Latency: time.Millisecond, Jitter: time.Millisecond}}
			dead, alive := &process{host: off}, &process{host: on, sock: &socket{}}
			number := uint64(7)
			w.connections[number], w.last[number] = connection{dialler: alive, acceptor: dead}, 10*second
			if c.cut {
				w.tear(Deed{Do: DoCut, Machines: []byte{on}, To: []byte{off}})
			}
			w.dark[off] = true
			w.hangUp(dead, 11*second)
			if c.lost != 0 {
				w.route(frame{Kind: payload, SrcHost: on, DstHost: off, Conn: number | acceptor, At: c.lost * second})
			}
			if w.now = c.back * second; c.back != 0 {
				w.power(Deed{Do: DoOn, Machines: []byte{off}})
			}
			var at []int64
			for _, f := range alive.inbox {
				assert.Equal(t, rst, f.Kind)
				assert.Equal(t, number, f.Conn)
				at = append(at, f.At*10/second)
			}
			assert.Equal(t, c.resets, at)
			assert.Equal(t, c.back == 0, len(w.orphans) == 1)
		})
	}
}

// TestCutOfAPort holds what goes over the connections that were dialled there, both ways and dials
// too, or all but that, and nothing else.
func TestCutOfAPort(t *testing.T) {
	const a, b, peer, client = 2, 3, 2380, 2379
	for _, c := range []struct {
		name string
		cut  Deed
		held []uint64 // connections of which something waits
	}{
		{"all", Deed{}, []uint64{peer, client, peer + 10, client + 10}},
		{"a port", Deed{Port: client}, []uint64{client, client + 10}},
		{"all but a port", Deed{Port: client, But: true}, []uint64{peer, peer + 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{network: newNetwork(), Options: Options{Latency: time.Millisecond, Jitter: time.Millisecond}}
			met := &process{host: b, sock: &socket{}}
			for _, port := range []uint16{peer, client} {
				w.connections[uint64(port)] = connection{dialler: met, acceptor: met, port: port}
			}
			both := []byte{a, b}
			c.cut.Do, c.cut.Machines, c.cut.To = DoCut, both, both
			w.tear(c.cut)
			for _, port := range []uint16{peer, client} {
				w.route(frame{Kind: payload, SrcHost: a, DstHost: b, Conn: uint64(port)})
				w.route(frame{Kind: payload, SrcHost: b, DstHost: a, Conn: uint64(port) | acceptor})
				w.route(frame{Kind: syn, SrcHost: a, DstHost: b, DstPort: port, Conn: uint64(port) + 10})
			}
			held := map[uint64]int{}
			for _, f := range w.held {
				held[f.Conn&^acceptor]++
			}
			want := map[uint64]int{}
			for _, conn := range c.held {
				want[conn] = 2
				if conn > peer {
					want[conn] = 1 // the dial
				}
			}
			assert.Equal(t, want, held)
			c.cut.Do = DoMend
			w.tear(c.cut)
			assert.Empty(t, w.held)
		})
	}
}

// TestLostReplies: of what comes back on a connection to a port so many things are lost, with all that comes after
// them, and both ends hear later that it is gone. What goes there, what a handshake takes, and what is dialled at
// another port arrives.
func TestLostReplies(t *testing.T) {
	const asks, answers, client = 2, 3, 2379
	for _, c := range []struct {
		name    string
		percent int
		port    uint16
		arrived int // of ten
	}{
		{"none", 0, client, 10},
		{"all", 100, client, greetings},
		{"of another port", 100, client + 1, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{network: newNetwork(), Options: Options{Latency: time.Millisecond, Jitter: time.Millisecond}}
			dialler, answerer := &process{host: asks, sock: &socket{}}, &process{host: answers, sock: &socket{}}
			w.connections[7] = connection{dialler: dialler, acceptor: answerer, port: client}
			require.NoError(t, w.do(Deed{Do: DoMute, Machines: []byte{answers}, Percent: c.percent, Port: c.port}))
			for range 10 {
				w.route(frame{Kind: payload, SrcHost: asks, DstHost: answers, Conn: 7 | acceptor})
				w.route(frame{Kind: payload, SrcHost: answers, DstHost: asks, Conn: 7})
			}
			count := func(p *process, k kind) (n int) {
				for _, f := range p.inbox {
					if f.Kind == k {
						n++
					}
				}
				return n
			}
			gone := 0
			if c.arrived < 10 {
				gone = 1
			}
			assert.Equal(t, []int{c.arrived, gone, 10, gone}, []int{count(dialler, payload), count(dialler, rst), count(answerer, payload), count(answerer, rst)})
		})
	}
}
