// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import "github.com/ringproof/ringproof/reference/host"

// The lead is who wrote the lead's record, and everybody believes to have written
// it.
var everyAgentLeads = Mutant{
	Name:     "every-agent-leads",
	Hazard:   "What tells the lead from the others is the same for all of them, so that each acts as the lead.",
	Source:   "kubermatic etcd-launcher and etcdadm act on every machine at once",
	Check:    "one-lead",
	Scenario: "replace-planned[victim=follower]",
	layer:    only(layer{host: func(h host.Host) host.Host { return &sameNonce{Host: h} }}),
}

// sameNonce is a host whose agent's first nonce, which tells its lives apart, is
// everybody's.
type sameNonce struct {
	host.Host
	given bool
}

func (s *sameNonce) Nonce() string {
	if s.given {
		return s.Host.Nonce()
	}
	s.given = true
	reached(s.Host)
	return "0123456789abcdef"
}
