// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package host is what the reference may touch of the machine it runs on:
// clock, log, disk, one etcd process, and clients of the ring. Real is the
// Linux machine; a simulator brings its own.
//
// Code above this seam is straight-line and blocking: no go statement, no
// select, no time.Now, no context.WithTimeout.
package host

import (
	"context"
	"crypto/tls"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Host is one machine.
type Host interface {
	Now() time.Time
	// Monotonic returns the time since some moment of this process, by a clock that nobody
	// sets (CLOCK_MONOTONIC): what is waited for is measured by it, never by Now. It stands still
	// while the machine is suspended: that a time is over for others it doesn't say.
	Monotonic() time.Duration
	// Sleep returns early with ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
	Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// Nonce returns 16 hex digits that no other call on any machine returns.
	Nonce() string
	Log(Line)
	Disk() Disk
	Process() Process
	// Dial opens a client of one endpoint ("https://10.0.0.1:2379"). It does
	// not wait for a connection: the first request tells. secure is nil for a
	// plain endpoint.
	Dial(endpoint string, secure *tls.Config) (Etcd, error)
}

// Etcd is one client of one endpoint: clientv3's own interfaces.
type Etcd interface {
	clientv3.KV
	clientv3.Cluster
	clientv3.Lease
	clientv3.Maintenance
	Close() error
}

// Disk is the machine's data filesystem. Names are relative to its root. A
// file that is not there is fs.ErrNotExist; any other error leaves what is
// there unknown.
type Disk interface {
	// Path returns what an etcd process calls the name.
	Path(name string) string
	Read(name string) ([]byte, error)
	// Write replaces the file atomically, mode 0600, and returns when it would
	// survive a power loss.
	Write(name string, content []byte) error
	// Remove removes the file or tree; nothing there is no error.
	Remove(name string) error
	// Rename moves the file or tree, and returns when that would survive a power
	// loss. Nothing may be at the new name.
	Rename(old, new string) error
	// Prepared reports whether the root is a place of its own, where emptiness means
	// a new disk. An empty directory in which a filesystem should be mounted, and
	// isn't yet, means nothing.
	Prepared() (bool, error)
	// Exists reports whether there is a file or directory of that name.
	Exists(name string) (bool, error)
	// WAL reads whose write-ahead log the etcd data directory holds;
	// fs.ErrNotExist when it holds none for certain.
	WAL(dir string) (WAL, error)
}

// WAL is whose write-ahead log a data directory holds, from the metadata
// record that etcd writes first, and how far it goes.
type WAL struct {
	Member  uint64
	Cluster uint64
	Last    uint64 // raft index of the last entry
	Left    bool   // the log itself says that its member is removed
	// V2 is the raft index of the last request of etcd's v2 API since the last snapshot; 0:
	// there is none. etcd before v3.6 writes its own name so, and v3.7 can't read it.
	V2 uint64
	// Forced is the raft index from which on the log is that of a ring of one, as somebody
	// has started etcd on it with --force-new-cluster, the last time if more than once; 0: it
	// is not. What the others have acknowledged since is not in it, and what is in it since
	// nobody else has.
	Forced uint64
	// Cut says where etcd would end reading the log, which goes on behind that, and go on
	// without what is there; "": nowhere. Last is of what is before.
	Cut string
	// Unopened says why etcd can't open the keyspace beside the log, and would end at every start;
	// "": it can, or makes it anew, or only its start will tell.
	Unopened string
}

// Process is the machine's one etcd process. It outlives the agent that
// started it: an agent that comes back finds it and takes it over.
type Process interface {
	// Running returns the process's command line; nil when none runs.
	Running() ([]string, error)
	// Start starts it. args[0] is the binary.
	Start(ctx context.Context, args []string) error
	// Stop sends SIGTERM, and SIGKILL after the grace; it returns when the
	// process is gone.
	Stop(ctx context.Context, grace time.Duration) error
	// LastWords returns the end of its output, for a person.
	LastWords() string
}

// Event names what a log line tells. The harness reads them by these names.
type Event string

// The events.
const (
	EventWaiting      Event = "waiting"       // Text: why nothing is done
	EventHalted       Event = "halted"        // Text: why; Command: what to consider
	EventRefused      Event = "refused"       // Text: what was refused and why
	EventBoot         Event = "boot"          // Text: how etcd is started, or why not
	EventActionBegun  Event = "action-begun"  // Action, Command
	EventActionDone   Event = "action-done"   // Action, Command
	EventActionFailed Event = "action-failed" // Action, Command, Text: the error
	EventDiskReplaced Event = "disk-replaced" // a new disk is in use
	EventLeads        Event = "leads"         // this agent leads the automation
	EventTrouble      Event = "trouble"       // Text: an error that is tried again
	EventIssued       Event = "issued"        // Text: a certificate of this machine, and until when it is good
)

// Line is one line of the log. It holds nothing secret.
type Line struct {
	Time    time.Time `json:"time"`
	Machine string    `json:"machine"`
	Event   Event     `json:"event"`
	Action  string    `json:"action,omitempty"`
	Member  string    `json:"member,omitempty"`
	Target  string    `json:"target,omitempty"` // the machine that an action is about
	Command string    `json:"command,omitempty"`
	Step    string    `json:"step,omitempty"` // of a harness that decorates the seams
	Text    string    `json:"text,omitempty"`
}
