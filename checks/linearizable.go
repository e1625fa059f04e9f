// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// linearizable rests on a witness instead of a search. Each answer carries the
// revision at which it holds, so the order of the revisions is the only order
// that the answered operations could have had: replaying it either shows that
// every answer is right, or which one is not. Only writes without an answer
// leave a choice; where they could explain what the replay can't, porcupine
// searches that part, and nothing but that part.
var linearizable = Check{
	Name:   "linearizable",
	Claim:  "Every answer is one that a single etcd, doing one request at a time between its call and its return, could have given.",
	Source: "etcd's API guarantees: KV requests are strictly serializable; Jepsen's etcd 3.4.3 analysis",
	Params: []Param{
		{"checkTimeout", "60s", "how long porcupine may search, when the order of revisions doesn't decide"},
		{"checkOps", "2000", "how many operations porcupine is given at most"},
	},
	Judge: func(h *ringproof.History, params Values) ringproof.Finding {
		if h.Acked() == 0 {
			return unknown("no operation was acknowledged: nothing to judge")
		}
		if f, bad := readsDiscarded(h); bad {
			return f
		}
		t := rebuild(h)
		t.judgeReads()
		return t.verdict(params)
	},
}

// verdict weighs the wrongs: one that no unanswered write explains is final.
func (t *timeline) verdict(params Values) ringproof.Finding {
	if len(t.wrongs) == 0 {
		return pass("%d operations: every answer agrees with the order of revisions (%d writes; %d unanswered writes had no effect, %d can't be told)",
			t.asked(), len(t.writes), t.dropped, len(t.unresolved))
	}
	slices.SortStableFunc(t.wrongs, func(a, b wrong) int { return cmp.Compare(a.revision, b.revision) })
	for _, w := range t.wrongs {
		if !t.ignorant(w.key) {
			return t.failed(w)
		}
	}
	return t.search(params)
}

func (t *timeline) failed(w wrong) ringproof.Finding {
	at, who := ringproof.Forever, ""
	if w.op >= 0 {
		o := &t.h.Operations[w.op]
		at, who = o.Return, fmt.Sprintf("operation %d (client %d, %s): ", o.ID, o.Client, requestText(&o.Request))
	}
	more := ""
	if len(t.wrongs) > 1 {
		more = fmt.Sprintf("; and %d more", len(t.wrongs)-1)
	}
	return with(fail(at, "%s%s%s", who, w.message, more), t.lines(w)...)
}

// lines shows the operations of a wrong, and who wrote around its revision.
func (t *timeline) lines(w wrong) []string {
	shown := map[int]bool{-1: true}
	var lines []string
	show := func(op int) {
		if !shown[op] {
			shown[op] = true
			lines = append(lines, operationText(&t.h.Operations[op]))
		}
	}
	show(w.op)
	show(w.other)
	if owner, ok := t.owner[w.revision]; ok {
		show(owner)
	}
	return lines
}

// judgeReads compares every read with the state at the revision of its answer.
// A serializable read may be of an old revision, and says which; what it holds
// must still be true of that one.
func (t *timeline) judgeReads() {
	for i := range t.h.Operations {
		o := &t.h.Operations[i]
		if o.Response != nil && o.Request.General() {
			t.judgeTxn(i, o)
			continue
		}
		if o.Response == nil || tookEffect(o) {
			continue
		}
		switch o.Request.Kind {
		case ringproof.RequestRange, ringproof.RequestGet:
			t.judgeRead(view{op: i, before: o.Response.Revision, after: o.Response.Revision}, &o.Request, o.Response)
		case ringproof.RequestTxn:
			t.judgeElse(i, o)
		case ringproof.RequestDelete:
			key := t.keys[o.Request.Key]
			if was := t.at(key, o.Response.Revision); was != nil {
				t.wrong(i, was.op, key, o.Response.Revision, "expected to delete %s, which was %s; saw nothing deleted at revision %d",
					o.Request.Key, was, o.Response.Revision)
			}
		}
	}
}

// readAt returns the revision whose state the read asks for.
func readAt(o *ringproof.Operation) int64 {
	if o.Request.Revision > 0 {
		return o.Request.Revision
	}
	return o.Response.Revision
}

func (t *timeline) judgeRead(v view, r *ringproof.Request, answer *ringproof.Response) {
	if r.Revision > v.after {
		t.wrong(v.op, -1, -1, v.after, "expected a read of the future (revision %d) to be refused, saw it answered at revision %d", r.Revision, v.after)
	}
	if r.Revision > 0 {
		v.before, v.after = r.Revision, r.Revision
	}
	if r.Kind == ringproof.RequestGet {
		if answer.More {
			t.wrong(v.op, -1, -1, v.after, "expected all of a read of one key, saw that there are more")
		}
		t.compareGet(v, r.Key, answer.KVs)
		return
	}
	t.compareRange(v, r, answer)
}

