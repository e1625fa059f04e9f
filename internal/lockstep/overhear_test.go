// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestOverhear: how a connection speaks is told by the first that its dialler says, and
// what is answered tells nothing.
func TestOverhear(t *testing.T) {
	w := &world{network: newNetwork()}
	w.connections[1], w.connections[2] = connection{port: 2380}, connection{port: 2381}
	say := func(conn uint64, at int64, text string) {
		f := frame{Kind: payload, SrcHost: 2, DstHost: 3, Conn: conn | acceptor, At: at, Payload: []byte(text)}
		w.overhear(f)
		f.SrcHost, f.DstHost, f.Conn, f.Payload = 3, 2, conn, []byte("HTTP/1.1 200 OK")
		w.overhear(f)
	}
	say(1, 10, "GET /raft/stream HTTP/1.1")
	say(1, 20, "\x16\x03 in the middle")
	say(2, 30, "\x16\x03\x01")
	say(2, 40, "GET is a word of a record")
	say(9, 50, "of a connection that has ended")
	assert.Equal(t, []Heard{{From: 2, To: 3, Port: 2380, Plain: 20}, {From: 2, To: 3, Port: 2381, TLS: 40}}, w.told())
}
