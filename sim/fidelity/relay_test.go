// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity_test

import (
	"fmt"
	"io"
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
	open   map[net.Conn]*process // accepted connections, by who dialed
}

func newRelay(m *processes, p *process) (*relay, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(p.ip, "2380"))
	if err != nil {
		return nil, err
	}
	r := &relay{machines: m, process: p, listener: listener, open: map[net.Conn]*process{}}
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
	if r.isCut() || dialer.relay.isCut() {
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

func (r *relay) isCut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.severs
}

// cut severs what is open to and from the machine, and keeps it so.
func (r *relay) cut(severs bool) error {
	r.mu.Lock()
	r.severs = severs
	r.mu.Unlock()
	if !severs {
		return nil
	}
	r.machines.mu.Lock()
	defer r.machines.mu.Unlock()
	for _, p := range r.machines.hosts {
		if p.relay != nil {
			p.relay.sever(r.process)
		}
	}
	return nil
}

func (r *relay) sever(from *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn, dialer := range r.open {
		if dialer == from || r.process == from {
			conn.Close()
		}
	}
}

func (r *relay) close() { r.listener.Close() }

// owner finds the machine whose process dialed a connection: /proc/net/tcp
// knows the socket's inode, and /proc/PID/fd who holds it. The kernel may skip
// a line of the table when others come and go, so it is read again.
func (m *processes) owner(accepted net.Conn) *process {
	for range 5 {
		if inode := socket(accepted.RemoteAddr(), accepted.LocalAddr()); inode != "" {
			return m.holder(inode)
		}
		time.Sleep(5 * time.Millisecond)
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
