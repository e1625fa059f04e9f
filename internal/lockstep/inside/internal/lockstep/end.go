// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package lockstep

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// most is how many bytes may be on their way that nobody has read.
const most = 256 << 10

// end is one of the two of a connection.
type end struct {
	p             *process
	id            uint64
	local, remote *net.TCPAddr

	mu       sync.Mutex
	changed  *sync.Cond
	buffer   []byte // what came and was not read
	up       bool   // both ends know of each other
	over     bool   // the other end writes no more
	shut     bool   // this end writes no more
	closed   bool
	err      error
	inFlight int // bytes that the other end has not read
	read     int // bytes that it was not told of
	reads    deadline
	writes   deadline
}

func (e *end) frame(k kind, p []byte) {
	e.p.send(frame{Kind: k, SrcHost: e.local.IP[3], DstHost: e.remote.IP[3], SrcPort: uint16(e.local.Port), DstPort: uint16(e.remote.Port),
		Conn: e.id ^ acceptor, Payload: p})
}

// established waits for the other end.
func (e *end) established() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for !e.up && e.err == nil {
		e.changed.Wait()
	}
	return e.err
}

// fail ends an end that has not met the other.
func (e *end) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.up && e.err == nil {
		e.err = err
		e.changed.Broadcast()
	}
}

// take takes a frame from the other end.
func (e *end) take(f *frame) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.changed.Broadcast()
	switch f.Kind {
	case synAck:
		e.up = true
	case rst:
		e.reset()
	case payload:
		if e.closed {
			e.frame(rst, nil)
			return
		}
		e.buffer = append(e.buffer, f.Payload...)
	case fin:
		e.over = true
		if e.closed {
			e.p.forget(e)
		}
	case window:
		e.inFlight -= int(f.DstPort)<<16 | int(f.SrcPort)
	}
}

func (e *end) reset() {
	switch {
	case e.err != nil:
	case e.up:
		e.err = os.NewSyscallError("read", syscall.ECONNRESET)
	default:
		e.err = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
}

func (e *end) LocalAddr() net.Addr  { return e.local }
func (e *end) RemoteAddr() net.Addr { return e.remote }

// await waits until something may be read; e.mu is held.
func (e *end) await() {
	for len(e.buffer) == 0 && !e.over && e.err == nil && !e.closed && !e.reads.passed {
		e.changed.Wait()
	}
}

func (e *end) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(p) > 0 {
		e.await()
	}
	switch {
	case e.closed:
		return 0, net.ErrClosed
	case e.reads.passed:
		return 0, os.ErrDeadlineExceeded
	case len(e.buffer) > 0:
		n := copy(p, e.buffer)
		e.buffer = e.buffer[n:]
		e.credit(n)
		return n, nil
	case e.err != nil:
		return 0, e.err
	case len(p) == 0:
		return 0, nil
	}
	return 0, io.EOF
}

// credit tells the other end now and then how much was read.
func (e *end) credit(n int) {
	if e.read += n; e.read <= most/4 {
		return
	}
	e.p.send(frame{Kind: window, SrcHost: e.local.IP[3], DstHost: e.remote.IP[3], Conn: e.id ^ acceptor, SrcPort: uint16(e.read), DstPort: uint16(e.read >> 16)})
	e.read = 0
}

func (e *end) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.inFlight >= most && e.err == nil && !e.closed && !e.shut && !e.writes.passed {
		e.changed.Wait()
	}
	switch {
	case e.closed:
		return 0, net.ErrClosed
	case e.writes.passed:
		return 0, os.ErrDeadlineExceeded
	case e.err != nil:
		return 0, e.err
	case e.shut:
		return 0, os.NewSyscallError("write", syscall.EPIPE)
	}
	e.inFlight += len(p)
	e.frame(payload, append([]byte(nil), p...))
	return len(p), nil
}

func (e *end) WaitRead() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.await()
	switch {
	case e.closed:
		return net.ErrClosed
	case e.reads.passed:
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (e *end) CloseRead() error { return nil }

func (e *end) CloseWrite() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finish()
	return nil
}

// finish tells the other end that nothing more comes.
func (e *end) finish() {
	if !e.shut {
		e.shut = true
		e.frame(fin, nil)
	}
}

// Close closes the end. Who is closed by a finalizer, which runs when the collector says
// so, tells nobody.
func (e *end) Close() error {
	if !runtime.LockstepInBubble() {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	e.closed = true
	e.reads.stop()
	e.writes.stop()
	e.finish()
	if e.over || e.err != nil {
		e.p.forget(e)
	}
	e.changed.Broadcast()
	return nil
}

// deadline is when reads or writes end.
type deadline struct {
	timer  *time.Timer
	passed bool
	set    int // how often it was set: a timer that fires late is for an earlier one
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// until sets the deadline; e.mu is held.
func (e *end) until(d *deadline, at time.Time) {
	d.stop()
	d.set++
	d.passed = false
	left := time.Until(at)
	switch {
	case at.IsZero():
	case left <= 0:
		d.passed = true
		e.changed.Broadcast()
	default:
		set := d.set
		d.timer = time.AfterFunc(left, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			if d.set == set {
				d.passed = true
				e.changed.Broadcast()
			}
		})
	}
}

func (e *end) SetDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until(&e.reads, t)
	e.until(&e.writes, t)
	return nil
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until(&e.reads, t)
	return nil
}

func (e *end) SetWriteDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until(&e.writes, t)
	return nil
}
