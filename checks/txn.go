// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"slices"

	"github.com/ringproof/ringproof"
)

// act is one request that a transaction carried out; its answer is nil if none
// came.
type act struct {
	request *ringproof.Request
	answer  *ringproof.Response
}

// changes reports whether the act changed its key.
func (a act) changes() bool {
	switch a.request.Kind {
	case ringproof.RequestPut:
		return true
	case ringproof.RequestDelete:
		return a.answer == nil || a.answer.Deleted > 0
	}
	return false
}

// acts lists what the transaction carried out, those nested in it too. Which
// branch it took its answer says; without one, whether its comparisons held.
func acts(r *ringproof.Request, answer *ringproof.Response, holds func(*ringproof.Request) bool) []act {
	branch := r.Else
	if answer != nil && answer.Succeeded || answer == nil && holds(r) {
		branch = r.Then
	}
	var all []act
	for n := range branch {
		var each *ringproof.Response
		if answer != nil {
			if n >= len(answer.Results) {
				break
			}
			each = &answer.Results[n]
		}
		if branch[n].Kind == ringproof.RequestTxn {
			all = append(all, acts(&branch[n], each, holds)...)
			continue
		}
		all = append(all, act{&branch[n], each})
	}
	return all
}

// told lists the acts of a transaction with an answer.
func told(o *ringproof.Operation) []act { return acts(&o.Request, o.Response, nil) }

// parts calls visit for the request, or if it has branches for each request in
// them, taken or not.
func parts(r *ringproof.Request, visit func(*ringproof.Request)) {
	if !r.General() {
		visit(r)
		return
	}
	for i := range r.Then {
		parts(&r.Then[i], visit)
	}
	for i := range r.Else {
		parts(&r.Else[i], visit)
	}
}

// asksTo reports whether the request, or one in it, writes what keep accepts.
func asksTo(r *ringproof.Request, keep func(*ringproof.Request) bool) bool {
	found := false
	parts(r, func(each *ringproof.Request) { found = found || each.Writes() && keep(each) })
	return found
}

func writesTo(r *ringproof.Request, key string) bool {
	return asksTo(r, func(each *ringproof.Request) bool { return each.Key == key })
}

func does(r *ringproof.Request, e *ringproof.WatchEvent) bool {
	return asksTo(r, func(each *ringproof.Request) bool {
		return each.Key == e.KV.Key && e.Delete == (each.Kind == ringproof.RequestDelete) && (e.Delete || each.Value == e.KV.Value && each.Lease == e.KV.Lease)
	})
}

// holds reports whether the comparison is true of the key as it was.
func holds(c *ringproof.Comparison, was *change) bool {
	difference := 0
	switch c.Target {
	case "mod":
		difference = cmp.Compare(mod(was), c.Number)
	case "create":
		difference = cmp.Compare(was.created(), c.Number)
	case "version":
		difference = cmp.Compare(was.versions(), c.Number)
	case "lease":
		difference = cmp.Compare(was.tenancy(), c.Number)
	case "value":
		if was == nil {
			return false
		}
		difference = cmp.Compare(was.value, c.Value)
	}
	switch c.Is {
	case "=":
		return difference == 0
	case "!=":
		return difference != 0
	case "<":
		return difference < 0
	}
	return difference > 0
}

func (c *change) created() int64 {
	if c == nil {
		return 0
	}
	return c.create
}

func (c *change) versions() int64 {
	if c == nil {
		return 0
	}
	return c.version
}

// replayTxn applies a transaction. Its branch is chosen by the state before it,
// for the nested ones too: etcd compares before it does anything.
func (t *timeline) replayTxn(w write) {
	o := &t.h.Operations[w.op]
	_, adopted := t.done[w.revision]
	untold := o.Response == nil && !adopted && t.undecided(&o.Request)
	if untold {
		t.branches = append(t.branches, w.op)
	}
	if !adopted {
		t.done[w.revision] = acts(&o.Request, o.Response, func(r *ringproof.Request) bool {
			return !slices.ContainsFunc(r.If, func(c ringproof.Comparison) bool { return !holds(&c, t.newest(t.keys[c.Key])) })
		})
	}
	changed := false
	for _, a := range t.done[w.revision] {
		key := t.keys[a.request.Key]
		before := t.newest(key)
		if !a.changes() || a.request.Kind == ringproof.RequestDelete && before == nil && a.answer == nil {
			continue
		}
		changed = true
		if a.request.Kind == ringproof.RequestDelete && before == nil {
			t.wrong(w.op, -1, key, w.revision, "expected nothing to delete at revision %d: %s was absent", w.revision, a.request.Key)
		}
		t.changes[key] = append(t.changes[key], next(before, w, a.request))
	}
	if o.Response == nil && !adopted && !untold {
		t.judgeUntold(w, changed)
	}
}

// undecided reports whether the transaction, or one in it, compares a key that
// nobody knows: of what it did, only what was seen is known.
func (t *timeline) undecided(r *ringproof.Request) bool {
	return slices.ContainsFunc(r.If, func(c ringproof.Comparison) bool { return t.ignorant(t.keys[c.Key]) }) ||
		slices.ContainsFunc(slices.Concat(r.Then, r.Else), func(each ringproof.Request) bool { return each.General() && t.undecided(&each) })
}

