// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package lockstep

import (
	"io"
	"syscall"
)

// descriptor is read and written with calls that block: no poller of Go's knows of it.
type descriptor int

func (d descriptor) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(d), p)
		switch {
		case err == syscall.EINTR:
		case n == 0 && err == nil:
			return 0, io.EOF
		default:
			return n, err
		}
	}
}

func (d descriptor) Write(p []byte) (written int, err error) {
	for written < len(p) {
		n, err := syscall.Write(int(d), p[written:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

// reader is a bufio.Reader that allocates nothing.
type reader struct {
	from   descriptor
	buffer []byte
	r, w   int
}

func (b *reader) Read(p []byte) (int, error) {
	if b.r == b.w {
		n, err := b.from.Read(b.buffer)
		if err != nil {
			return 0, err
		}
		b.r, b.w = 0, n
	}
	n := copy(p, b.buffer[b.r:b.w])
	b.r += n
	return n, nil
}
