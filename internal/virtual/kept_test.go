// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof/internal/virtual/kubelet"
)

// A pod that runs nowhere, and a part that isn't there, can't be hit.
func TestSignalsOfWhatIsNotThere(t *testing.T) {
	n, _ := aNode(t, kubelet.Running{Namespace: "x", Name: "waits"})
	c := &cluster{lab: n.lab}
	_, err := c.SignalPod("x", "waits", syscall.SIGKILL)
	assert.ErrorContains(t, err, "no container of pod x/waits runs")
	_, err = c.SignalPod("x", "other", syscall.SIGKILL)
	assert.ErrorContains(t, err, "no container of pod x/other runs")
	n.cluster = c
	_, err = n.LastMember()
	assert.ErrorContains(t, err, "no member was on node m1")
}