// judgeUntold judges whether a transaction without an answer could do at its
// revision what somebody saw of it.
func (t *timeline) judgeUntold(w write, changed bool) {
	shown, ok := t.shown[w.op]
	if changed && (!ok || slices.ContainsFunc(t.done[w.revision], func(a act) bool { return a.request.Value == shown })) {
		return
	}
	r := &t.h.Operations[w.op].Request
	t.wrong(w.op, -1, t.keys[firstKey(r)], w.revision,
		"expected no effect at revision %d, where its comparisons lead to its other branch; its value %q was seen", w.revision, shown)
}

// firstKey is the key that a transaction is about, for whoever needs one.
func firstKey(r *ringproof.Request) string {
	if len(r.If) > 0 {
		return r.If[0].Key
	}
	key := ""
	parts(r, func(each *ringproof.Request) {
		if key == "" {
			key = each.Key
		}
	})
	return key
}

// judgeTxn compares a transaction's answer with the state before it, and what
// it read of its own writes with the state after.
func (t *timeline) judgeTxn(i int, o *ringproof.Operation) {
	v := view{op: i, after: o.Response.Revision, before: o.Response.Revision}
	if tookEffect(o) {
		v.before--
	}
	if !t.judgeBranch(v, &o.Request, o.Response) {
		return
	}
	for _, a := range told(o) {
		if a.request.Kind == ringproof.RequestDelete {
			t.judgeDeleted(v, a)
		}
		if a.request.Kind == ringproof.RequestGet || a.request.Kind == ringproof.RequestRange {
			t.judgeRead(v, a.request, a.answer)
		}
		if a.changes() {
			v.written = append(v.written, a.request.Key)
		}
	}
}

// judgeBranch judges whether the transaction took the branch that its
// comparisons lead to, and reports whether what it answers is of that branch.
func (t *timeline) judgeBranch(v view, r *ringproof.Request, answer *ringproof.Response) bool {
	branch := r.Else
	if answer.Succeeded {
		branch = r.Then
	}
	t.judgeComparisons(v, r, answer.Succeeded)
	if len(answer.Results) != len(branch) {
		t.wrong(v.op, -1, -1, v.after, "expected %d results, one for each request of the branch it took; saw %d", len(branch), len(answer.Results))
		return false
	}
	for n := range branch {
		if branch[n].Kind == ringproof.RequestTxn && !t.judgeBranch(v, &branch[n], &answer.Results[n]) {
			return false
		}
	}
	return true
}

func (t *timeline) judgeComparisons(v view, r *ringproof.Request, succeeded bool) {
	n := slices.IndexFunc(r.If, func(c ringproof.Comparison) bool { return !holds(&c, t.at(t.keys[c.Key], v.before)) })
	if succeeded == (n < 0) {
		return
	}
	if succeeded {
		c := r.If[n]
		was := t.at(t.keys[c.Key], v.before)
		t.wrong(v.op, opOf(was), t.keys[c.Key], v.after, "expected its comparison %s to fail at revision %d: %s was %s", c.String(), v.before, c.Key, was)
		return
	}
	key := -1 // without a comparison nothing can have failed
	for _, c := range r.If {
		if key < 0 || t.ignorant(t.keys[c.Key]) {
			key = t.keys[c.Key]
		}
	}
	t.wrong(v.op, -1, key, v.after, "expected its %d comparisons to hold at revision %d", len(r.If), v.before)
}

func (t *timeline) judgeDeleted(v view, a act) {
	key := t.keys[a.request.Key]
	switch was := t.at(key, v.of(a.request.Key)); {
	case a.answer.Deleted > 1:
		t.wrong(v.op, -1, -1, v.after, "expected one key deleted, saw %d", a.answer.Deleted)
	case was != nil && a.answer.Deleted == 0:
		t.wrong(v.op, was.op, key, v.after, "expected to delete %s, which was %s; saw nothing deleted at revision %d", a.request.Key, was, v.after)
	}
}

// view is where in the order of revisions an operation read: a transaction sees
// the state before it, and of its own writes those that it has made.
type view struct {
	op            int
	before, after int64
	written       []string
}

func (v view) of(key string) int64 {
	if v.before != v.after && slices.Contains(v.written, key) {
		return v.after
	}
	return v.before
}

// made calls visit for each request that the write changed a key by.
func (t *timeline) made(w write, visit func(*ringproof.Request)) {
	r := &t.h.Operations[w.op].Request
	if !r.General() {
		visit(r)
		return
	}
	for _, a := range t.done[w.revision] {
		if a.request.Writes() && t.changedAt(t.keys[a.request.Key], w.revision) {
			visit(a.request)
		}
	}
}

// changedAt reports whether the key has a change of that very revision.
func (t *timeline) changedAt(key int, revision int64) bool {
	_, found := slices.BinarySearchFunc(t.changes[key], revision, func(c change, r int64) int { return cmp.Compare(c.revision, r) })
	return found
}
