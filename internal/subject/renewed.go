// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/store"
)

// renews reports whether a plan has the ring's authorities renewed.
func renews(p ringproof.Plan) bool {
	return slices.ContainsFunc(p.Steps, func(s ringproof.Step) bool {
		return s.Op != nil && s.Op.Kind == ringproof.OpEdit && strings.HasPrefix(s.Op.Params["field"], "spec.certificates")
	})
}

// renewed are credentials of a client who is told when the ring has new authorities, as its
// administrator would be: it trusts all that there were, and has a certificate of each.
type renewed struct {
	store store.Store

	mu    sync.Mutex
	known int // generations
	pool  *x509.CertPool
	pairs []tls.Certificate // the newest first
}

// renewal is how soon an administrator has heard of new authorities.
const renewal = time.Second

// config is what a client dials with. It is kept true until ctx ends.
func (r *renewed) config(ctx context.Context) (*tls.Config, error) {
	if err := r.learn(ctx); err != nil {
		return nil, err
	}
	go func() {
		for ctx.Err() == nil {
			time.Sleep(renewal)
			_ = r.learn(ctx) // it is asked again
		}
	}()
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: r.verify, GetClientCertificate: r.show}, nil
}

func (r *renewed) learn(ctx context.Context) error {
	all, err := store.Log[store.Authority]{Store: r.store, Prefix: auto.AuthorityPrefix}.All(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("the store holds no authority yet")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(all) == r.known {
		return nil
	}
	pool, pairs := x509.NewCertPool(), []tls.Certificate{}
	for _, record := range slices.Backward(all) {
		authority, err := pki.ParseAuthority(record.CertPEM, record.KeyPEM)
		if err != nil {
			return err
		}
		issued, err := authority.IssueClient(time.Now(), pki.Subject{CommonName: "ringproof"}, pki.AuthorityLifetime)
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(issued.CertPEM, issued.KeyPEM)
		if err != nil {
			return err
		}
		pool.AppendCertsFromPEM(record.CertPEM)
		pairs = append(pairs, pair)
	}
	r.known, r.pool, r.pairs = len(all), pool, pairs
	return nil
}

// verify is what crypto/tls does by itself with authorities that don't change.
func (r *renewed) verify(s tls.ConnectionState) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: r.pool, DNSName: s.ServerName})
	return err
}

// show is the first certificate that the server takes.
func (r *renewed) show(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.pairs {
		if asked.SupportsCertificate(&r.pairs[i]) == nil {
			return &r.pairs[i], nil
		}
	}
	return &r.pairs[0], nil // which it refuses
}
