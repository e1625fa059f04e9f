// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestForget(t *testing.T) {
	for _, name := range []string{"ETCD_NAME", "ETCDCTL_ENDPOINTS", "ETCDUTL_X", "ETCD"} {
		t.Setenv(name, "x")
	}
	assert.ElementsMatch(t, []string{"ETCD_NAME", "ETCDCTL_ENDPOINTS", "ETCDUTL_X"}, forget())
	assert.Empty(t, os.Getenv("ETCD_NAME"))
	assert.Equal(t, "x", os.Getenv("ETCD"))
	assert.Empty(t, forget())
}
