// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package lockstep

import (
	"encoding/binary"
	"fmt"
	"io"
	"syscall"
)

// This file is both the coordinator's and a part of every process: see inside.

// kind is what a frame is.
type kind byte

const (
	// Between two processes, by way of the coordinator.
	syn kind = iota
	synAck
	rst
	payload
	fin
	window // DstPort and SrcPort are the high and low half of how many bytes were read

	// From the coordinator.
	signalled // Conn is the signal
	exited    // Conn is a child's pid, SrcPort its wait status
	poked     // there may be something in a pipe
	wall      // Conn is how far the wall clock is off
	disk      // Conn is how much longer than others the machine's disk takes to sync

	// Calls of the coordinator, which answers at once.
	listen   // Conn is the port
	unlisten // the same
	spawn    // Payload is an order to start, and its files come beside
	kill     // Conn is whom, Payload[0] the signal
	exit     // Conn is the code
	service  // Conn is an address of no machine, and a port in its low 16 bits; the answer's number is a machine and a port
)

// acceptor is the bit by which the two ends of a connection differ: with it a frame is for
// the end that accepted, and without it for the one that dialled.
const acceptor = 1 << 63

// frame is one thing that is sent, and when.
type frame struct {
	Kind             kind
	SrcHost, DstHost byte
	SrcPort, DstPort uint16
	Conn             uint64 // the connection's number: the life that dialled, and which of its dials
	At               int64  // nanoseconds
	Payload          []byte
}

// batch is what goes over a process's socket at a time. From the process: A is its clock, and B
// its next timer, 0 for none, or calls. From the coordinator: A is until when it may run, and
// B to when its clock jumps first, 0 for not at all. An answer to a call: A is its errno, and
// B its number.
type batch struct {
	A, B   int64
	Frames []frame
}

// calls is B of a process that waits for an answer in the middle of what it may run.
const calls = -1

// order is a process that is to be started.
type order struct {
	Name, Dir string
	Args, Env []string
}

// host is the address of a machine.
func host(h byte) [4]byte { return [4]byte{10, 0, 0, h} }

const (
	batchHead = 4 + 8 + 8 + 4
	frameHead = 3 + 2 + 2 + 8 + 8 + 4
)

// appendTo appends the batch, its length first.
func (b *batch) appendTo(p []byte) []byte {
	le := binary.LittleEndian
	start := len(p)
	p = le.AppendUint32(p, 0)
	p = le.AppendUint64(p, uint64(b.A))
	p = le.AppendUint64(p, uint64(b.B))
	p = le.AppendUint32(p, uint32(len(b.Frames)))
	for _, f := range b.Frames {
		p = append(p, byte(f.Kind), f.SrcHost, f.DstHost)
		p = le.AppendUint16(p, f.SrcPort)
		p = le.AppendUint16(p, f.DstPort)
		p = le.AppendUint64(p, f.Conn)
		p = le.AppendUint64(p, uint64(f.At))
		p = le.AppendUint32(p, uint32(len(f.Payload)))
		p = append(p, f.Payload...)
	}
	le.PutUint32(p[start:], uint32(len(p)-start-4))
	return p
}

// readBatch reads a batch by way of buf, which it returns, larger where that was needed.
func readBatch(r io.Reader, buf []byte) (b batch, _ []byte, err error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return b, buf, err
	}
	n := int(binary.LittleEndian.Uint32(length[:]))
	if n < batchHead-4 {
		return b, buf, fmt.Errorf("lockstep: a batch of %d bytes: %w", n, syscall.EPROTO)
	}
	if cap(buf) < n {
		buf = make([]byte, 2*n)
	}
	if _, err := io.ReadFull(r, buf[:n]); err != nil {
		return b, buf, err
	}
	return b, buf, b.parse(buf[:n])
}

// parse reads what follows the length. The frames' payloads are copies.
func (b *batch) parse(p []byte) error {
	le := binary.LittleEndian
	b.A, b.B = int64(le.Uint64(p)), int64(le.Uint64(p[8:]))
	count := int(le.Uint32(p[16:]))
	for p = p[20:]; count > 0; count-- {
		if len(p) < frameHead || len(p)-frameHead < int(le.Uint32(p[23:])) {
			return fmt.Errorf("lockstep: a batch that ends in a frame: %w", syscall.EPROTO)
		}
		end := frameHead + int(le.Uint32(p[23:]))
		b.Frames = append(b.Frames, frame{
			Kind: kind(p[0]), SrcHost: p[1], DstHost: p[2], SrcPort: le.Uint16(p[3:]), DstPort: le.Uint16(p[5:]),
			Conn: le.Uint64(p[7:]), At: int64(le.Uint64(p[15:])), Payload: append([]byte(nil), p[frameHead:end]...),
		})
		p = p[end:]
	}
	if len(p) != 0 {
		return fmt.Errorf("lockstep: %d bytes after a batch: %w", len(p), syscall.EPROTO)
	}
	return nil
}
