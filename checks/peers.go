// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"

	"github.com/ringproof/ringproof"
)

var clientsShowCertificates = ofPorts(Check{
	Name:   "clients-show-certificates",
	Claim:  "A member that speaks TLS answers no client that shows no certificate.",
	Source: "etcd's security guide: without --client-cert-auth whoever reaches port 2379 reads and writes everything",
}, func(e *ringproof.Evidence) []ringproof.Port { return e.ClientPorts }, "who shows no certificate at its client port", secured)

var peersTrustPeers = ofPorts(Check{
	Name:   "peers-trust-peers",
	Claim:  "A member takes nobody for a peer who shows a client's certificate.",
	Source: "etcd's security guide: peers that trust the clients' authority take raft messages from every client",
}, func(e *ringproof.Evidence) []ringproof.Port { return e.PeerPorts }, "a client at its peer port", encrypted)

// secured reports whether members show certificates to clients, and encrypted whether they
// do so to each other, in the end at least.
func secured(p ringproof.Plan) bool   { return p.Ring.Security == "tls" && safely(p) }
func encrypted(p ringproof.Plan) bool { return secured(p) && (p.Ring.Peers == "" || p.Encrypts()) }

// ofPorts judges what the members' ports do with somebody who has no right to them.
func ofPorts(c Check, tried func(*ringproof.Evidence) []ringproof.Port, somebody string, suits func(ringproof.Plan) bool) Check {
	c.Judge = func(h *ringproof.History, _ Values) ringproof.Finding {
		looked, why := 0, ""
		for _, p := range tried(&h.Evidence) {
			switch {
			case p.Err != "":
				why = fmt.Sprintf(": on %s %s", p.Machine, p.Err)
			case p.Admits:
				return fail(h.Evidence.Final.At, "expected the member on %s to refuse %s, saw it answer", p.Machine, somebody)
			default:
				looked++
			}
		}
		if looked == 0 {
			return unknown("no member was tried by %s%s", somebody, why)
		}
		return pass("%d members refuse %s", looked, somebody)
	}
	c.suits = suits
	return c
}
