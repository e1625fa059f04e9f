// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package lockstep

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
)

// address is a machine's, with a port.
func address(h byte, port uint16) *net.TCPAddr {
	a := host(h)
	return &net.TCPAddr{IP: net.IP(a[:]), Port: int(port)}
}

// hostOf is the machine that an address means; 0: none of this world.
func (p *process) hostOf(ip net.IP) byte {
	four := ip.To4()
	switch {
	case len(ip) == 0 || ip.IsUnspecified() || ip.IsLoopback():
		return p.Host
	case four != nil && [4]byte(four) == host(four[3]):
		return four[3]
	}
	return 0
}

// listener is a port that this process listens at.
type listener struct {
	p      *process
	at     *net.TCPAddr
	mu     sync.Mutex
	ready  *sync.Cond
	queue  []*end
	closed bool
}

// Listen listens at a port of the machine, whichever of its addresses is named.
func (p *process) Listen(at *net.TCPAddr) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	port := uint16(at.Port)
	if port == 0 {
		p.port++
		port = p.port
	}
	if _, errno := p.call(listen, uint64(port), nil, nil); errno != 0 {
		return nil, os.NewSyscallError("bind", errno)
	}
	l := &listener{p: p, at: address(p.Host, port)}
	l.ready = sync.NewCond(&l.mu)
	p.listeners[port] = l
	return l, nil
}

func (l *listener) Addr() net.Addr { return l.at }

func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.ready.Wait()
	}
	if l.closed {
		return nil, net.ErrClosed
	}
	e := l.queue[0]
	l.queue = l.queue[1:]
	return e, nil
}

func (l *listener) Close() error {
	port := uint16(l.at.Port)
	l.p.mu.Lock()
	if l.p.listeners[port] == l {
		delete(l.p.listeners, port)
		l.p.call(unlisten, uint64(port), nil, nil)
	}
	l.p.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.ready.Broadcast()
	return nil
}

func (l *listener) accept(e *end) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, e)
	l.ready.Broadcast()
}

// Dial connects, from the machine of the local address if one is named.
func (p *process) Dial(ctx context.Context, local, remote *net.TCPAddr) (net.LockstepConn, error) {
	to, port, errno := p.whither(remote)
	if errno != 0 {
		return nil, os.NewSyscallError("connect", errno)
	}
	from := p.Host
	if local != nil {
		from = p.hostOf(local.IP)
	}
	e := p.dial(from, address(to, port))
	e.frame(syn, nil)
	stop := context.AfterFunc(ctx, func() { e.fail(timedOut(ctx.Err())) })
	defer stop()
	if err := e.established(); err != nil {
		p.forget(e)
		if ctx.Err() != nil { // what comes of it yet is for nobody
			e.frame(rst, nil)
		}
		return nil, err
	}
	return e, nil
}

// whither is the machine that an address means, and the port there: who is behind an address
// that is no machine's the coordinator knows.
func (p *process) whither(a *net.TCPAddr) (h byte, port uint16, errno syscall.Errno) {
	if h := p.hostOf(a.IP); h != 0 {
		return h, uint16(a.Port), 0
	}
	four := a.IP.To4()
	if four == nil {
		return 0, 0, syscall.ENETUNREACH
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	of, errno := p.call(service, uint64(four[0])<<40|uint64(four[1])<<32|uint64(four[2])<<24|uint64(four[3])<<16|uint64(uint16(a.Port)), nil, nil)
	return byte(of >> 16), uint16(of), errno
}

// dial makes the end that dials.
func (p *process) dial(from byte, to *net.TCPAddr) *end {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials++
	p.port++
	return p.end(uint64(p.Life)<<48|p.dials, address(from, p.port), to)
}

// end makes an end; p.mu is held.
func (p *process) end(id uint64, local, remote *net.TCPAddr) *end {
	e := &end{p: p, id: id, local: local, remote: remote}
	e.changed = sync.NewCond(&e.mu)
	p.ends[id] = e
	return e
}

func (p *process) forget(e *end) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ends, e.id)
}

// timedOut is what a context's end is to who dials.
func timedOut(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return err
}

// deliver gives a frame to the end that it is for.
func (p *process) deliver(f *frame) {
	p.mu.Lock()
	e, l := p.ends[f.Conn], p.listeners[f.DstPort]
	if e == nil && f.Kind == syn && l != nil {
		e = p.end(f.Conn, address(f.DstHost, f.DstPort), address(f.SrcHost, f.SrcPort))
		e.up = true
		p.mu.Unlock()
		e.frame(synAck, nil)
		l.accept(e)
		return
	}
	p.mu.Unlock()
	switch {
	case e != nil && f.Kind != syn:
		e.take(f)
	case f.Kind == syn || f.Kind == payload:
		p.send(frame{Kind: rst, SrcHost: f.DstHost, DstHost: f.SrcHost, Conn: f.Conn ^ acceptor})
	}
}
