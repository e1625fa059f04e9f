// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestPowerLossForgets what waits for a cut to end, of machines that lose their power before
// that, and of no others.
func TestPowerLossForgets(t *testing.T) {
	w := &world{network: newNetwork()}
	const cutOff, off, on = 4, 2, 3
	both := []byte{off, on}
	w.tear(Deed{Do: DoCut, Machines: both, To: []byte{cutOff}})
	w.tear(Deed{Do: DoCut, Machines: []byte{cutOff}, To: both})
	for i, hosts := range [][2]byte{{off, cutOff}, {cutOff, off}, {on, cutOff}} {
		w.route(frame{Kind: payload, SrcHost: hosts[0], DstHost: hosts[1], Conn: uint64(i)})
	}
	assert.Len(t, w.held, 3)
	w.power(Deed{Do: DoOff, Machines: []byte{off}})
	w.power(Deed{Do: DoOn, Machines: []byte{off}})
	if assert.Len(t, w.held, 1) {
		assert.Equal(t, byte(on), w.held[0].SrcHost)
	}
}
