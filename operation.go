// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import "context"

// RequestKind is what a client asks of etcd.
type RequestKind string

// The requests. Retries are off: one request is one attempt.
const (
	RequestGet     RequestKind = "get"   // one key, linearizable unless Serializable
	RequestRange   RequestKind = "range" // all keys with prefix Key
	RequestPut     RequestKind = "put"
	RequestDelete  RequestKind = "delete"
	RequestTxn     RequestKind = "txn"     // if Key's mod revision equals Compare then put Value else get
	RequestCompact RequestKind = "compact" // discard history before Revision
)

// Request is one client request. Values written are unique in a run, so a
// value read names the write that made it.
type Request struct {
	Kind         RequestKind `json:"kind"`
	Key          string      `json:"key,omitempty"`
	Value        string      `json:"value,omitempty"`
	Compare      int64       `json:"compare,omitempty"`      // txn: expected mod revision; 0: the key is absent
	Revision     int64       `json:"revision,omitempty"`     // get, range: read at this revision; compact: up to it
	Serializable bool        `json:"serializable,omitempty"` // answered by the member alone, may be stale
}

// Writes tells whether the request may change the keyspace.
func (r Request) Writes() bool {
	return r.Kind == RequestPut || r.Kind == RequestDelete || r.Kind == RequestTxn
}

// KV is a key with its value and revisions, as etcd returns it.
type KV struct {
	Key            string `json:"key"`
	Value          string `json:"value"`
	CreateRevision int64  `json:"create"`
	ModRevision    int64  `json:"mod"`
	Version        int64  `json:"version"`
}

// Response is etcd's answer.
type Response struct {
	ClusterID uint64   `json:"cluster,omitempty"`
	Member    MemberID `json:"member,omitempty"` // who answered
	Term      uint64   `json:"term,omitempty"`
	Revision  int64    `json:"revision"`            // the header's
	KVs       []KV     `json:"kvs,omitempty"`       // get, range, and a txn's else branch; sorted by key
	Deleted   int64    `json:"deleted,omitempty"`   // delete: how many
	Succeeded bool     `json:"succeeded,omitempty"` // txn: the comparison held
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

// Acked tells whether the client holds an answer.
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
