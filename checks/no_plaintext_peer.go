// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"

	"github.com/ringproof/ringproof"
)

// noPlaintextPeer: a ring that was moved to TLS, and whose members still listen for whoever
// dials without, looks like any other. Nobody who uses it would notice.
var noPlaintextPeer = Check{
	Name:   "no-plaintext-peer",
	Claim:  "Once peers were moved to TLS no member is listed or listens for plain text, and nothing goes between them in the clear.",
	Source: "etcd's security guide: peers take each other's word on every write; kubermatic's peer TLS migration, whose last phase closes the plain port",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if done := asked(h, ringproof.OpPeers); !done {
			return unknown("the move to TLS was not seen to end")
		}
		if left := inClear(h.Evidence.Final); left != "" {
			return fail(h.Evidence.Final.At, "expected no plain text among peers that were moved to TLS, saw %s at the end", left)
		}
		for _, p := range h.Evidence.PeerPorts {
			if p.Plain {
				return fail(h.Evidence.Final.At, "expected no plain text among peers that were moved to TLS, saw %s answer in it", p.Machine)
			}
		}
		since, talks, seen, gone := encryptedSince(h), h.Evidence.Talks, 0, departuresOf(h)
		for _, t := range talks {
			// Who has left is no peer, and who hasn't heard that it has can't hear of TLS either.
			if t.Plain > since && !gone.explain(h, ringproof.Event{At: t.Plain, Machine: t.From}) {
				return fail(t.Plain, "expected nothing in the clear among peers from %s on, saw %s speak plain text to %s", since, t.From, t.To)
			}
			if t.TLS > 0 {
				seen++
			}
		}
		switch members := len(h.Evidence.Final.Members); {
		case members == 0:
			return unknown("the last look found no members")
		case unheard(h.Evidence.Final) != "":
			return unknown("whether %s listens for plain text is not known", unheard(h.Evidence.Final))
		case members > 1 && seen == 0:
			return unknown("no member listens for plain text any more, and what went between them was not seen")
		}
		return pass("no member listens for plain text, and %d pairs of machines spoke TLS alone since %s", seen, since)
	},
	suits: ringproof.Plan.Encrypts,
}

// asked reports whether a step that asks for such an operation was done.
func asked(h *ringproof.History, kind ringproof.OpKind) bool {
	for _, s := range h.Plan.Steps {
		if s.Op == nil || s.Op.Kind != kind || s.Op.Refused {
			continue
		}
		_, during := stepEvents(h, s.Name)
		for _, e := range during {
			if e.Kind == ringproof.EventStepDone {
				return true
			}
		}
	}
	return false
}

// inClear says which member may be spoken to in plain text by its peers; "": none.
func inClear(o ringproof.Observation) string {
	for _, m := range o.Members {
		if m.Plain() {
			return fmt.Sprintf("%s listed at %s", m.Machine, m.PeerURLs[0])
		}
		if on, known := o.Machine(m.Machine); known && on.Clear == ringproof.Yes {
			return m.Machine + " listen for plain text"
		}
	}
	return ""
}

// unheard is a member's machine of which nobody knows whether it listens for plain text; "": none.
func unheard(o ringproof.Observation) string {
	for _, m := range o.Members {
		if on, _ := o.Machine(m.Machine); on.Clear == "" {
			return cmp.Or(m.Machine, m.ID.String())
		}
	}
	return ""
}

// encryptedSince is from when on no look found plain text any more.
func encryptedSince(h *ringproof.History) ringproof.Instant {
	since := h.Evidence.Final.At
	for i := len(h.Observations) - 1; i >= 0 && inClear(h.Observations[i]) == ""; i-- {
		since = max(h.Observations[i].At, h.Observations[i].Until)
	}
	return since
}
