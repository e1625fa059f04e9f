// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/ringproof/ringproof"
)

var clientsShowCertificates = ofPorts(Check{
	Name:   "clients-show-certificates",
	Claim:  "A member that speaks TLS answers no client that shows no certificate, and none that speaks plain text.",
	Source: "etcd's security guide: without --client-cert-auth whoever reaches port 2379 reads and writes everything",
}, func(e *ringproof.Evidence) []ringproof.Port { return e.ClientPorts }, "who shows no certificate at its client port",
	listensForClients, secured)

var peersTrustPeers = ofPorts(Check{
	Name:   "peers-trust-peers",
	Claim:  "A member takes nobody for a peer who shows a client's certificate.",
	Source: "etcd's security guide: peers that trust the clients' authority take raft messages from every client",
}, func(e *ringproof.Evidence) []ringproof.Port { return e.PeerPorts }, "a client at its peer port", listensForPeers, encrypted)

// listensForClients are the flags by which clients are heard, where they speak TLS.
func listensForClients(p ringproof.Plan) []string {
	if p.Ring.Security == "plain" {
		return nil
	}
	return []string{"listen-client-urls", "listen-client-http-urls"}
}

// listensForPeers are the flags by which peers are heard, where they spoke TLS from the first on. On
// the way there a member listens for both, and no-plaintext-peer says until when.
func listensForPeers(p ringproof.Plan) []string {
	if p.Ring.Peers != "" || p.Ring.Security == "plain" {
		return nil
	}
	return []string{"listen-peer-urls"}
}

// secured reports whether members show certificates to clients, and encrypted whether they
// do so to each other, in the end at least.
func secured(p ringproof.Plan) bool   { return p.Ring.Security == "tls" && safely(p) }
func encrypted(p ringproof.Plan) bool { return secured(p) && (p.Ring.Peers == "" || p.Encrypts()) }

// ofPorts judges what the members' ports do with somebody who has no right to them, and, where
// they are to speak TLS from the first on, with who speaks plain text.
func ofPorts(c Check, tried func(*ringproof.Evidence) []ringproof.Port, somebody string, listens func(ringproof.Plan) []string, suits func(ringproof.Plan) bool) Check {
	c.Judge = func(h *ringproof.History, _ Values) ringproof.Finding {
		if f, bad := listensInClear(h, listens(h.Plan)); bad {
			return f
		}
		looked, why, unsure := 0, "", []string(nil)
		for _, p := range tried(&h.Evidence) {
			switch {
			case p.Err != "":
				why = fmt.Sprintf(": on %s %s", p.Machine, p.Err)
				if m, on := h.Evidence.Final.On(p.Machine); on && m.Serving {
					unsure = append(unsure, p.Machine+": "+p.Err)
				}
			case p.Plain && len(listens(h.Plan)) > 0:
				return fail(h.Evidence.Final.At, "expected the member on %s to speak TLS alone, saw it answer in plain text", p.Machine)
			case p.Admits:
				return fail(h.Evidence.Final.At, "expected the member on %s to refuse %s, saw it answer", p.Machine, somebody)
			default:
				looked++
			}
		}
		if looked == 0 {
			return unknown("no member was tried by %s%s", somebody, why)
		}
		if len(unsure) > 0 {
			return with(unknown("%d members refuse %s, and of %d that serve it isn't known", looked, somebody, len(unsure)), unsure...)
		}
		return pass("each of %s refuses %s", ringproof.Counted(looked, "member"), somebody)
	}
	c.suits = suits
	return c
}

// listensInClear finds an etcd that was told to listen in plain text to more than its own machine: beside TLS
// on the same port, or on one that nobody here tries.
func listensInClear(h *ringproof.History, flags []string) (ringproof.Finding, bool) {
	for _, p := range h.Evidence.Etcds {
		for _, flag := range flags {
			for _, at := range strings.Split(p.Flags[flag], ",") {
				u, err := url.Parse(strings.TrimSpace(at))
				if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback() {
					continue
				}
				return fail(h.Evidence.Final.At, "expected the etcd on %s to listen with TLS alone, saw --%s=%s", p.Machine, flag, p.Flags[flag]), true
			}
		}
	}
	return ringproof.Finding{}, false
}
