// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package etcd is an etcd server in virtual time: etcd's own raft and
// membership code over a modelled write-ahead log, keyspace and transport.
// A [Server] never blocks, holds no goroutine and reads no clock: all that it
// touches of its machine is a [Host], and whatever comes to it, a message, a
// request or the end of an fsync, is a call.
//
// It is tested, not trusted: package fidelity runs the same scripts on it and
// on released etcd.
package etcd

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// Host is what one etcd process touches of its machine. All calls, in both
// directions, come from one thread. After the process has ended the host calls
// none of the functions that it was given.
type Host interface {
	// Now is the machine's clock, which may be wrong and may jump.
	Now() time.Time
	// Elapsed is time that only goes forward, at the same pace everywhere.
	Elapsed() time.Duration
	// After calls f once d has elapsed, unless it is stopped before.
	After(d time.Duration, f func()) (stop func())
	// Draw returns 64 random bits; the nth draw of a stream is always the same.
	Draw(stream string) uint64
	// Open returns what the data directory holds, and makes it if it is not
	// there. The directory outlives the process.
	Open(dir string) (*Dir, error)
	// ForceNew makes the log in d that of a ring of one, by Dir.ForceNew.
	ForceNew(d *Dir)
	// Sync calls done when all that was appended to d would survive a loss of
	// power, or with the error of the write, such as a full disk.
	Sync(d *Dir, done func(error))
	// Send delivers a packet to the process that listens at a peer URL. failed
	// is called with why it surely or probably didn't get there, or with what
	// the receiver's Receive returned; a packet that got there calls nothing.
	Send(url string, p Packet, failed func(error))
	// Ask asks the process that listens at a peer URL a question, by what the
	// receiver's Answer makes of it; what gets lost is an error in the end. The
	// question may be a Packet: a snapshot's sender must know that it got there.
	Ask(url string, question any, answer func(any, error))
	// Requests is the same for all members of a world.
	Requests() *Requests
	// Work is the same for all members of a world, too.
	Work() Work
	// Ready is called once clients are served. Until then their connections are
	// taken, and nothing is answered.
	Ready()
	// Exit ends the process. Code 0 is a stop in order.
	Exit(code int, why string)
	// Rejected tells of a change of the membership that was asked for and refused
	// as unsafe: its kind as a ConfChange has it, and of whom.
	Rejected(kind string, member uint64, why error)
	// Log writes a line of the process's output, for a person.
	Log(line string)
}

// Work is what a member does that nothing could tell, if the model is right, was it
// left out. The zero value leaves it out.
type Work struct {
	// Own has a member do itself what the others do too, or it has done before: it
	// decodes each entry, answers each request though nobody listens, reads its
	// whole log when it starts, lists the members anew whenever it looks at them,
	// and asks raft for what is ready whenever it may be.
	Own bool
	// Ask has the leader ask for versions that can't move the ring's.
	Ask bool
}

// Packet is one raft message between two members.
type Packet struct {
	Cluster uint64   // of the sender
	From    uint64   // member
	URLs    []string // where the sender's peers reach it, by its own flags
	Back    bool     // it goes on a stream that the receiver has opened, which needs no listener
	Message *raftpb.Message
	Body    any // of a snapshot: the sender's state as of the message, which nobody changes any more
}
