// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Security is how the members of a ring and its clients speak to each other.
type Security string

// The ways.
const (
	TLS   Security = "tls"
	Plain Security = "plain"
	// Mixed is how a member listens for its peers while they move from plain text to TLS:
	// whoever dials one way is heard, and so is who dials the other. Nobody asks for it.
	Mixed Security = "mixed"
)

// The ports of a member's peers. Where they spoke plain text first TLS has one of its own,
// as etcd listens on a port in one way.
const (
	PeerPort      = 2380
	EncryptedPort = 2381
)

// Secure reports whether they speak through TLS, or may. What isn't known to be plain is: a
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

// PeerURLs are the URLs at which a member listens so that began at a URL.
func (s Security) PeerURLs(begun string) []string {
	switch s {
	case Plain:
		return []string{begun}
	case Mixed:
		return []string{begun, Encrypted(begun)}
	}
	return []string{Encrypted(begun)}
}

// Listens is how an etcd listens that was given these URLs.
func Listens(urls []string) Security {
	plain := slices.ContainsFunc(urls, isPlain)
	switch encrypted := slices.ContainsFunc(urls, func(u string) bool { return !isPlain(u) }); {
	case plain && encrypted:
		return Mixed
	case plain:
		return Plain
	}
	return TLS
}

func isPlain(u string) bool { return strings.HasPrefix(u, "http:") }

// Encrypted is the URL at which a member takes TLS whose URL is u: another if that one is
// for plain text.
func Encrypted(u string) string {
	if !isPlain(u) {
		return u
	}
	return TLS.URL(Address(u), EncryptedPort)
}

// Address is the host name or IP address in a URL; "" when it is none.
func Address(u string) string {
	parsed, err := url.Parse(u)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

// SameAddress reports whether one of the URLs, between commas, has the address of u: by how
// the member speaks it is reached at another port, and is where it was.
func SameAddress(urls, u string) bool {
	at := Address(u)
	return at != "" && slices.ContainsFunc(strings.Split(urls, ","), func(one string) bool { return Address(one) == at })
}
