// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// runsAsAsked: a ring that runs with etcd's defaults looks like any other, until the
// flag that was asked for would have mattered.
var runsAsAsked = Check{
	Name:   "runs-as-asked",
	Claim:  "At the end each member's etcd is of the release and has the flags that it was asked to have, and its guard against unsafe membership changes; and on Kubernetes its pod, its claim, its certificate and the Service for clients are as the ring's object asks, and that as it was edited.",
	Source: "etcd's configuration options: heartbeat-interval, election-timeout, snapshot-count, quota-backend-bytes; --strict-reconfig-check guards the quorum, and is on unless it is turned off; Acto (SOSP 2023): an operator that takes an edit and doesn't carry it out says that all is well",
	Timed:  true,
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		looked, unsure := 0, []string(nil)
		if wrong := h.Evidence.Unlike; len(wrong) > 0 {
			return with(fail(h.Evidence.Final.At, "expected the ring's objects to be as was asked for, saw %s", wrong[0]), wrong...)
		}
		for _, m := range h.Evidence.Final.Members {
			asked, known := h.Evidence.Asked[m.Machine]
			p, why := startOf(h, m.Machine)
			if why == "" {
				if wrong := unlike(asked, known, p); len(wrong) > 0 {
					return with(fail(h.Evidence.Final.At, "expected the etcd of a member to run as it was asked to, saw that of %s with %s", p.Machine, wrong[0]), wrong...)
				}
				why = map[bool]string{false: "what it was last asked to have is not known, as a restart failed"}[known]
			}
			switch {
			case why == "":
				looked++
			case m.Serving: // one that doesn't is for converges to judge
				unsure = append(unsure, m.Machine+": "+why)
			}
		}
		if looked == 0 || len(unsure) > 0 {
			return with(unknown("of %d members' etcds it is known that each is as it was asked to be, and of %d that serve how it was started, or was to be, is not", looked, len(unsure)), unsure...)
		}
		return pass("%d of %s run as asked", looked, ringproof.Counted(len(h.Evidence.Final.Members), "member"))
	},
	suits: safely,
}

// startOf returns how the etcd on the machine was started, or why that isn't known.
func startOf(h *ringproof.History, machine string) (p ringproof.EtcdProcess, why string) {
	i := slices.IndexFunc(h.Evidence.Etcds, func(p ringproof.EtcdProcess) bool { return p.Machine == machine })
	if i < 0 {
		return p, "no etcd was found there"
	}
	p = h.Evidence.Etcds[i]
	if len(p.Releases) == 0 {
		return p, cmp.Or(p.Err, "of which release its program is, is not known")
	}
	return p, p.Err
}

// unlike lists what the process has otherwise than it was asked to have, as far as that is known,
// or than any may have.
func unlike(asked ringproof.Own, known bool, p ringproof.EtcdProcess) (wrong []string) {
	if known && !slices.Contains(p.Releases, asked.Version) {
		wrong = append(wrong, fmt.Sprintf("etcd %s, and not %s", strings.Join(p.Releases, " or "), asked.Version))
	}
	for _, name := range slices.Sorted(maps.Keys(asked.Flags)) {
		if has, given := p.Flags[name]; !given {
			wrong = append(wrong, fmt.Sprintf("no --%s, and not --%s=%s", name, name, asked.Flags[name]))
		} else if has != asked.Flags[name] {
			wrong = append(wrong, fmt.Sprintf("--%s=%s, and not %s", name, has, asked.Flags[name]))
		}
	}
	if p.Flags["strict-reconfig-check"] == "false" {
		wrong = append(wrong, "--strict-reconfig-check=false, which lets go what leaves no quorum")
	}
	return wrong
}
