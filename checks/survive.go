// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ringproof/ringproof"
)

var acknowledgedWritesSurvive = Check{
	Name:   "acknowledged-writes-survive",
	Claim:  "Every write that a client holds an answer to is in the ring at the end, unless a later write took its place.",
	Source: "etcd's durability guarantee; etcd#14370, etcd#14143: acknowledged writes lost with power and with unsynced disks",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if !safely(h.Plan) && h.Evidence.Revision == 0 {
			return judgeSurviving(h)
		}
		if h.Evidence.Revision == 0 {
			return with(unknown("the keyspace was not read at the end: nothing to compare with"), h.Evidence.Unknown...)
		}
		return judgeDump(rebuild(h))
	},
}

func judgeDump(t *timeline) ringproof.Finding {
	if t.acked() == 0 {
		return unknown("no write was acknowledged: nothing could be lost")
	}
	if o := t.newestAcked(ringproof.Forever); o.Response.Revision > t.h.Evidence.Revision {
		return with(fail(o.Return, "expected the ring to end at revision %d or later, saw %d: what came after is lost",
			o.Response.Revision, t.h.Evidence.Revision), operationText(o))
	}
	if f, lost := t.unwatched(); lost {
		return f
	}
	return t.compareDump()
}

func (t *timeline) acked() int {
	n := 0
	for i := range t.h.Operations {
		if tookEffect(&t.h.Operations[i]) {
			n++
		}
	}
	return n
}

// newestAcked is the newest write that was acknowledged by then; nil: none was.
func (t *timeline) newestAcked(by ringproof.Instant) *ringproof.Operation {
	var newest *ringproof.Operation
	for i := range t.h.Operations {
		o := &t.h.Operations[i]
		if tookEffect(o) && o.Return <= by && (newest == nil || o.Response.Revision > newest.Response.Revision) {
			newest = o
		}
	}
	return newest
}

// unwatched finds an acknowledged write that the watches passed over: they
// showed what came before and after, and not the write. A later write on the
// same key would hide such a loss from the dump.
func (t *timeline) unwatched() (ringproof.Finding, bool) {
	shown := map[int64]bool{}
	for _, w := range t.h.Watches {
		for i := range w.Events {
			shown[w.Events[i].Revision] = shown[w.Events[i].Revision] || !w.Events[i].Bookmark
		}
	}
	for _, w := range t.writes {
		o := &t.h.Operations[w.op]
		if o.Response != nil && !shown[w.revision] && asksTo(&o.Request, func(r *ringproof.Request) bool { return t.covers(r.Key, w.revision, w.revision) }) {
			return with(fail(o.Return, "expected the acknowledged write at revision %d in the watches, which show what is before and after; saw it in none",
				w.revision), operationText(o)), true
		}
	}
	return ringproof.Finding{}, false
}

func (t *timeline) compareDump() ringproof.Finding {
	d, open := t.differing(t.h.Evidence.Dump, t.h.Evidence.Revision)
	switch {
	case d != nil:
		return t.explained(d, fail(ringproof.Forever, "expected %s to end as %s, saw %s", d.key, d.was, d.saw()))
	case open > 0:
		return unknown("%d of %s end as an unanswered write may have left them", open, ringproof.Counted(len(t.names), "key"))
	}
	return pass("%s: all keys (%d) end as the last of them left them", ringproof.Counted(t.acked(), "acknowledged write"), len(t.names))
}

// difference is a key that is otherwise than it was at a revision; was and kv are nil where it is absent.
type difference struct {
	key string
	was *change
	kv  *ringproof.KV
}

func (d *difference) saw() string {
	if d.kv == nil {
		return "absent"
	}
	return d.kv.String()
}

// differing compares keys that were read with those of the revision. It returns the first that
// differs, nil when none does, and how many an unanswered write may have left so.
func (t *timeline) differing(keys []ringproof.KV, revision int64) (first *difference, open int) {
	read := map[string]*ringproof.KV{}
	for i := range keys {
		read[keys[i].Key] = &keys[i]
	}
	for _, key := range t.under("") {
		d := difference{t.names[key], t.at(key, revision), read[t.names[key]]}
		switch {
		case d.was == nil && d.kv == nil || d.was != nil && d.kv != nil && d.was.value == d.kv.Value && d.was.revision == d.kv.ModRevision:
		case t.ignorant(key):
			open++
		default:
			return &d, open
		}
	}
	return nil, open
}

// explained adds to the finding the write that the key should be of.
func (t *timeline) explained(d *difference, f ringproof.Finding) ringproof.Finding {
	if d.was == nil {
		return f
	}
	return with(f, operationText(&t.h.Operations[d.was.op]))
}

// judgeSurviving is for a ring that answers no more: what a disk was known to
// hold, and no fault took, must still be on it. The newest writes may have been
// on the lost disks alone, so not all that was acknowledged can be asked for.
func judgeSurviving(h *ringproof.History) ringproof.Finding {
	t, l := rebuild(h), newLedger(h)
	held, on := l.held()
	if held == 0 {
		return unknown("no member was seen to hold anything on a disk that no fault took: nothing can be asked to survive")
	}
	if len(h.Evidence.Surviving) == 0 && len(h.Evidence.Unknown) > 0 {
		return with(unknown("the disks that are left were not read"), h.Evidence.Unknown...)
	}
	surviving := map[string]bool{}
	for _, value := range h.Evidence.Surviving {
		surviving[value] = true
	}
	gone, asked := t.gone(held, surviving)
	if len(gone) > 0 {
		return with(fail(ringproof.Forever, "expected on the disks that are left all that %s held at revision %d, %d of %d keys are gone",
			on, held, len(gone), asked), gone...)
	}
	return pass("the disks that are left hold all %d keys that %s held at revision %d, or later values", asked, on, held)
}

// gone returns the keys of which neither the value at the revision nor a later
// one survives. One under a lease may have gone with it.
func (t *timeline) gone(revision int64, surviving map[string]bool) (gone []string, asked int) {
	for _, key := range t.under("") {
		was := t.at(key, revision)
		if was == nil || was.lease != 0 {
			continue
		}
		asked++
		later := func(c change) bool { return c.revision >= was.revision && (c.deleted || surviving[c.value]) }
		if !slices.ContainsFunc(t.changes[key], later) {
			gone = append(gone, fmt.Sprintf("%s, which was %s", t.names[key], was))
		}
	}
	return gone, asked
}

// held returns the highest revision that a member was seen to have applied on
// a disk that no fault took, and whose it was.
func (l *ledger) held() (int64, string) {
	var revision int64
	var on string
	for _, machine := range slices.Sorted(maps.Keys(l.machines)) {
		if r := l.heldOn(machine); r > revision {
			revision, on = r, machine
		}
	}
	return revision, on
}

func (l *ledger) heldOn(machine string) int64 {
	var revision int64
	for i := range l.h.Observations {
		o := &l.h.Observations[i]
		view, ok := o.On(machine)
		if !ok || !view.Serving || l.taken(machine, o.At) {
			continue
		}
		revision = max(revision, view.Revision)
	}
	return revision
}

// taken reports whether a fault took, after the moment, the disk that the machine
// had then. A disk that went without a fault was the subject's to keep.
func (l *ledger) taken(machine string, at ringproof.Instant) bool {
	return slices.ContainsFunc(l.losses, func(e ringproof.Event) bool { return e.Machine == machine && releasedAt(l.h, e) >= at })
}
