// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"context"
	"fmt"
	"html"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/ringproof/ringproof"
)

// unseen marks a revision that no client was ever told.
const unseen = -1

// attempt is an operation as porcupine gets it.
type attempt struct {
	op       *ringproof.Operation
	keys     []int // of the model, that it writes or asks for
	revision int64 // at which it took effect, or answered; 0: anywhere, or never
	effect   bool  // it changed the keyspace at revision
	floor    int64 // of one that took effect anywhere: a revision that there was before it was called
	split    bool  // it is one request of a transaction
}

// cell is one key; mod 0 means absent.
type cell struct {
	value                string
	create, mod, version int64
}

// store is etcd doing one request at a time, for a few keys. Revisions that
// belong to keys outside the model are gaps.
type store struct {
	revision int64
	cells    []cell
}

// etcdModel describes etcd to porcupine. A write without an answer needs no
// fork into done and not done: placed after all else it has no effect that
// anyone was told of, so a deterministic model is enough.
type etcdModel struct {
	names  []string
	start  store
	from   []int64 // by key: the revision at which start is its state
	taken  []span  // revisions that an unanswered write can't have
	budget int     // states to visit at most; porcupine remembers each
	spent  bool    // the budget was used up: its result means nothing
}

func (m *etcdModel) porcupine() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return m.start },
		StepContext: func(_ context.Context, state, input, _ any) (bool, any) {
			if m.budget <= 0 {
				m.spent = true
				return false, state
			}
			ok, after := m.step(state.(store), input.(attempt))
			if ok {
				m.budget--
			}
			return ok, after
		},
		Equal: func(a, b any) bool {
			x, y := a.(store), b.(store)
			return x.revision == y.revision && slices.Equal(x.cells, y.cells)
		},
		Hash:              func(state any) uint64 { return state.(store).hash() },
		DescribeOperation: func(input, _ any) string { return exchangeText(&input.(attempt).op.Request, input.(attempt).op) },
		DescribeState:     func(state any) string { return m.describe(state.(store)) },
	}
}

func (s store) hash() uint64 {
	h := uint64(s.revision)
	for _, c := range s.cells {
		h = (h^uint64(c.mod))*1099511628211 ^ uint64(c.version)<<32
	}
	return h
}

func (m *etcdModel) describe(s store) string {
	var b strings.Builder
	fmt.Fprintf(&b, "revision %d", s.revision)
	for i, c := range s.cells {
		if c.mod != 0 {
			fmt.Fprintf(&b, "<br>%s=%s@%d", html.EscapeString(m.names[i]), html.EscapeString(c.value), c.mod)
		}
	}
	return b.String()
}

func (m *etcdModel) step(s store, a attempt) (bool, store) {
	switch {
	case a.revision == 0:
		return true, m.guess(s, a)
	case a.effect:
		return m.write(s, a)
	default:
		return m.read(s, a)
	}
}

// guess does a write without an answer, at the next revision that is free, after the one at
// which its key is known, and after all that were told before it was called, of whatever keys:
// of a deletion called once a put of another key had been answered at revision 19 nothing can
// have shown at 18.
func (m *etcdModel) guess(s store, a attempt) store {
	r, key := &a.op.Request, a.keys[0]
	was, at := s.cells[key], max(s.revision, m.from[key], a.floor)
	if !a.split { // the parts of a transaction share a revision, so that none needs one of its own
		at = m.free(at)
	}
	switch r.Kind {
	case ringproof.RequestDelete:
		if was.mod == 0 {
			return s
		}
		return s.put(at, key, cell{})
	case ringproof.RequestTxn:
		if !m.holds(was, r.Compare) {
			return s
		}
	}
	after := cell{value: r.Value, create: was.create, mod: unseen, version: was.version + 1}
	if was.mod == 0 {
		after.create = unseen
	}
	return s.put(at, key, after)
}

func (m *etcdModel) write(s store, a attempt) (bool, store) {
	r, key := &a.op.Request, a.keys[0]
	was := s.cells[key]
	switch {
	case a.revision < s.revision, a.revision == s.revision && !a.split,
		r.Kind == ringproof.RequestTxn && !m.holds(was, r.Compare),
		r.Kind == ringproof.RequestDelete && was.mod == 0:
		return false, s
	case r.Kind == ringproof.RequestDelete:
		return true, s.put(a.revision, key, cell{})
	}
	after := cell{value: r.Value, create: was.create, mod: a.revision, version: was.version + 1}
	if was.mod == 0 {
		after.create = a.revision
	}
	return true, s.put(a.revision, key, after)
}

// holds reports whether a comparison can hold: a guessed write may have had any
// revision that is nobody's.
func (m *etcdModel) holds(c cell, compare int64) bool {
	return c.mod == compare || c.mod == unseen && compare > 1 && m.free(compare-1) == compare
}

func (m *etcdModel) read(s store, a attempt) (bool, store) {
	o := a.op
	if a.revision < s.revision || !m.answers(s, o, a.keys) {
		return false, s
	}
	return true, store{a.revision, s.cells}
}

func (m *etcdModel) answers(s store, o *ringproof.Operation, keys []int) bool {
	switch o.Request.Kind {
	case ringproof.RequestDelete:
		return s.cells[keys[0]].mod == 0
	case ringproof.RequestTxn:
		if s.cells[keys[0]].mod == o.Request.Compare {
			return false
		}
	}
	return !slices.ContainsFunc(keys, func(key int) bool {
		return !s.cells[key].shows(m.names[key], o.Response.KVs)
	})
}

func (c cell) shows(name string, kvs []ringproof.KV) bool {
	n := slices.IndexFunc(kvs, func(kv ringproof.KV) bool { return kv.Key == name })
	if n < 0 || c.mod == 0 {
		return n < 0 && c.mod == 0
	}
	kv := kvs[n]
	return kv.Value == c.value && kv.Version == c.version &&
		(c.mod == unseen || kv.ModRevision == c.mod) && (c.create == unseen || kv.CreateRevision == c.create)
}

func (s store) put(revision int64, key int, c cell) store {
	cells := slices.Clone(s.cells)
	cells[key] = c
	return store{revision, cells}
}

// free returns the first revision after r that no answer and no watch gives to
// another write.
func (m *etcdModel) free(r int64) int64 {
	n := sort.Search(len(m.taken), func(i int) bool { return m.taken[i].to > r })
	if n == len(m.taken) || m.taken[n].from > r+1 {
		return r + 1
	}
	return m.taken[n].to + 1
}

// taken returns the revisions that have an owner, as spans.
func (t *timeline) taken() []span {
	all := slices.Clone(t.foreign)
	for _, w := range t.writes {
		all = append(all, w.revision)
	}
	slices.Sort(all)
	var spans []span
	for _, r := range all {
		if n := len(spans); n > 0 && r <= spans[n-1].to+1 {
			spans[n-1].to = r
			continue
		}
		spans = append(spans, span{r, r})
	}
	return spans
}

// operations makes porcupine's history of the attempts.
func operations(attempts []attempt) []porcupine.Operation {
	made := make([]porcupine.Operation, len(attempts))
	for i, a := range attempts {
		o := a.op
		made[i] = porcupine.Operation{ClientId: o.Client, Input: a, Call: int64(o.Call), Return: int64(o.Return), Output: o.Response}
		if o.Response == nil {
			made[i].Return = math.MaxInt64
		} else if o.Request.Serializable || o.Request.Revision > 0 {
			made[i].Call = 0 // it is of the past, and may be placed there
		}
	}
	return made
}
