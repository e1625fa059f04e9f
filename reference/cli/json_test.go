// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/ring"
)

// TestAnIDIsTheSameEverywhere: "ID": 11594959634162306798 beside clusterID in hex is no ID
// that any command takes, and jq makes 11594959634162307000 of it.
func TestAnIDIsTheSameEverywhere(t *testing.T) {
	text, err := json.Marshal(Overview{ClusterID: "c1", Lead: "m2",
		Members:  plain([]ring.Member{{ID: 11594959634162306798, Name: "m2", PeerURL: "http://10.0.0.2:2380", Silent: 3 * time.Second, Version: "v3.6.16"}}),
		Machines: plain([]ring.Machine{{Name: "m1", ToldV2: true, Versions: []ring.Version{"v3.6.16"}}})})
	require.NoError(t, err)
	assert.Contains(t, string(text), `{"clusterID":"c1","lead":"m2","members":[{"id":"a0e9925ac33cceee","name":"m2","machine":""`)
	assert.Contains(t, string(text), `"peerURL":"http://10.0.0.2:2380"`)
	assert.Contains(t, string(text), `"silent":"3s"`)
	assert.Contains(t, string(text), `"versions":["v3.6.16"],"spoiled":"","toldV2":true,"v2":0`)
	assert.NotRegexp(t, `"[A-Z]\w*":`, string(text), "keys begin alike")
}
