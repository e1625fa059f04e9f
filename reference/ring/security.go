// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import (
	"net"
	"strconv"
)

// Security is how the members of a ring and its clients speak to each other.
type Security string

// The ways.
const (
	TLS   Security = "tls"
	Plain Security = "plain"
)

// Secure reports whether they speak through TLS. What isn't known to be plain is: a
// secret that was sent in the clear can't be taken back.
func (s Security) Secure() bool { return s != Plain }

// URL is where one answers who speaks so; an IPv6 address gets its brackets.
func (s Security) URL(address string, port int) string {
	scheme := "https"
	if !s.Secure() {
		scheme = "http"
	}
	return scheme + "://" + net.JoinHostPort(address, strconv.Itoa(port))
}
