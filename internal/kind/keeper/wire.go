// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package keeper

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Heard is when somebody at an address has last begun to speak to a port, in plain text and by
// TLS; the zero Time: never.
type Heard struct {
	From  netip.Addr     `json:"from"`
	To    netip.AddrPort `json:"to"`
	Plain time.Time      `json:"plain,omitzero"`
	TLS   time.Time      `json:"tls,omitzero"`
}

// wire listens to what pods of the node are told at ports of etcd.
type wire struct {
	mu    sync.Mutex
	heard map[pair]*Heard
}

type pair struct {
	from netip.Addr
	to   netip.AddrPort
}

// The ports that are listened to: etcd's usual ones, and those that a ring moves to beside
// them.
const (
	firstPort = 2300
	pastPorts = 2400
)

// mostOfPacket is how much of a packet is looked at.
const mostOfPacket = 256

// onlyPorts has the kernel pass what TCP brings to those ports, from the header of IP on.
var onlyPorts = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 9, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_TCP, SkipTrue: 5},
	bpf.LoadMemShift{Off: 0},
	bpf.LoadIndirect{Off: 2, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpLessThan, Val: firstPort, SkipTrue: 2},
	bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: pastPorts, SkipTrue: 1},
	bpf.RetConstant{Val: mostOfPacket},
	bpf.RetConstant{Val: 0},
}

// listen listens until the process ends. Without the right to, nothing is heard.
func (w *wire) listen() error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(swapped(unix.ETH_P_IP)))
	if err != nil {
		return fmt.Errorf("listening to packets: %w", err)
	}
	raw, err := bpf.Assemble(onlyPorts)
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
		return fmt.Errorf("listening to packets: %w", err)
	}
	packet := make([]byte, mostOfPacket)
	for {
		n, _, err := unix.Recvfrom(fd, packet, 0)
		if err != nil && err != unix.EINTR {
			return err
		}
		w.hear(packet[:max(n, 0)], time.Now())
	}
}

// swapped is a number of two bytes in the order of the network.
func swapped(n uint16) uint16 { return n<<8 | n>>8 }

// What a request in plain text begins with, of HTTP and of HTTP/2.
var plainly = [][]byte{[]byte("GET "), []byte("POST "), []byte("PUT "), []byte("PRI * HTTP/2")}

// hear notes how a packet speaks, from its header of IP on. Of a connection that goes on
// nothing is noted: how it speaks was told by how it began.
func (w *wire) hear(packet []byte, at time.Time) {
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return
	}
	header := int(packet[0]&0xf) * 4
	if len(packet) < header+20 {
		return
	}
	tcp := packet[header:]
	offset := int(tcp[12]>>4) * 4
	if len(tcp) <= offset {
		return
	}
	said := tcp[offset:]
	tls := len(said) > 2 && said[0] == 0x16 && said[1] == 3 // a handshake
	plain := slices.ContainsFunc(plainly, func(begins []byte) bool { return bytes.HasPrefix(said, begins) })
	if !tls && !plain {
		return
	}
	from, to := netip.AddrFrom4([4]byte(packet[12:16])), netip.AddrPortFrom(netip.AddrFrom4([4]byte(packet[16:20])), binary.BigEndian.Uint16(tcp[2:4]))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard == nil {
		w.heard = map[pair]*Heard{}
	}
	h := w.heard[pair{from, to}]
	if h == nil {
		h = &Heard{From: from, To: to}
		w.heard[pair{from, to}] = h
	}
	if tls {
		h.TLS = at
	} else {
		h.Plain = at
	}
}

// all is what was heard.
func (w *wire) all() (all []Heard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.heard { // order: whoever asks for it sorts it by time
		all = append(all, *h)
	}
	return all
}
