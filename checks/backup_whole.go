// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"maps"
	"slices"

	"github.com/ringproof/ringproof"
)

// backupWhole: a backup is of one member. Of one that was cut off, or had just joined, it lacks what
// was acknowledged meanwhile, and nobody knows before it is needed.
var backupWhole = Check{
	Name:   "backup-whole",
	Claim:  "A backup that the subject made holds all that was acknowledged when it was asked for, and nothing that the ring never held.",
	Source: "etcd's disaster recovery guide: a snapshot is of the member that is asked; etcd#9352: snapshots that were cut off and saved as good",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if len(h.Evidence.Backups) == 0 {
			return unknown("no backup was made")
		}
		shown := shownOf(h)
		for _, b := range h.Evidence.Backups {
			if f, bad := judgeBackup(h, b, shown); bad {
				return with(f, "asked at "+rounded(b.Asked).String()+": "+b.String())
			}
		}
		return pass("%s: all that was acknowledged before", ringproof.Counted(len(h.Evidence.Backups), "backup"))
	},
	suits: func(p ringproof.Plan) bool {
		return safely(p) && slices.ContainsFunc(p.Steps, func(s ringproof.Step) bool {
			return s.Op != nil && s.Op.Kind == ringproof.OpSnapshot && !s.Op.Refused
		})
	},
}

func judgeBackup(h *ringproof.History, b ringproof.Backup, shown shownKeys) (ringproof.Finding, bool) {
	if b.Err != "" {
		return fail(b.Made, "expected a file from which a ring can be restored, saw that nothing can be read: %s", b.Err), true
	}
	if o, r := newestBefore(h, b.Asked); r > b.Revision {
		return with(fail(b.Made, "expected a backup of revision %d or later, which was acknowledged before it was asked for, saw one of revision %d", r, b.Revision), operationText(o)), true
	}
	held := map[string]ringproof.KV{}
	for _, kv := range b.Keys {
		held[kv.Key] = kv
		if truth, known := shown[kv.Key][kv.ModRevision]; kv.ModRevision > b.Revision || known && truth != kv {
			return fail(b.Made, "expected what the ring held of %s at revision %d, saw %q", kv.Key, kv.ModRevision, kv.Value), true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(shown)) {
		newest, kv := shown.newest(key, b.Revision), held[key]
		if gone := shown[key][newest].Key == ""; kv.ModRevision < newest && !(gone && kv.Key == "") {
			return fail(b.Made, "expected a backup of revision %d to hold %s as of revision %d, saw it as of revision %d", b.Revision, key, newest, kv.ModRevision), true
		}
	}
	return ringproof.Finding{}, false
}

// newestBefore is the operation that had been told of the newest revision by then, and that one.
func newestBefore(h *ringproof.History, at ringproof.Instant) (of *ringproof.Operation, newest int64) {
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Response != nil && o.Return <= at && o.Response.Revision > newest {
			of, newest = o, o.Response.Revision
		}
	}
	return of, newest
}

// shownKeys are the keys as they became known, by the revision of the change: empty where that was a
// deletion.
type shownKeys map[string]map[int64]ringproof.KV

// newest is the last change of the key that is known up to the revision; 0: none is.
func (s shownKeys) newest(key string, upTo int64) (newest int64) {
	for revision := range s[key] { // order: the newest of all
		if revision <= upTo {
			newest = max(newest, revision)
		}
	}
	return newest
}

// shownOf takes them from the watches, and from what the ring holds in the end: what is there and was
// not changed since was there in between.
func shownOf(h *ringproof.History) shownKeys {
	all := shownKeys{}
	show := func(key string, revision int64, kv ringproof.KV) {
		if all[key] == nil {
			all[key] = map[int64]ringproof.KV{}
		}
		all[key][revision] = kv
	}
	for _, w := range h.Watches {
		for _, e := range w.Events {
			switch {
			case e.Bookmark:
			case e.Delete:
				show(e.KV.Key, e.Revision, ringproof.KV{})
			default:
				show(e.KV.Key, e.Revision, e.KV)
			}
		}
	}
	for _, kv := range h.Evidence.Dump {
		show(kv.Key, kv.ModRevision, kv)
	}
	return all
}
