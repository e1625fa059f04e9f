// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package fidelity holds transcripts of real etcd, and plays them on any etcd
// that can be operated through [Machines]: released binaries, etcd in process,
// or a simulated one. A model that prints another line than the transcript is
// wrong.
//
// A script is a file in testdata: commands, each with what it must print, in
// the format of cockroachdb/datadriven. The transcripts are those of the
// released binaries; they are never taken from a model.
//
// Some answers hold for a few seconds only: for five, etcd trusts no member that
// came back. There the command says hurry=5s: it must be answered sooner than
// that after the last ring, start, join, grant or keep-alive above it began. On
// a real system a play that is later is void, whatever was answered, and is
// repeated; one that is in time and differs has no second chance. If all are
// void, that is an error, and no agreement: the machine is too slow to tell. In
// virtual time no machine is slow, so that there the script is wrong. What etcd
// does when it likes is waited for (wait-leader, wait-applied, expired,
// promote-in-sync), since no elapse is long enough for every machine.
//
// What plays a script is straight-line code. It waits by [Machines.Elapse] and
// bounds its calls by [Machines.Timeout], so that it runs in virtual time too.
package fidelity

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// System is one etcd that scripts are played on.
type System interface {
	// Name is what the summary calls it: "v3.6.16", "sim-3.6".
	Name() string
	// Release is the release that runs, or is modelled: "v3.6.16".
	Release() string
	// Lacks returns "", or why the system can't do what a script needs.
	Lacks(Need) string
	// Play calls play once, with machines that have never run anything, and
	// then ends whatever still runs on them. In virtual time play is a task of
	// the world. The error says why the machines could not be had.
	Play(script Script, play func(context.Context, Machines)) error
}

// Need is something that not every system can do.
type Need string

// What a script may need.
const (
	NeedFiles     Need = "files"     // Lose, Damage and Occupy
	NeedProcess   Need = "process"   // etcd may refuse its flags or panic, takes its time to end, and its end is seen
	NeedPartition Need = "partition" // Cut and Join
	NeedTLS       Need = "tls"       // URLs of https
	NeedMixed     Need = "mixed"     // members of several releases in a ring
)

var needs = []Need{NeedFiles, NeedProcess, NeedPartition, NeedTLS, NeedMixed}

// Machines are the hosts of one script. A machine is there as soon as it is
// named, with an address, an empty disk and no process.
type Machines interface {
	// Elapse returns after d, or with ctx's error.
	Elapse(ctx context.Context, d time.Duration) error
	Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// Now is the time by the clock that Elapse goes by.
	Now() time.Time
	// Virtual reports whether it passes only as script and model let it. Then
	// nothing can be late because the computer is slow.
	Virtual() bool

	// URL is where an etcd process on the machine listens.
	URL(machine string, port Port, secure bool) string
	// DataDir is the machine's data directory, as etcd's flag takes it.
	DataDir(machine string) string
	// PeerTLS returns the flags of the certificates that peers trust.
	PeerTLS(machine string) []string

	// Start starts etcd of a release, with etcd's own flags. It doesn't wait
	// until etcd serves. No process may run on the machine.
	Start(ctx context.Context, machine, release string, flags []string) error
	// Ended reports whether the last process on the machine has ended by itself.
	Ended(machine string) (End, bool)
	// Stop asks etcd to end (SIGTERM), and returns when it has.
	Stop(ctx context.Context, machine string) error
	// Tell asks etcd to end (SIGTERM), and returns when it refuses new clients.
	Tell(ctx context.Context, machine string) error
	// Kill ends etcd without a word (SIGKILL).
	Kill(machine string) error
	// PowerOff is Kill of all, and loses what their disks were never asked to
	// sync.
	PowerOff(machines ...string) error
	// Wipe empties the disk. No process may run.
	Wipe(machine string) error
	// Unlink removes the data directory, and whoever has files of it open goes on.
	Unlink(machine string) error
	// Lose takes a part of the data directory away, and Damage makes it
	// unreadable: "wal", "snap" or "db". No process may run.
	Lose(machine, part string) error
	Damage(machine, part string) error
	// Occupy has another program listen where etcd would, until etcd is started
	// there and has ended.
	Occupy(machine string, port Port) error
	// Cut cuts the machine off all others, but not off clients, and Part two
	// machines off one another. Join mends what was done to a machine. Both return
	// when nothing passes any more.
	Cut(machine string) error
	Part(machine, other string) error
	Join(machine string) error

	// Client opens a client of this machine only, which never repeats a
	// request. It doesn't wait for a connection.
	Client(machine string) (Client, error)
	// ClusterVersion asks the member over HTTP (/version) what the ring speaks:
	// "3.6.0".
	ClusterVersion(ctx context.Context, machine string) (string, error)
}

// Port is one of those that etcd listens on.
type Port string

// The ports of etcd.
const (
	PeerPort   Port = "peer"
	SecondPort Port = "second" // for peers too, where they speak another way than at the first
	ClientPort Port = "client"
)

var ports = []Port{PeerPort, SecondPort, ClientPort}

// End is how a process ended by itself.
type End struct {
	Code int
	Why  string // the error that etcd logged last
}

// Client is clientv3's own interfaces, but for watches, which come by channels
// there and are asked for here.
type Client interface {
	clientv3.KV
	clientv3.Cluster
	clientv3.Lease
	clientv3.Maintenance
	// Watch opens a watch on a stream of its own, and returns when etcd has
	// created it.
	Watch(ctx context.Context, key string, opts ...clientv3.OpOption) (Stream, error)
}

// Stream is one watch.
type Stream interface {
	// Next returns the next response, or ctx's error when there is none before.
	Next(ctx context.Context) (clientv3.WatchResponse, error)
	// Progress asks for a progress notification; Next returns it.
	Progress(ctx context.Context) error
	Close()
}
