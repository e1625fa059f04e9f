// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

func TestReadsDiscarded(t *testing.T) {
	get := ringproof.Request{Kind: ringproof.RequestGet, Key: "/ringproof/k1", Revision: 4}
	txn := ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{{Kind: ringproof.RequestPut, Key: "/ringproof/k1", Value: "v"}, get}}
	either := ringproof.Request{Kind: ringproof.RequestTxn, If: []ringproof.Comparison{{Key: "/ringproof/k1", Target: "mod", Is: "="}}, Then: []ringproof.Request{get}}
	serial := get
	serial.Serializable = true
	answer := &ringproof.Response{Revision: 9}
	for _, test := range []struct {
		name      string
		discarded int64
		at        float64 // when it was
		asked     ringproof.Request
		answer    *ringproof.Response
		bad       bool
	}{
		{"a read", 5, 2, get, answer, true},
		{"a transaction", 5, 2, txn, answer, true},
		{"the oldest that is kept", 4, 2, get, answer, false},
		{"at the same time", 5, 12, get, answer, false},
		{"by one member alone", 5, 2, serial, answer, false},
		{"perhaps", 5, 2, either, answer, false},
		{"refused", 5, 2, get, nil, false},
	} {
		h := &ringproof.History{Operations: []ringproof.Operation{
			{ID: 1, Call: sec(test.at - 1), Return: sec(test.at), Request: ringproof.Request{Kind: ringproof.RequestCompact, Revision: test.discarded}, Response: &ringproof.Response{Revision: 9}},
			{ID: 2, Call: sec(11), Return: sec(13), Request: test.asked, Response: test.answer},
		}}
		f, bad := readsDiscarded(h)
		assert.Equal(t, test.bad, bad, "%s: %s", test.name, f.Message)
	}
}
