// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package fidelity_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// relay stands before a machine's peer port, so that a machine can be cut off
// without root. It drops what comes to the machine and, by asking the kernel
// who dials, what comes from it.
type relay struct {
	machines *processes
	process  *process
	listener net.Listener

	mu     sync.Mutex
	severs bool
	parted map[*process]bool
	open   map[net.Conn]*process // accepted connections, by who dialed
}

func newRelay(m *processes, p *process) (*relay, error) {
	listener, err := net.Listen("tcp", p.front)
	if err != nil {
		return nil, err
	}
	r := &relay{machines: m, process: p, listener: listener, open: map[net.Conn]*process{}, parted: map[*process]bool{}}
	go r.serve()
	return r, nil
}

func (r *relay) serve() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.carry(conn)
	}
}

func (r *relay) carry(from net.Conn) {
	defer from.Close()
	dialer := r.machines.owner(from)
	if dialer == nil {
		return // it dials again
	}
	r.remember(from, dialer)
	defer r.forget(from)
	if r.forbids(dialer) {
		return
	}
	to, err := net.Dial("tcp", net.JoinHostPort(r.process.ip, "2382"))
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from)
		to.Close()
	}()
	_, _ = io.Copy(from, to)
}

func (r *relay) remember(conn net.Conn, dialer *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[conn] = dialer
}

func (r *relay) forget(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, conn)
}

// isCut reports whether the machine is cut off, from another at least.
func (r *relay) isCut(from *process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.severs || r.parted[from]
}

// cut severs what is open to and from the machine, or between it and another, and
// keeps it so. It asks the kernel anew whose each connection is, and looks again
// until a look finds nothing: a cut that didn't take is no cut.
func (r *relay) cut(other *process) error {
	r.mu.Lock()
	if other == nil {
		r.severs = true
	} else {
		r.parted[other] = true
	}
	r.mu.Unlock()
	for range 50 {
		severed := 0
		for _, p := range r.machines.relayed() {
			severed += p.relay.sever(r.process)
		}
		if severed == 0 {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s is not cut off: connections come back", r.process.ip)
}

// join mends all that was cut here.
func (r *relay) join() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.severs = false
	clear(r.parted)
}

// relayed are the machines that have a relay.
func (m *processes) relayed() (all []*process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.hosts {
		if p.relay != nil {
			all = append(all, p)
		}
	}
	return all
}

// sever closes what may not be open any more of the connections to and from a
// machine, and returns how many they were.
func (r *relay) sever(from *process) (n int) {
	r.mu.Lock()
	open := maps.Clone(r.open)
	r.mu.Unlock()
	for conn, dialer := range open {
		if now := r.machines.owner(conn); now != nil {
			dialer = now
		}
		if (dialer == from || r.process == from) && r.forbids(dialer) {
			conn.Close()
			r.forget(conn)
			n++
		}
	}
	return n
}

// forbids reports whether a machine may not reach this one.
func (r *relay) forbids(dialer *process) bool {
	return r.isCut(dialer) || dialer.relay.isCut(r.process)
}

func (r *relay) close() { r.listener.Close() }

// owner finds the machine whose process dialed a connection: /proc/net/tcp
// knows the socket's inode, and /proc/PID/fd who holds it. The kernel may skip
// a line of the table when others come and go, so it is read again. In lockstep each
// machine has its address.
func (m *processes) owner(accepted net.Conn) *process {
	if m.system.lockstep {
		return m.from(accepted.RemoteAddr())
	}
	for range 5 {
		if inode := socket(accepted.RemoteAddr(), accepted.LocalAddr()); inode != "" {
			return m.holder(inode)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func (m *processes) from(at net.Addr) *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.hosts {
		if host, _, _ := net.SplitHostPort(at.String()); host == p.ip {
			return p
		}
	}
	return nil
}

func (m *processes) holder(inode string) *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.hosts {
		if p.running() && holds(p.cmd.Process.Pid, inode) {
			return p
		}
	}
	return nil
}

// socket is the inode of the socket that goes from one address to another. One end
// doesn't tell: a port is shared by connections to different places.
func socket(from, to net.Addr) string {
	local, remote := inTable(from), inTable(to)
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 9 && fields[1] == local && fields[2] == remote && fields[9] != "0" {
			return fields[9]
		}
	}
	return ""
}

// inTable is how /proc/net/tcp writes an address.
func inTable(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp.IP.To4() == nil {
		return ""
	}
	ip := tcp.IP.To4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], tcp.Port)
}

func holds(pid int, inode string) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && target == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}
