// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package observe

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcess(t *testing.T) {
	p := Process("m1", []string{"/etcd/v3.6.16/etcd", "--name=m1", "-heartbeat-interval", "50", "--pre-vote", "--quota-backend-bytes=1"},
		[]string{"HOME=/root", "ETCD_SNAPSHOT_COUNT=100", "ETCD_HEARTBEAT_INTERVAL=7"}, "v3.6.16")
	require.Equal(t, map[string]string{"name": "m1", "heartbeat-interval": "50", "pre-vote": "true", "quota-backend-bytes": "1", "snapshot-count": "100"}, p.Flags)
	require.Equal(t, []string{"v3.6.16"}, p.Releases)
	require.Empty(t, p.Err)
	require.Contains(t, Process("m1", []string{"etcd", "--config-file", "/etc/etcd.yaml"}, nil).Err, "--config-file")
}
