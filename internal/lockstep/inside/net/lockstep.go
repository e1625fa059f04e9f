// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package net

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// LockstepConn is what stands for a socket.
type LockstepConn interface {
	Conn
	CloseRead() error
	CloseWrite() error
	WaitRead() error // returns when Read would not block
}

// LockstepNet, where it is set, stands for the kernel's TCP.
var LockstepNet interface {
	Listen(local *TCPAddr) (Listener, error)
	Dial(ctx context.Context, local, remote *TCPAddr) (LockstepConn, error)
}

// lockstepSocket makes the socket, if it is one of IP and the process is in lockstep.
func lockstepSocket(ctx context.Context, network string, family, sotype int, local, remote sockaddr) (fd *netFD, err error, ours bool) {
	if LockstepNet == nil || family == syscall.AF_UNIX {
		return nil, nil, false
	}
	if sotype != syscall.SOCK_STREAM { // nobody answers a datagram, so that it can't be waited for
		return nil, os.NewSyscallError("socket", syscall.ENETUNREACH), true
	}
	from, _ := local.(*TCPAddr)
	to, dials := remote.(*TCPAddr)
	switch {
	case dials:
		c, err := LockstepNet.Dial(ctx, from, to)
		if err != nil {
			return nil, err, true
		}
		return lockstepFD(family, network, c), nil, true
	case remote == nil && from != nil:
		l, err := LockstepNet.Listen(from)
		if err != nil {
			return nil, err, true
		}
		return &netFD{family: family, sotype: sotype, net: network, lockstepListener: l, laddr: l.Addr()}, nil, true
	}
	return nil, nil, false
}

func lockstepFD(family int, network string, c LockstepConn) *netFD {
	return &netFD{family: family, sotype: syscall.SOCK_STREAM, net: network, lockstep: c,
		laddr: c.LocalAddr(), raddr: c.RemoteAddr(), isConnected: true}
}

// lockstepNumbers are the connections that something knows by a descriptor's number, as
// gRPC does, which reads by syscall.Read.
var lockstepNumbers struct {
	sync.Mutex
	last int
	of   map[int]LockstepConn
}

// lockstepNumber is a number that stands for the connection's descriptor.
func lockstepNumber(fd *netFD) uintptr {
	n := &lockstepNumbers
	n.Lock()
	defer n.Unlock()
	if fd.lockstepNumber == 0 {
		if n.of == nil {
			n.of = map[int]LockstepConn{}
		}
		n.last++
		fd.lockstepNumber = syscall.LockstepFD + n.last
		n.of[fd.lockstepNumber] = fd.lockstep
	}
	return uintptr(fd.lockstepNumber)
}

func lockstepForget(fd *netFD) {
	lockstepNumbers.Lock()
	defer lockstepNumbers.Unlock()
	delete(lockstepNumbers.of, fd.lockstepNumber)
}

// lockstepRawRead is a rawConn's Read: f is called whenever something may be read, until
// it says that it is done.
func lockstepRawRead(fd *netFD, f func(uintptr) bool) error {
	for {
		if err := fd.lockstep.WaitRead(); err != nil {
			return &OpError{Op: "raw-read", Net: fd.net, Source: fd.laddr, Addr: fd.raddr, Err: err}
		}
		if f(lockstepNumber(fd)) {
			return nil
		}
	}
}

func init() {
	syscall.LockstepRead = func(number int, p []byte) (int, error) {
		lockstepNumbers.Lock()
		c := lockstepNumbers.of[number]
		lockstepNumbers.Unlock()
		if c == nil {
			return -1, syscall.EBADF
		}
		k, err := c.Read(p)
		var e syscall.Errno
		switch {
		case err == nil:
			return k, nil
		case err == io.EOF:
			return 0, nil
		case errors.As(err, &e):
			return -1, e
		}
		return -1, syscall.ECONNRESET
	}
}
