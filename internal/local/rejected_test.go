// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

func TestRejections(t *testing.T) {
	when := time.Date(2026, 11, 25, 9, 0, 1, 500_000_000, time.UTC)
	for name, c := range map[string]struct {
		line string
		want ringproof.Rejection
	}{
		"a removal that breaks the quorum": {
			`{"level":"warn","ts":"2026-11-25T09:00:01.500000Z","caller":"etcdserver/server.go:1645","msg":"rejecting member remove request; local member has not been connected to all peers, reconfigure breaks active quorum","local-member-id":"a1","requested-member-remove":"8e9e05c52164694d","active-peers":2,"error":"etcdserver: unhealthy cluster"}`,
			ringproof.Rejection{Kind: "remove", Member: 0x8e9e05c52164694d, Why: "etcdserver: unhealthy cluster"},
		},
		"a removal that leaves too few started": {
			`{"level":"warn","ts":"2026-11-25T09:00:01.500000Z","msg":"rejecting member remove request; not enough healthy members","local-member-id":"a1","requested-member-remove-id":"b2","error":"etcdserver: re-configuration failed due to not enough started members"}`,
			ringproof.Rejection{Kind: "remove", Member: 0xb2, Why: "etcdserver: re-configuration failed due to not enough started members"},
		},
		"a voter": {
			`{"level":"warn","ts":"2026-11-25T09:00:01.500000Z","msg":"rejecting member add request; not enough healthy members","local-member-id":"a1","requested-member-add":"&{ID:c3 RaftAttributes:{PeerURLs:[https://10.77.0.4:2380] IsLearner:false} Attributes:{Name: ClientURLs:[]}}","error":"etcdserver: unhealthy cluster"}`,
			ringproof.Rejection{Kind: "add-voter", Member: 0xc3, Why: "etcdserver: unhealthy cluster"},
		},
		"a learner": {
			`{"ts":"2026-11-25T10:00:01.500000+0100","msg":"rejecting member add request; x","requested-member-add":"&{ID:c3 RaftAttributes:{PeerURLs:[u] IsLearner:true} Attributes:{}}"}`,
			ringproof.Rejection{Kind: "add-learner", Member: 0xc3, Why: "rejecting member add request; x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, at, ok := rejection([]byte(c.line + "\n"))
			require.True(t, ok)
			assert.Equal(t, c.want, got)
			assert.True(t, when.Equal(at), at)
		})
	}
	for _, line := range []string{"", "rejecting member remove request; torn", `{"msg":"rejecting member promote request; not enough healthy members"}`, `{"msg":"applied"}`} {
		_, _, ok := rejection([]byte(line))
		assert.False(t, ok, line)
	}
}
