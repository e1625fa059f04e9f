// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.uber.org/zap"

	"github.com/ringproof/ringproof/reference/store"
)

// TestClusterIDIsEtcds compares with what etcd itself makes of the same initial members.
func TestClusterIDIsEtcds(t *testing.T) {
	for _, urls := range []map[string]string{
		{"m1": "http://10.0.0.1:2380"},
		{"m1": "https://10.0.0.1:2380", "m2": "https://10.0.0.2:2380", "m3": "https://[fd00::3]:2380"},
		{"a": "https://a.example.com:2380", "b": "https://b.example.com:2380", "c": "https://c.example.com:2380"},
	} {
		i := store.Identity{Token: "ring-5a1f"}
		all := types.URLsMap{}
		for name, url := range urls {
			i.Members = append(i.Members, store.InitialMember{Name: name, PeerURL: url})
			all[name] = types.MustNewURLs([]string{url})
		}
		etcd, err := membership.NewClusterFromURLsMap(zap.NewNop(), i.Token, all)
		require.NoError(t, err)
		require.Equal(t, uint64(etcd.ID()), i.ClusterID())
	}
}
