// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reports"
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

// TestParted: a saved plan that takes another way than it took is told of, and nothing else is.
func TestParted(t *testing.T) {
	p := ringproof.Plan{Cell: "own#7", Subject: "reference"}
	assert.Empty(t, parted(p, reports.Cell{Trace: "abc, 5 events"}), "nobody has saved it")
	p.Expect = &ringproof.Expect{Verdict: "fail", Hash: "abc"}
	assert.Empty(t, parted(p, reports.Cell{Trace: "abc, 5 events"}))
	assert.Empty(t, parted(p, reports.Cell{}), "in real time there is none")
	assert.Equal(t, "own#7 took another way than when its plan was saved: trace abd, and abc then. Another build may; where it is the same one, reference is not repeatable",
		parted(p, reports.Cell{Trace: "abd, 5 events"}))
}
