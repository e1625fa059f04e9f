// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringproof/ringproof"
)

// parted says where two runs of one plan were first seen to differ: by an event, or by
// what a client asked and heard. The cause lies before, in what nobody has recorded.
func parted(a, b ringproof.History) string {
	var all []moment
	for _, kind := range []func(ringproof.History) []moment{happened, answered} {
		if p, differ := firstOther(kind(a), kind(b)); differ {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return "what was recorded of both is equal"
	}
	return slices.MinFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) }).text
}

// moment is a thing that was recorded, in words.
type moment struct {
	at   ringproof.Instant
	text string
}

func happened(h ringproof.History) (all []moment) {
	for _, e := range h.Events {
		all = append(all, moment{e.At, fmt.Sprintf("%s at %s", e, e.At)})
	}
	return all
}

func answered(h ringproof.History) (all []moment) {
	for _, o := range h.Operations {
		all = append(all, moment{o.Return, fmt.Sprintf("%s of client %d, from %s to %s", o, o.Client, o.Call, o.Return)})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return all
}

// firstOther is the first place at which two lists differ, with what each has there;
// differ: there is one.
func firstOther(a, b []moment) (both moment, differ bool) {
	end := moment{text: "nothing more"}
	for i := range max(len(a), len(b)) {
		x, y := end, end
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return moment{cmp.Or(min(x.at, y.at), max(x.at, y.at)), fmt.Sprintf("the first has %q, and the second %q", x.text, y.text)}, true
		}
	}
	return both, false
}
