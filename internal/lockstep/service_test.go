// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestServices asks who is behind an address that is no machine's: each in turn, nobody, or
// it is no address at all.
func TestServices(t *testing.T) {
	w := &world{network: newNetwork()}
	const number = 10<<40 | 96<<32 | 7<<16 | 2379
	ask := func() (machine, port int64, errno syscall.Errno) {
		of, errno := w.serviceAt(number)
		return of >> 16, of & 0xffff, errno
	}
	_, _, errno := ask()
	assert.Equal(t, syscall.ENETUNREACH, errno)
	at := netip.MustParseAddrPort("10.96.0.7:2379")
	require.NoError(t, w.do(Deed{Do: DoServe, At: at, Machines: []byte{17, 33}, Port: 4001}))
	turns := map[int64]int{}
	for range 4 {
		machine, port, errno := ask()
		require.Zero(t, errno)
		assert.EqualValues(t, 4001, port)
		turns[machine]++
	}
	assert.Equal(t, map[int64]int{17: 2, 33: 2}, turns)
	require.NoError(t, w.do(Deed{Do: DoServe, At: at}))
	_, _, errno = ask()
	assert.Equal(t, syscall.ECONNREFUSED, errno)
	require.NoError(t, w.do(Deed{Do: DoForget, At: at}))
	_, _, errno = ask()
	assert.Equal(t, syscall.ENETUNREACH, errno)
}
