// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package fidelity_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSocketsOfOnePort: the kernel gives one local port to connections that go to
// different places. Whose each is must not be mixed up: the relay would sever the
// wrong machine's.
func TestSocketsOfOnePort(t *testing.T) {
	reuse := func(_, _ string, c syscall.RawConn) (err error) {
		_ = c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
		return err
	}
	inodes := map[string]bool{}
	dialer := net.Dialer{Control: reuse, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	for _, at := range []string{"127.0.0.1:0", "127.0.0.2:0"} {
		listener, err := net.Listen("tcp", at)
		require.NoError(t, err)
		defer listener.Close()
		conn, err := dialer.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		dialer.LocalAddr = conn.LocalAddr()
		inodes[socket(conn.LocalAddr(), conn.RemoteAddr())] = true
	}
	assert.Len(t, inodes, 2)
	assert.NotContains(t, inodes, "")
}
