// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package foreign

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/reference/pki"
)

// certificates are where a machine of a ring with TLS finds its own. Peers have an
// authority of their own: what a client may show must open no peer's port.
func certificates(m trial.Machine) string { return filepath.Join(m.Run, "certificates") }

// certify makes the certificates of all machines, as a person does once, and those of
// the run's own clients.
func certify(machines []trial.Machine) (*tls.Config, error) {
	now := time.Now()
	peers, err := pki.NewAuthority(now, "peers of the ring")
	if err != nil {
		return nil, err
	}
	clients, err := pki.NewAuthority(now, "clients of the ring")
	if err != nil {
		return nil, err
	}
	client, err := clients.IssueClient(now, pki.Subject{CommonName: "client"}, pki.AuthorityLifetime)
	if err != nil {
		return nil, err
	}
	for _, m := range machines {
		of := pki.Subject{CommonName: m.Name, Hosts: []string{m.Name, m.Address, "localhost", "127.0.0.1"}}
		server, err := clients.IssueServer(now, of, pki.AuthorityLifetime)
		if err != nil {
			return nil, err
		}
		peer, err := peers.IssuePeer(now, of, pki.AuthorityLifetime)
		if err != nil {
			return nil, err
		}
		err = errors.Join(
			put(m, "clients", clients, map[string]pki.Pair{"server": server, "client": client}),
			put(m, "peers", peers, map[string]pki.Pair{"peer": peer}))
		if err != nil {
			return nil, err
		}
	}
	return pki.ClientTLS(clients.CertPEM(), client)
}

// put gives a machine what an authority vouches for.
func put(m trial.Machine, dir string, by pki.Authority, pairs map[string]pki.Pair) error {
	dir = filepath.Join(certificates(m), dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return pki.Write(dir, pki.Files{CA: by.CertPEM(), Pairs: pairs})
}
