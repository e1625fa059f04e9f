// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"context"
	"slices"
)

// RequestKind is what a client asks of etcd.
type RequestKind string

// The requests for keys. Retries are off: one request is one attempt.
const (
	RequestGet     RequestKind = "get"   // one key, linearizable unless Serializable
	RequestRange   RequestKind = "range" // all keys with prefix Key; From and Limit make a page of them
	RequestPut     RequestKind = "put"
	RequestDelete  RequestKind = "delete"
	RequestTxn     RequestKind = "txn"     // if If holds then do Then else Else; without these if Key's mod revision equals Compare then put Value else get
	RequestCompact RequestKind = "compact" // discard history before Revision
)

// The requests of whoever operates etcd. Each is answered by the member that is
// asked, but alarms, which the ring shares.
const (
	RequestStatus   RequestKind = "status"
	RequestHash     RequestKind = "hash"     // of the keyspace at Revision; 0: now
	RequestAlarms   RequestKind = "alarms"   // list those raised
	RequestDisarm   RequestKind = "disarm"   // take all alarms back
	RequestDefrag   RequestKind = "defrag"   // give the space of what was deleted back
	RequestSnapshot RequestKind = "snapshot" // a copy of the member's keyspace file
)

// The requests for leases. A put says which lease its key goes with.
const (
	RequestGrant     RequestKind = "grant"      // a lease of TTL seconds
	RequestKeepAlive RequestKind = "keep-alive" // Lease begins its time anew
	RequestRevoke    RequestKind = "revoke"     // Lease ends, and its keys with it
)

// Request is one client request. Values written are unique in a run, so a
// value read names the write that made it.
type Request struct {
	Kind         RequestKind  `json:"kind"`
	Key          string       `json:"key,omitempty"`
	Value        string       `json:"value,omitempty"`
	Compare      int64        `json:"compare,omitempty"`      // txn: expected mod revision; 0: the key is absent
	Revision     int64        `json:"revision,omitempty"`     // get, range, hash: at this revision; compact: up to it
	Serializable bool         `json:"serializable,omitempty"` // answered by the member alone, may be stale
	From         string       `json:"from,omitempty"`         // range: the first key wanted
	Limit        int64        `json:"limit,omitempty"`        // range: the most keys wanted
	Lease        int64        `json:"lease,omitempty"`        // put: the key goes when it does, 0: by itself only; keep-alive, revoke: which
	TTL          int64        `json:"ttl,omitempty"`          // grant: seconds
	If           []Comparison `json:"if,omitempty"`           // txn: all must hold
	Then         []Request    `json:"then,omitempty"`         // txn: done in order, at one revision
	Else         []Request    `json:"else,omitempty"`
}

// Comparison is a condition of a transaction on one key.
type Comparison struct {
	Key    string `json:"key"`
	Target string `json:"target"`          // "mod", "create", "version", "lease" or "value"
	Is     string `json:"is"`              // "=", "!=", "<" or ">"
	Number int64  `json:"number"`          // the key has 0 of each while it is absent
	Value  string `json:"value,omitempty"` // of an absent key no value is equal, nor anything else
}

// General reports whether the request is a transaction with branches of its own.
func (r *Request) General() bool {
	return r.Kind == RequestTxn && len(r.If)+len(r.Then)+len(r.Else) > 0
}

// Writes reports whether the request may change the keyspace.
func (r Request) Writes() bool {
	if r.General() {
		return slices.ContainsFunc(r.Then, Request.Writes) || slices.ContainsFunc(r.Else, Request.Writes)
	}
	return r.Kind == RequestPut || r.Kind == RequestDelete || r.Kind == RequestTxn
}

// OfLease reports whether the request is about a lease, not about keys.
func (k RequestKind) OfLease() bool {
	return k == RequestGrant || k == RequestKeepAlive || k == RequestRevoke
}

// Operates reports whether the request is one of those about a member, not about
// keys.
func (k RequestKind) Operates() bool {
	switch k {
	case RequestStatus, RequestHash, RequestAlarms, RequestDisarm, RequestDefrag, RequestSnapshot:
		return true
	}
	return false
}

// KV is a key with its value and revisions, as etcd returns it.
type KV struct {
	Key            string `json:"key"`
	Value          string `json:"value"`
	CreateRevision int64  `json:"create"`
	ModRevision    int64  `json:"mod"`
	Version        int64  `json:"version"`
	Lease          int64  `json:"lease,omitempty"` // 0: none
}

