// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package nodes

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/kind/keeper"
)

// TestAsk: an order gets the answer of its number, whatever is told in between, and none from a
// keeper that has ended.
func TestAsk(t *testing.T) {
	orders, to := io.Pipe()
	from, out := io.Pipe()
	var heard []string
	a := &asks{hear: func(s keeper.Said) { heard = append(heard, s.Line.Text) }, over: make(chan struct{}), to: to, waiting: map[int]chan keeper.Said{}}
	go func() { a.listen(from); close(a.over) }()
	go func() {
		_, _ = orders.Read(make([]byte, 1<<10))
		_, _ = io.WriteString(out, `{"line":{"text":"first"}}`+"\n"+`{"id":7}`+"\n"+`{"id":1,"texts":["A=1"]}`+"\n")
		_, _ = orders.Read(make([]byte, 1<<10))
		out.Close()
	}()
	said, err := a.do(keeper.Order{Do: keeper.DoEnviron})
	require.NoError(t, err)
	assert.Equal(t, []string{"A=1"}, said.Texts)
	assert.Equal(t, []string{"first"}, heard)
	_, err = a.do(keeper.Order{Do: keeper.DoList})
	assert.ErrorContains(t, err, "it has ended")
}

// TestLeave: what a keeper tells as it ends is heard, also where that takes the node's lock.
func TestLeave(t *testing.T) {
	orders, to := io.Pipe()
	n := &node{lab: &Lab{}, name: "m1", on: true, seen: map[string]int64{}}
	n.asks = &asks{over: make(chan struct{}), to: to}
	go func() {
		_, _ = io.ReadAll(orders)
		n.hear(keeper.Said{Line: &keeper.Line{File: "0.log", Seen: 5}})
		close(n.asks.over)
	}()
	left := make(chan struct{})
	go func() { n.leave(); close(left) }()
	select {
	case <-left:
	case <-time.After(answering / 2):
		t.Fatal("it waits for who waits for it")
	}
	assert.Equal(t, int64(5), n.seen["0.log"])
}
