// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof/sim/etcd"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestAClientGivesUp: a member without a leader keeps what it is asked to write
// until its client gives up, and no longer. A model that keeps it would show
// writes and members, seconds later, that no etcd has.
func TestAClientGivesUp(t *testing.T) {
	w := newWorld(t, 31, three...)
	ring(t, w)
	l := leader(t, w, three...)
	alone := others(three, l)[0]
	w.run(6 * time.Second)
	w.partition(alone)
	w.until(t, 10*time.Second, func() bool { return status(t, w, alone).Leader == 0 })
	ask := func(request any) *etcd.Request {
		r := &etcd.Request{}
		w.machines[alone].server.Call(r, request, func(any, error) {})
		return r
	}
	write := func(key string) any { return &pb.PutRequest{Key: []byte(key), Value: []byte("v")} }
	remove := &pb.MemberRemoveRequest{ID: status(t, w, alone).Header.MemberId}
	ask(write("a"))
	requests := []*etcd.Request{ask(write("b")), ask(remove), ask(write("c"))}
	ask(write("d"))
	for _, r := range requests {
		r.GiveUp()
	}
	w.heal()
	w.until(t, 10*time.Second, func() bool { return get(t, w, l, "d") == "v" })
	assert.Equal(t, []string{"v", "", ""}, []string{get(t, w, l, "a"), get(t, w, l, "b"), get(t, w, l, "c")})
	assert.Len(t, must[*pb.MemberListResponse](t, w, l, &pb.MemberListRequest{Linearizable: true}).Members, 3)
}

// TestNobodyGivesUpWhatTheLogHas: with a leader a write is proposed as it
// comes, and no client takes that back.
func TestNobodyGivesUpWhatTheLogHas(t *testing.T) {
	w := newWorld(t, 32, three...)
	ring(t, w)
	l := leader(t, w, three...)
	var r etcd.Request
	w.machines[l].server.Call(&r, &pb.PutRequest{Key: []byte("a"), Value: []byte("v")}, func(any, error) {})
	r.GiveUp()
	w.until(t, time.Second, func() bool { return get(t, w, l, "a") == "v" })
}

// TestNames35WroteEnd37: the log of a ring that was 3.5 is read from its last
// snapshot on by a 3.7, however long the ring has been 3.6.
func TestNames35WroteEnd37(t *testing.T) {
	w := newWorld(t, 33, "m1")
	w.version = "v3.5.35"
	w.machines["m1"].start("new", "m1")
	w.until(t, 10*time.Second, func() bool { return w.serving("m1") })
	for _, next := range []string{"v3.6.16", "v3.7.3"} {
		w.run(10 * time.Second)
		w.version = next
		w.machines["m1"].kill()
		w.machines["m1"].start("existing", "m1")
		w.run(time.Second)
		assert.Equal(t, next != "v3.7.3", w.serving("m1"), next)
	}
	assert.Contains(t, w.machines["m1"].exited, "2 execute job failed")
}
