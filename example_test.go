// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof_test

import (
	"bytes"
	"fmt"
	"log"
	"time"

	"github.com/ringproof/ringproof"
)

// A history is saved as JSON lines, and read again by whoever has questions of his own: here, for how long
// clients had no answer.
func ExampleReadHistory() {
	at := func(s int) ringproof.Instant { return ringproof.Instant(s) * ringproof.Instant(time.Second) }
	ran := ringproof.History{Plan: ringproof.Plan{Cell: "leader-killed#1", Ring: ringproof.RingSpec{Size: 3}}}
	for id, answered := range []int{1, 2, 5, 6} {
		ran.Operations = append(ran.Operations, ringproof.Operation{
			ID: id, Call: at(answered - 1), Return: at(answered),
			Request:  ringproof.Request{Kind: ringproof.RequestPut, Key: "k", Value: fmt.Sprint(id)},
			Response: &ringproof.Response{Revision: int64(id + 2)},
		})
	}
	var saved bytes.Buffer
	if err := ran.Write(&saved); err != nil {
		log.Fatal(err)
	}

	h, err := ringproof.ReadHistory(&saved)
	if err != nil {
		log.Fatal(err)
	}
	var gap ringproof.Span
	for i, op := range h.Operations[1:] {
		if between := (ringproof.Span{From: h.Operations[i].Return, To: op.Return}); between.Length() > gap.Length() {
			gap = between
		}
	}
	fmt.Printf("%s: nobody was answered from %s to %s\n", h.Plan.Cell, gap.From, gap.To)
	// Output: leader-killed#1: nobody was answered from 2s to 5s
}
