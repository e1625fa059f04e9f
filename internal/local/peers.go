// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/observe"
)

// peerURLs are where a machine's etcd listens for its peers; none: it isn't known. One that
// reads a file goes by that alone.
func (w *World) peerURLs(n *node) []string {
	processes, _ := n.machine.Processes()
	i := slices.IndexFunc(processes, w.isEtcd)
	if i < 0 {
		return nil
	}
	flags := observe.Process(n.name, processes[i].Args, nil).Flags
	if flags["config-file"] != "" {
		return nil
	}
	return strings.Split(flags["listen-peer-urls"], ",")
}

// inClear is whether an etcd that was started with these URLs for its peers listens to them
// without TLS. One that was started with none has them from a file or its environment.
func inClear(urls []string) ringproof.Answer {
	urls = slices.DeleteFunc(slices.Clone(urls), func(u string) bool { return strings.TrimSpace(u) == "" })
	switch {
	case slices.ContainsFunc(urls, func(u string) bool { return strings.HasPrefix(strings.TrimSpace(u), "http:") }):
		return ringproof.Yes
	case len(urls) == 0:
		return ""
	}
	return ringproof.No
}

// peerPort is where a machine's etcd takes TLS from its peers; 0: it takes none.
func (w *World) peerPort(n *node) int {
	for _, u := range w.peerURLs(n) {
		if parsed, err := url.Parse(u); err == nil && parsed.Scheme == "https" {
			port, _ := strconv.Atoi(parsed.Port())
			return port
		}
	}
	return 0
}

// talks is how the members' machines have spoken to each other's peer ports, where a plan
// moves peers to TLS and the lab sees it.
func (w *World) talks() (all []ringproof.Talk) {
	board, ok := w.lab.(Switchboard)
	if !ok || !w.plan.Encrypts() {
		return nil
	}
	heard, err := board.Heard()
	if err != nil {
		return nil
	}
	names, ports := map[netip.Addr]string{}, []int{w.Subject.Etcd().Peer}
	for _, n := range w.present() {
		names[n.machine.Addr()] = n.name
		ports = append(ports, w.peerPort(n))
	}
	for _, h := range heard {
		from, to := names[h.From], names[h.To.Addr()]
		if from != "" && to != "" && from != to && slices.Contains(ports, int(h.To.Port())) {
			all = append(all, ringproof.Talk{From: from, To: to, Plain: w.instant(h.Plain), TLS: w.instant(h.TLS)})
		}
	}
	return all
}

// instant is when something was heard; 0: never.
func (w *World) instant(at time.Time) ringproof.Instant {
	if at.IsZero() {
		return 0
	}
	return ringproof.Instant(at.Sub(w.began))
}

// ports asks each machine's etcd for something at its peer port, with a client's
// certificate, and at its client port, with none.
func (w *World) ports(ctx context.Context) (peer, client []ringproof.Port) {
	if w.secure == nil {
		return nil, nil
	}
	etcd := w.Subject.Etcd()
	peers := func(*node) int { return etcd.Peer }
	if w.plan.Ring.Peers == "plain" { // those that take TLS have come to another port
		peers = w.peerPort
	}
	return w.tried(ctx, peers, etcd.Peer, w.secure.Certificates), w.tried(ctx, func(*node) int { return etcd.Client }, etcd.Client, nil)
}

// tried shows the certificates to that port of each machine that has it, and speaks plain text to
// it and to the usual one.
func (w *World) tried(ctx context.Context, port func(*node) int, usual int, shown []tls.Certificate) (all []ringproof.Port) {
	for _, n := range w.present() {
		if n.taken || !n.machine.On() || w.etcd(n) == 0 || port(n) == 0 {
			continue
		}
		p := ringproof.Port{Machine: n.name}
		for range 3 { // who is being refused may be hung up on before it hears why
			if p.Admits, p.Plain, p.Err = serves(ctx, n.reach, n.at(port(n)), n.at(usual), shown); p.Err == "" {
				break
			}
		}
		all = append(all, p)
	}
	return all
}

// serves is whether a port admits who shows these certificates, and whether it or the usual one
// answers who speaks plain text. What is known of the one counts, whatever is not of the other.
func serves(ctx context.Context, dial dialer, port, usual string, shown []tls.Certificate) (admitted, plain bool, unknown string) {
	for _, address := range slices.Compact([]string{port, usual}) {
		hears, why := hearsPlain(ctx, dial, address)
		plain, unknown = plain || hears, cmp.Or(unknown, why)
	}
	if plain {
		return false, true, ""
	}
	admitted, why := admits(ctx, dial, port, shown)
	if admitted {
		return true, false, ""
	}
	return false, false, cmp.Or(why, unknown)
}

// hearsPlain reports whether the port answers who speaks plain text. Who takes TLS alone hangs up,
// as etcd does, answers with an alert, or says so, as Go's server does. Who speaks plain gRPC
// alone answers with what is no HTTP/1.
func hearsPlain(ctx context.Context, dial dialer, address string) (bool, string) {
	said, err := versionAt(ctx, dial, "http://"+address, nil)
	switch {
	case err == nil:
		return !strings.Contains(said, "HTTP request to an HTTPS server"), ""
	case strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.ECONNREFUSED):
		return false, ""
	case strings.Contains(err.Error(), "malformed HTTP"):
		return true, ""
	}
	return false, err.Error()
}

// admits reports whether the port answers who shows these certificates. A listener
// says that it refuses one, or wants one, in an alert; all else is unknown.
func admits(ctx context.Context, dial dialer, address string, certificates []tls.Certificate) (bool, string) {
	// Whom the listener trusts is looked at, and not who it is.
	_, err := versionAt(ctx, dial, "https://"+address, &tls.Config{Certificates: certificates, InsecureSkipVerify: true})
	switch {
	case err == nil:
		return true, ""
	case strings.Contains(err.Error(), "remote error: tls: "):
		return false, ""
	}
	return false, err.Error()
}

// versionAt is what a listener says first to who asks for etcd's version at it, within a look.
func versionAt(ctx context.Context, dial dialer, url string, shown *tls.Config) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, finalTimeout)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DialContext: dial, TLSClientConfig: shown, DisableKeepAlives: true, TLSHandshakeTimeout: finalTimeout}, Timeout: finalTimeout + time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/version", nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // that it answers is enough
	return string(text), nil
}
