// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/ringproof/ringproof"
)

// mostStates bounds what porcupine remembers: each state it visits stays in
// its cache with a bit an operation. A history of etcd's own robustness tests
// was seen to take 40 GB (etcd#21928); this many states take some 250 MB.
const mostStates = 500_000

// segment is the part of one key's history that the order of revisions leaves
// open: after the last agreed read before the first wrong, up to the first
// agreed read after the last. Agreed reads fix the key at their revision, so
// what lies outside is decided already.
type segment struct {
	key      int
	from, to int64 // from is excluded
	start    cell  // the key at from
}

// search asks porcupine whether the unanswered writes can explain all wrongs.
// It sees only the keys with wrongs, each in its segment: a history that is
// linearizable stays so when keys are left out.
func (t *timeline) search(params Values) ringproof.Finding {
	segments := t.segments()
	attempts := t.attempts(segments)
	asked := len(attempts)
	attempts, cut := firstOf(attempts, params.Int("checkOps"))
	first := t.wrongs[0]
	if cut < first.revision {
		return with(unknown("the order of revisions leaves %d operations open, more than checkOps=%s", asked, params["checkOps"]), t.lines(first)...)
	}
	m := t.model(segments)
	result := porcupine.CheckOperationsTimeout(m.porcupine(), operations(attempts), params.Duration("checkTimeout"))
	switch {
	case m.spent || result == porcupine.Unknown:
		return with(unknown("porcupine came to no end over %d operations within %s and %d states; the first that the order of revisions doesn't explain: %s",
			len(attempts), params["checkTimeout"], mostStates, first.message), t.lines(first)...)
	case result == porcupine.Illegal && slices.ContainsFunc(segments, func(s segment) bool { return t.confused[s.key] }):
		return with(unknown("porcupine finds no order of %d operations, but which of several deletes without an answer was done when nothing tells; the first that the order of revisions doesn't explain: %s",
			len(attempts), first.message), t.lines(first)...)
	case result == porcupine.Illegal:
		f := t.failed(first)
		f.Message += fmt.Sprintf("; porcupine finds no order of these %d operations, whichever of the unanswered took effect", len(attempts))
		return f
	case len(attempts) < asked:
		return with(unknown("porcupine finds an order for the first %d of %d operations in doubt; raise checkOps to judge all", len(attempts), asked), t.lines(first)...)
	}
	if slices.ContainsFunc(attempts, func(a attempt) bool { return a.split }) || slices.ContainsFunc(t.wrongs, t.branched) {
		return with(unknown("porcupine finds an order for the %d operations in doubt, each key of a transaction taken by itself; the first that the order of revisions doesn't explain: %s",
			asked, first.message), t.lines(first)...)
	}
	return pass("%s: the order of revisions decides all but %d, for which porcupine finds an order", ringproof.Counted(t.asked(), "operation"), asked)
}

// firstOf keeps the n attempts of the lowest revisions, and every write without
// an answer. Later ones can't bear on whether these have an order.
func firstOf(attempts []attempt, n int) ([]attempt, int64) {
	if len(attempts) <= n {
		return attempts, math.MaxInt64
	}
	if n <= 0 {
		return nil, 0
	}
	return attempts[:n], attempts[n-1].revision
}

func (t *timeline) segments() []segment {
	first, last := map[int]int64{}, map[int]int64{}
	for _, w := range t.wrongs {
		if _, ok := first[w.key]; !ok {
			first[w.key] = w.revision
		}
		last[w.key] = max(last[w.key], w.revision)
	}
	disputed := map[int]map[int64]bool{}
	for _, w := range t.wrongs {
		if disputed[w.key] == nil {
			disputed[w.key] = map[int64]bool{}
		}
		disputed[w.key][w.revision] = true
	}
	var segments []segment
	for key, from := range first {
		s := segment{key: key, from: 0, to: math.MaxInt64}
		t.narrow(&s, from, last[key], disputed[key])
		if was := t.at(key, s.from); was != nil {
			s.start = cell{was.value, was.create, was.revision, was.version}
		}
		segments = append(segments, s)
	}
	slices.SortFunc(segments, func(a, b segment) int { return cmp.Compare(a.key, b.key) })
	return segments
}

// narrow moves the ends of s to agreed reads next to the wrongs at first..last.
func (t *timeline) narrow(s *segment, first, last int64, disputed map[int64]bool) {
	for i := range t.h.Operations {
		o := &t.h.Operations[i]
		if o.Response == nil || tookEffect(o) || o.Request.General() || o.Request.Kind == ringproof.RequestCompact || !t.asks(o, s.key) {
			continue
		}
		r := readAt(o)
		switch {
		case disputed[r]:
		case r < first:
			s.from = max(s.from, r)
		case r > last:
			s.to = min(s.to, r)
		}
	}
}

func (t *timeline) asks(o *ringproof.Operation, key int) bool {
	if o.Request.Kind == ringproof.RequestRange {
		return slices.Contains(t.under(o.Request.Key), key)
	}
	return o.Request.Key == t.names[key]
}

