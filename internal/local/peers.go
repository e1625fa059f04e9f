// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// ports asks each machine's etcd for something at its peer port, with a client's
// certificate, and at its client port, with none.
func (w *World) ports(ctx context.Context) (peer, client []ringproof.Port) {
	if w.secure == nil {
		return nil, nil
	}
	etcd := w.Subject.Etcd()
	return w.tried(ctx, etcd.Peer, w.secure.Certificates), w.tried(ctx, etcd.Client, nil)
}

// tried shows the certificates to that port of each machine.
func (w *World) tried(ctx context.Context, port int, shown []tls.Certificate) (all []ringproof.Port) {
	for _, n := range w.present() {
		if n.taken || !n.machine.On() || w.etcd(n) == 0 {
			continue
		}
		p := ringproof.Port{Machine: n.name}
		for range 3 { // who is being refused may be hung up on before it hears why
			if p.Admits, p.Err = admits(ctx, n.at(port), shown); p.Err == "" {
				break
			}
		}
		all = append(all, p)
	}
	return all
}

// admits reports whether the port answers who shows these certificates. A listener
// says that it refuses one, or wants one, in an alert; all else is unknown.
func admits(ctx context.Context, address string, certificates []tls.Certificate) (bool, string) {
	ctx, cancel := context.WithTimeout(ctx, lastLook)
	defer cancel()
	// Whom the listener trusts is looked at, and not who it is.
	shown := &tls.Config{Certificates: certificates, InsecureSkipVerify: true}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: shown, DisableKeepAlives: true, TLSHandshakeTimeout: lastLook}, Timeout: lastLook + time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/version", nil)
	if err != nil {
		return false, err.Error()
	}
	answer, err := client.Do(request)
	switch {
	case err == nil:
		answer.Body.Close()
		return true, ""
	case strings.Contains(err.Error(), "remote error: tls: "):
		return false, ""
	}
	return false, err.Error()
}
