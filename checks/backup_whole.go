// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import "github.com/ringproof/ringproof"

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
		t, open := rebuild(h), 0
		if t.acked() == 0 {
			return unknown("no write was acknowledged: a backup has nothing to lack")
		}
		for _, b := range h.Evidence.Backups {
			f, bad, doubtful := t.judgeBackup(b)
			if bad {
				return with(f, "asked at "+rounded(b.Asked).String()+": "+b.String())
			}
			open += doubtful
		}
		if open > 0 {
			return unknown("%s in backups may be as an unanswered write left them", ringproof.Counted(open, "key"))
		}
		return pass("%s: all that was acknowledged before", ringproof.Counted(len(h.Evidence.Backups), "backup"))
	},
	suits: func(p ringproof.Plan) bool { return safely(p) && p.BacksUp() },
}

// judgeBackup also counts the keys of which nobody knows how they were.
func (t *timeline) judgeBackup(b ringproof.Backup) (f ringproof.Finding, bad bool, open int) {
	if b.Err != "" {
		return fail(b.Made, "expected a file from which a ring can be restored, saw that nothing can be read: %s", b.Err), true, 0
	}
	if o := t.newestAcked(b.Asked); o != nil && o.Response.Revision > b.Revision {
		return with(fail(b.Made, "expected a backup of revision %d or later, which was acknowledged before it was asked for, saw one of revision %d", o.Response.Revision, b.Revision), operationText(o)), true, 0
	}
	d, open := t.differing(b.Keys, b.Revision)
	if d != nil {
		return t.explained(d, fail(b.Made, "expected %s to be %s in a backup of revision %d, saw %s", d.key, d.was, b.Revision, d.saw())), true, open
	}
	return ringproof.Finding{}, false, open
}