// attempts returns what bears on the segments: answered operations by
// revision, after the unanswered writes whose effect nothing tells.
func (t *timeline) attempts(segments []segment) []attempt {
	effects := make(map[int]int64, len(t.writes))
	for _, w := range t.writes {
		effects[w.op] = w.revision
	}
	var made []attempt
	for i := range t.h.Operations {
		o := &t.h.Operations[i]
		if o.Request.Kind == ringproof.RequestCompact || o.Request.Kind.Operates() {
			continue
		}
		if o.Request.General() {
			made = append(made, t.split(i, segments, effects[i])...)
			continue
		}
		a := attempt{op: o, revision: effects[i], effect: effects[i] != 0, floor: t.floor[i]}
		switch {
		case a.effect:
		case o.Response != nil:
			a.revision = readAt(o)
		case !slices.Contains(t.unresolved, i):
			continue
		}
		for n, s := range segments {
			if t.asks(o, s.key) && (a.revision == 0 || a.revision > s.from && a.revision <= s.to) {
				a.keys = append(a.keys, n)
			}
		}
		if len(a.keys) > 0 {
			made = append(made, a)
		}
	}
	slices.SortStableFunc(made, func(a, b attempt) int { return cmp.Compare(a.revision, b.revision) })
	return made
}

// split makes an operation of each read and write of a transaction on a key in
// doubt. That they are one, and what was compared, is left out: an order of them
// proves nothing, but where there is none there is none of the whole either.
func (t *timeline) split(i int, segments []segment, effect int64) []attempt {
	o := &t.h.Operations[i]
	var done []act
	v := view{op: i}
	switch {
	case o.Response != nil:
		done, v.after, v.before = told(o), o.Response.Revision, o.Response.Revision
		if effect != 0 {
			v.before--
		}
	case effect != 0 && !slices.Contains(t.branches, i):
		done, v.after, v.before = t.done[effect], effect, effect-1
	case slices.Contains(t.branches, i) || slices.Contains(t.unresolved, i):
		effect = 0
		parts(&o.Request, func(r *ringproof.Request) { done = append(done, act{request: r}) })
	}
	var made []attempt
	for _, a := range done {
		if effect != 0 && a.request.Writes() && a.changes() {
			v.written = append(v.written, a.request.Key)
		}
		if one, ok := t.single(o, a, v, effect); ok {
			one.floor = t.floor[i]
			made = append(made, within(one, a.request.Key, segments, t.names)...)
		}
	}
	return made
}

// branched reports whether the wrong is about a transaction with branches.
func (t *timeline) branched(w wrong) bool {
	return w.op >= 0 && t.h.Operations[w.op].Request.General()
}

// single is one act as an operation of its own.
func (t *timeline) single(o *ringproof.Operation, a act, v view, effect int64) (attempt, bool) {
	one := attempt{split: true, op: &ringproof.Operation{ID: o.ID, Client: o.Client, Call: o.Call, Return: o.Return, Request: *a.request, Response: a.answer}}
	switch {
	case a.request.Kind == ringproof.RequestRange || a.answer == nil && !a.request.Writes():
		return one, false
	case a.request.Writes() && a.changes():
		one.revision, one.effect = effect, effect != 0
	case a.request.Revision > 0:
		one.revision = a.request.Revision
	default:
		one.revision = v.of(a.request.Key)
	}
	if one.effect && one.op.Response == nil && a.request.Kind == ringproof.RequestDelete && !t.watchedGo(a.request.Key, effect) {
		one.revision, one.effect = 0, false // there may have been nothing to delete
	}
	if one.effect && one.op.Response == nil {
		one.op.Response = &ringproof.Response{Revision: effect, Deleted: 1}
		one.op.Return = ringproof.Forever
	}
	return one, true
}

// watchedGo reports whether a watch saw the key deleted at the revision.
func (t *timeline) watchedGo(key string, revision int64) bool {
	return slices.ContainsFunc(t.h.Watches, func(w ringproof.Watch) bool {
		return slices.ContainsFunc(w.Events, func(e ringproof.WatchEvent) bool {
			return e.Revision == revision && e.Delete && e.KV.Key == key
		})
	})
}

func within(a attempt, key string, segments []segment, names []string) []attempt {
	for n, s := range segments {
		if names[s.key] == key && (a.revision == 0 || a.revision > s.from && a.revision <= s.to) {
			a.keys = append(a.keys, n)
		}
	}
	if len(a.keys) == 0 {
		return nil
	}
	return []attempt{a}
}

func (t *timeline) model(segments []segment) *etcdModel {
	m := &etcdModel{taken: t.taken(), budget: mostStates, start: store{revision: math.MaxInt64}}
	for _, s := range segments {
		m.names = append(m.names, t.names[s.key])
		m.from = append(m.from, s.from)
		m.start.cells = append(m.start.cells, s.start)
		m.start.revision = min(m.start.revision, max(s.from, 1)) // where an empty etcd is
	}
	return m
}
