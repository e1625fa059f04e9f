// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import "github.com/ringproof/ringproof"

// readsDiscarded finds an answer that tells of a revision which was discarded before it was
// asked for. A member by itself may not have heard of it; one that asks the others has, in
// a transaction too, and refuses all of it.
func readsDiscarded(h *ringproof.History) (ringproof.Finding, bool) {
	var discards []*ringproof.Operation
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Request.Kind == ringproof.RequestCompact && o.Response != nil {
			discards = append(discards, o)
		}
	}
	for i := range h.Operations {
		o := &h.Operations[i]
		revision := oldest(&o.Request)
		if o.Response == nil || o.Request.Serializable || revision == 0 {
			continue
		}
		for _, c := range discards {
			if c.Return < o.Call && c.Request.Revision > revision {
				return with(fail(o.Return, "operation %d (client %d, %s): expected revision %d to be discarded, as all before %d were, saw it read",
					o.ID, o.Client, requestText(&o.Request), revision, c.Request.Revision), operationText(c), operationText(o)), true
			}
		}
	}
	return ringproof.Finding{}, false
}

// oldest is the lowest revision of before that a request reads surely: that all its branches
// do; 0: none is.
func oldest(r *ringproof.Request) int64 {
	if !r.General() {
		return past(r)
	}
	least := func(branch []ringproof.Request) (low int64) {
		for i := range branch {
			if at := oldest(&branch[i]); at > 0 && (low == 0 || at < low) {
				low = at
			}
		}
		return low
	}
	then := least(r.Then)
	if len(r.If) == 0 {
		return then
	}
	if other := least(r.Else); then > 0 && other > 0 {
		return max(then, other)
	}
	return 0
}

// past is the revision of before that a read is of; 0: it is of none.
func past(r *ringproof.Request) int64 {
	if r.Kind != ringproof.RequestGet && r.Kind != ringproof.RequestRange {
		return 0
	}
	return r.Revision
}
