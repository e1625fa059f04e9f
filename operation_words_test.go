// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestOperationsPrintThemselves: what was asked and heard is one line, as a finding shows it.
func TestOperationsPrintThemselves(t *testing.T) {
	at := func(d time.Duration) ringproof.Instant { return ringproof.Instant(d) }
	kv := ringproof.KV{Key: "/a", Value: "x", CreateRevision: 3, ModRevision: 7, Version: 2, Lease: 0x1f}
	then := []ringproof.Request{{Kind: ringproof.RequestPut, Key: "/a", Value: "y", Lease: 0x1f}, {Kind: ringproof.RequestGet, Key: "/b"}}
	for want, value := range map[string]fmt.Stringer{
		`operation 12, client 3, 1s..2s: get /a → revision 7, /a="x"@7`: ringproof.Operation{ID: 12, Client: 3, Call: at(time.Second), Return: at(2 * time.Second),
			Request: ringproof.Request{Kind: ringproof.RequestGet, Key: "/a"}, Response: &ringproof.Response{Revision: 7, KVs: []ringproof.KV{kv}}},
		`operation 1, client 0, 1s..2s: delete /a from m2, serializable → no answer: timeout`: ringproof.Operation{ID: 1, Call: at(time.Second), Return: at(2 * time.Second), Err: "timeout",
			Request: ringproof.Request{Kind: ringproof.RequestDelete, Key: "/a", From: "m2", Serializable: true}},
		`txn if mod of /a = 3 and value of /b != "z" then put /a "y", lease 1f; get /b`: ringproof.Request{Kind: ringproof.RequestTxn, Then: then,
			If: []ringproof.Comparison{{Target: "mod", Key: "/a", Is: "=", Number: 3}, {Target: "value", Key: "/b", Is: "!=", Value: "z"}}},
		`/a="x" written at revision 7 (create 3, version 2, lease 1f)`: kv,
		`/a="x" at revision 7, lease 1f`:                               ringproof.WatchEvent{Revision: 7, KV: kv},
		`/a deleted at revision 8`:                                     ringproof.WatchEvent{Revision: 8, Delete: true, KV: ringproof.KV{Key: "/a"}},
		`remove 1f, index 12, seen at 3s`:                              ringproof.ConfChange{Kind: "remove", Member: 0x1f, Index: 12, At: at(3 * time.Second)},
		`m2 (1f, 3.6.1): 0000abcd at revision 7, compacted at 2`:       ringproof.Hash{Machine: "m2", Member: 0x1f, Version: "3.6.1", Hash: 0xabcd, Revision: 7, Compact: 2},
	} {
		assert.Equal(t, want, value.String())
	}
}