func (t *timeline) judgeElse(i int, o *ringproof.Operation) {
	key := t.keys[o.Request.Key]
	revision := o.Response.Revision
	if was := t.at(key, revision); mod(was) == o.Request.Compare {
		t.wrong(i, opOf(was), key, revision, "expected its comparison to hold at revision %d: %s was %s", revision, o.Request.Key, was)
		return
	}
	t.compareGet(view{op: i, before: revision, after: revision}, o.Request.Key, o.Response.KVs)
}

func (t *timeline) compareGet(v view, name string, kvs []ringproof.KV) {
	key, revision := t.keys[name], v.of(name)
	was := t.at(key, revision)
	switch {
	case was == nil && len(kvs) == 0:
	case was != nil && len(kvs) == 1 && kvs[0].Key == name && was.equal(&kvs[0]):
	default:
		t.wrong(v.op, opOf(was), t.blame(key, kvs), revision, "expected %s at revision %d to be %s, saw %s", name, revision, was, kvsText(kvs))
	}
}

// blame returns the key, as long as an unanswered write may explain the answer;
// it can't when the answer holds what nobody wrote there: each value read was
// traced to its write, so its revision has an owner, who wrote that very value.
func (t *timeline) blame(key int, kvs []ringproof.KV) int {
	for i := range kvs {
		owner, ok := t.owner[kvs[i].ModRevision]
		if !ok {
			return -1
		}
		if !does(&t.h.Operations[owner].Request, &ringproof.WatchEvent{KV: kvs[i]}) {
			return -1
		}
	}
	return key
}

// compareRange walks the keys asked for and the keys answered, both sorted.
// Foreign keys are left alone: no client knows what they should be. A page that
// is full tells of no key after its last, but whether there are more.
func (t *timeline) compareRange(v view, r *ringproof.Request, answer *ringproof.Response) {
	kvs := answer.KVs
	full := r.Limit > 0 && int64(len(kvs)) >= r.Limit
	more := -1 // a key beyond the page
	for _, key := range t.under(r.Key) {
		name := t.names[key]
		if name < r.From {
			continue
		}
		for len(kvs) > 0 && kvs[0].Key < name {
			t.surplus(v.op, &kvs[0], v.after)
			kvs = kvs[1:]
		}
		revision := v.of(name)
		was := t.at(key, revision)
		held := len(kvs) > 0 && kvs[0].Key == name
		if full && len(kvs) == 0 {
			if was != nil && more < 0 {
				more = key
			}
			continue
		}
		if held != (was != nil) || (held && !was.equal(&kvs[0])) {
			saw := kvs[:btoi(held)]
			t.wrong(v.op, opOf(was), t.blame(key, saw), revision, "expected %s at revision %d to be %s, saw %s", name, revision, was, kvsText(saw))
		}
		kvs = kvs[btoi(held):]
	}
	for k := range kvs {
		t.surplus(v.op, &kvs[k], v.after)
	}
	t.judgePage(v, r, answer, more)
}

// judgePage judges what the answer says of what is beyond it.
func (t *timeline) judgePage(v view, r *ringproof.Request, answer *ringproof.Response, more int) {
	switch {
	case r.Limit > 0 && int64(len(answer.KVs)) > r.Limit:
		t.wrong(v.op, -1, -1, v.after, "expected at most %d keys, saw %d", r.Limit, len(answer.KVs))
	case answer.More == (more >= 0) || !strings.HasPrefix(r.Key, workloadPrefix):
	case answer.More:
		key := slices.IndexFunc(t.names, func(name string) bool {
			return strings.HasPrefix(name, r.Key) && t.ignorant(t.keys[name])
		})
		t.wrong(v.op, -1, key, v.after, "expected no key beyond the %d that it answered, saw that there are more", len(answer.KVs))
	default:
		t.wrong(v.op, opOf(t.at(more, v.of(t.names[more]))), more, v.after, "expected it to tell of %s beyond its %d keys", t.names[more], len(answer.KVs))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// surplus is a key in an answer that no client ever wrote or asked for.
func (t *timeline) surplus(i int, kv *ringproof.KV, revision int64) {
	if t.workload(kv.Key) {
		t.wrong(i, -1, -1, revision, "expected only keys that clients wrote, once and in order; saw %s at revision %d", kv.String(), revision)
	}
}

func kvsText(kvs []ringproof.KV) string {
	var texts []string
	for _, kv := range kvs {
		texts = append(texts, kv.String())
	}
	return cmp.Or(strings.Join(texts, ", "), "absent")
}
