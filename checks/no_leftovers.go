// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"github.com/ringproof/ringproof"
)

var noLeftovers = Check{
	Name:   "no-leftovers",
	Claim:  "No process and no mount outlives the run.",
	Source: "SIGTERM must reach etcd: a launcher that dies alone leaves a member that nobody supervises",
	Timed:  true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		if n := len(h.Evidence.Leftovers); n > 0 {
			return with(fail(ringproof.Forever, "expected nothing to outlive the run, saw %d processes or mounts", n), h.Evidence.Leftovers...)
		}
		if _, over := ended(h); !over {
			return unknown("the run has no run-ends event: what it left behind was not looked for")
		}
		return pass("nothing outlived the run")
	},
}