// Response is etcd's answer.
type Response struct {
	ClusterID uint64        `json:"cluster,omitempty"`
	Member    MemberID      `json:"member,omitempty"` // who answered
	Term      uint64        `json:"term,omitempty"`
	Revision  int64         `json:"revision"`            // the header's
	KVs       []KV          `json:"kvs,omitempty"`       // get, range, and a txn's else branch; sorted by key
	More      bool          `json:"more,omitempty"`      // range: there are keys beyond Limit
	Deleted   int64         `json:"deleted,omitempty"`   // delete: how many
	Succeeded bool          `json:"succeeded,omitempty"` // txn: the comparison held
	Results   []Response    `json:"results,omitempty"`   // txn: of each request in the branch taken
	Lease     int64         `json:"lease,omitempty"`     // grant: its ID
	TTL       int64         `json:"ttl,omitempty"`       // grant, keep-alive: for how many seconds it lives from now, at least
	Upkeep    *UpkeepAnswer `json:"upkeep,omitempty"`    // of the requests that are about a member
}

// UpkeepAnswer is what a member says of itself.
type UpkeepAnswer struct {
	Version   string   `json:"version,omitempty"`   // status: the release
	Size      int64    `json:"size,omitempty"`      // status: of the keyspace file; snapshot: of the copy
	InUse     int64    `json:"inUse,omitempty"`     // status: the part of Size that holds keys
	Quota     int64    `json:"quota,omitempty"`     // status: the most that Size may be; 0: the release doesn't say
	Leader    MemberID `json:"leader,omitempty"`    // status
	Term      uint64   `json:"term,omitempty"`      // status: raft's
	Index     uint64   `json:"index,omitempty"`     // status: committed
	Applied   uint64   `json:"applied,omitempty"`   // status
	Learner   bool     `json:"learner,omitempty"`   // status
	Errors    []string `json:"errors,omitempty"`    // status
	Hash      uint32   `json:"hash,omitempty"`      // hash
	At        int64    `json:"at,omitempty"`        // hash: the revision that was hashed
	Compacted int64    `json:"compacted,omitempty"` // hash: the history before it is gone
	Alarms    []Alarm  `json:"alarms,omitempty"`    // alarms: those raised; disarm: those taken back
	Whole     bool     `json:"whole,omitempty"`     // snapshot: it ends in the hash of what is before
}

// Alarm is one that a member raised.
type Alarm struct {
	Member MemberID `json:"member"`
	Kind   string   `json:"kind"` // "NOSPACE" or "CORRUPT"
}

// Operation is one request and what became of it. A nil Response with an error
// means that the outcome is unknown, unless Refused: then etcd surely didn't
// apply it.
type Operation struct {
	ID       int       `json:"id"`
	Client   int       `json:"client"`
	Endpoint string    `json:"endpoint,omitempty"` // machine asked
	Call     Instant   `json:"call"`
	Return   Instant   `json:"return"` // when the reply or the error came
	Request  Request   `json:"request"`
	Response *Response `json:"response,omitempty"`
	Err      string    `json:"err,omitempty"`
	Refused  bool      `json:"refused,omitempty"` // the request never reached etcd, or etcd refused it
}

// Acked reports whether the client holds an answer.
func (o Operation) Acked() bool { return o.Response != nil }

// WatchEvent is one change as a watcher saw it.
type WatchEvent struct {
	At       Instant `json:"at"`
	Revision int64   `json:"revision"` // the event's mod revision; for a bookmark, the header's
	Bookmark bool    `json:"bookmark,omitempty"`
	Delete   bool    `json:"delete,omitempty"`
	Create   bool    `json:"create,omitempty"` // IsCreate
	KV       KV      `json:"kv"`
	Prev     *KV     `json:"prev,omitempty"`
}

// Watch is one watch stream of one client, from its opening until it ended.
type Watch struct {
	Client   int          `json:"client"`
	Endpoint string       `json:"endpoint"` // machine asked
	Prefix   string       `json:"prefix"`   // "": the whole keyspace, the subject's own keys included
	Start    int64        `json:"start"`    // revision asked for; 0: from now
	Opened   Instant      `json:"opened"`
	Closed   Instant      `json:"closed"`
	Events   []WatchEvent `json:"events"`
	Err      string       `json:"err,omitempty"`       // why it ended, "" when the run closed it
	Compact  int64        `json:"compacted,omitempty"` // it was refused: history before this is gone
}

// Client is one client of the ring, with retries off. Do returns an error when
// no answer came; an error that wraps ErrRefused means that etcd surely didn't
// apply the request, any other that its outcome is unknown.
type Client interface {
	// Endpoint names the machine that the client talks to now.
	Endpoint() string
	Do(context.Context, Request) (Response, error)
	// Watch calls see for each event until ctx ends (nil) or the stream breaks.
	Watch(ctx context.Context, prefix string, start int64, see func(WatchEvent)) error
	Close() error
}
