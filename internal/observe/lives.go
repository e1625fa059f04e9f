// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package observe

import (
	"cmp"
	"slices"

	"github.com/ringproof/ringproof"
)

// Lives are the logs that etcds were seen to run on, each member's on each disk once. A removed member came
// back under its ID on an empty disk, and that was cleared as it heard of its removal: by the end of
// the run no disk told of it.
type Lives struct{ logs []ringproof.MemberLog }

// Note notes a log, in the place of what it was before.
func (l *Lives) Note(log ringproof.MemberLog) {
	if i := slices.IndexFunc(l.logs, func(had ringproof.MemberLog) bool { return sameLife(had, log) }); i >= 0 {
		l.logs[i] = log
		return
	}
	l.logs = append(l.logs, log)
}

// Beside are the logs that were read from disks, and after them those that were noted and are on none of them.
func (l Lives) Beside(read []ringproof.MemberLog) []ringproof.MemberLog {
	var gone []ringproof.MemberLog
	for _, log := range l.logs {
		if !slices.ContainsFunc(read, func(r ringproof.MemberLog) bool { return sameLife(r, log) }) {
			gone = append(gone, log)
		}
	}
	slices.SortFunc(gone, func(a, b ringproof.MemberLog) int {
		return cmp.Or(cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.Disk, b.Disk), cmp.Compare(a.Member, b.Member))
	})
	return append(read, gone...)
}

func sameLife(a, b ringproof.MemberLog) bool {
	return a.Machine == b.Machine && a.Disk == b.Disk && a.Member == b.Member
}
