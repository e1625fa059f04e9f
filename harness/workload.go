// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
)

// Prefix is where the workload's keys are. Every other key is the subject's.
const Prefix = client.Prefix

const (
	patience = time.Second // of one request

	upkeepPatience = 5 * time.Second // of one about a member: a backup is read to its end

	rotation = 5 * time.Second // of one watch stream: then the watcher goes on elsewhere
	watchers = 2
)

// draw is keyed randomness: the same for the same seed, stream, actor and
// ordinal, whatever else happened. Taking one fault out of a plan leaves every
// other draw as it was.
func draw(seed uint64, stream string, actor, n int) uint64 {
	h := fnv.New64a()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[0:], seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(actor))
	binary.LittleEndian.PutUint64(b[16:], uint64(n))
	h.Write(b[:])
	h.Write([]byte(stream))
	x := h.Sum64()
	// FNV leaves the low bits of similar inputs similar: stir (splitmix64).
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// drive is one client until ctx ends.
func (r *runner) drive(ctx context.Context, id int) {
	w := r.plan.Workload
	period := time.Duration(float64(time.Second) * float64(w.Clients) / w.Rate)
	seat := id
	c := r.seat(ctx, seat)
	known := map[string]int64{} // mod revisions, as this client saw them last
	for n := 0; ctx.Err() == nil; n++ {
		began := r.world.Now()
		if c == nil || !r.attempt(ctx, c, id, r.request(id, n, known), known) {
			if c != nil {
				c.Close()
			}
			seat++
			c = r.seat(ctx, seat)
		}
		jitter := time.Duration(draw(r.plan.Seed, "pace", id, n) % uint64(period/2+1))
		pause := period*3/4 + jitter - r.world.Now().Sub(began)
		if r.world.Sleep(ctx, max(pause, time.Millisecond)) != nil {
			break
		}
	}
	if c != nil {
		c.Close()
	}
}

// seat opens a client on the machine whose turn it is.
func (r *runner) seat(ctx context.Context, seat int) ringproof.Client {
	c, err := r.world.Client(ctx, seat)
	if err != nil {
		return nil
	}
	return c
}

// request draws the nth request of a client.
func (r *runner) request(id, n int, known map[string]int64) ringproof.Request {
	w := r.plan.Workload
	seed := r.plan.Seed
	key := Prefix + "k" + strconv.FormatUint(draw(seed, "key", id, n)%uint64(w.Keys), 10)
	value := valueOf(id, n)
	kind := draw(seed, "kind", id, n) % 100
	if w.Profile == "kv" && kind >= 45 {
		kind = 45 + kind%25
	}
	switch {
	case kind < 45:
		return ringproof.Request{Kind: ringproof.RequestPut, Key: key, Value: value}
	case kind < 65:
		return ringproof.Request{Kind: ringproof.RequestGet, Key: key}
	case kind < 70:
		return ringproof.Request{Kind: ringproof.RequestDelete, Key: key}
	case kind < 75:
		return ringproof.Request{Kind: ringproof.RequestRange, Key: Prefix}
	case kind < 80:
		return ringproof.Request{Kind: ringproof.RequestGet, Key: key, Serializable: true}
	default:
		return ringproof.Request{Kind: ringproof.RequestTxn, Key: key, Value: value, Compare: known[key]}
	}
}

// valueOf is the nth value of a client, which nobody else writes.
func valueOf(id, n int) string { return "c" + strconv.Itoa(id) + "-" + strconv.Itoa(n) }

// attempt makes one request and records it. It reports whether the endpoint
// answered.
func (r *runner) attempt(ctx context.Context, c ringproof.Client, id int, q ringproof.Request, known map[string]int64) bool {
	response, ok := r.ask(ctx, c, id, q)
	if ok {
		learnRevisions(known, q, response)
	}
	return ok
}

// ask is attempt for who wants the answer.
func (r *runner) ask(ctx context.Context, c ringproof.Client, id int, q ringproof.Request) (ringproof.Response, bool) {
	response, err := r.try(ctx, c, id, q)
	return response, err == nil
}

// try is ask for who wants to know why there is none.
func (r *runner) try(ctx context.Context, c ringproof.Client, id int, q ringproof.Request) (ringproof.Response, error) {
	within := patience
	if q.Kind.Operates() {
		within = upkeepPatience
	}
	o := ringproof.Operation{ID: r.number(), Client: id, Endpoint: c.Endpoint(), Call: r.world.Now(), Request: q}
	asking, cancel := r.world.Timeout(ctx, within)
	response, err := c.Do(asking, q)
	cancel()
	o.Return = r.world.Now()
	if err != nil {
		o.Err, o.Refused = err.Error(), errors.Is(err, ringproof.ErrRefused)
	} else {
		o.Response = &response
	}
	r.record.operation(o)
	return response, err
}

// learnRevisions keeps what a client may compare with in its next transaction.
func learnRevisions(known map[string]int64, q ringproof.Request, response ringproof.Response) {
	switch {
	case q.Kind == ringproof.RequestPut, q.Kind == ringproof.RequestTxn && response.Succeeded:
		known[q.Key] = response.Revision
	case q.Kind == ringproof.RequestDelete, q.Kind == ringproof.RequestGet && len(response.KVs) == 0:
		known[q.Key] = 0
	}
	for _, kv := range response.KVs {
		known[kv.Key] = kv.ModRevision
	}
}

// watcher follows the whole keyspace from its first revision, on one machine
// after another, so that together its streams hold every change there was.
func (r *runner) watcher(ctx context.Context, id int) {
	next := int64(1)
	for seat := id; ctx.Err() == nil; seat++ {
		c := r.seat(ctx, seat)
		if c == nil {
			if r.world.Sleep(ctx, look) != nil {
				return
			}
			continue
		}
		next = r.attend(ctx, c, id, next)
		c.Close()
		if r.world.Sleep(ctx, poll) != nil {
			return
		}
	}
}

// follow records one stream of the whole keyspace and returns where the next
// one begins.
func (r *runner) follow(ctx context.Context, c ringproof.Client, id int, start int64, length time.Duration) int64 {
	return r.stream(ctx, c, ringproof.Watch{Client: id, Start: start}, length)
}

// sheet returns an empty list to write down what a stream shows: one that has
// grown already, if another stream has left it.
func (r *runner) sheet() (empty []ringproof.WatchEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := len(r.sheets) - 1; last >= 0 {
		empty, r.sheets = r.sheets[last], r.sheets[:last]
	}
	return empty
}

func (r *runner) reuse(sheet []ringproof.WatchEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sheets = append(r.sheets, sheet[:0])
}

// stream records the stream w of the client.
func (r *runner) stream(ctx context.Context, c ringproof.Client, w ringproof.Watch, length time.Duration) int64 {
	w.Endpoint, w.Opened = c.Endpoint(), r.world.Now()
	next, seen := w.Start, r.sheet()
	streaming, cancel := r.world.Timeout(ctx, length)
	err := c.Watch(streaming, w.Prefix, w.Start, func(e ringproof.WatchEvent) {
		e.At = r.world.Now()
		seen = append(seen, e)
		next = max(next, e.Revision+1)
		r.saw(w.Client, e.Revision)
	})
	broke := err != nil && streaming.Err() == nil
	cancel()
	w.Closed, w.Events = r.world.Now(), append(w.Events, seen...)
	r.reuse(seen)
	var compacted client.Compacted
	switch {
	case errors.As(err, &compacted):
		w.Compact, w.Err = compacted.Revision, err.Error()
		next = max(next, compacted.Revision)
	case broke:
		w.Err = err.Error()
	}
	r.record.watch(w)
	return next
}
