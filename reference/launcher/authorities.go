// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"context"
	"fmt"
	"time"

	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/store"
)

// Files of whom the machine's etcd trusts.
const (
	ClientsCA = "ca.crt"
	PeersCA   = "peer-ca.crt"
)

// NewAuthority makes the authorities of a ring that is bootstrapped: one that vouches to
// its clients for its servers and the other way round, and one that vouches for its
// members to each other. With one for both, whoever holds a client's certificate
// could send raft messages. The nth of a ring has a name of its own: a server says by name
// whose certificates it takes.
func NewAuthority(now time.Time, n int) (store.Authority, error) {
	suffix := ""
	if n > 1 {
		suffix = fmt.Sprintf("-%d", n)
	}
	clients, err := pki.NewAuthority(now, "ringadm"+suffix)
	if err != nil {
		return store.Authority{}, err
	}
	peers, err := pki.NewAuthority(now, "ringadm-peers"+suffix)
	if err != nil {
		return store.Authority{}, err
	}
	record := store.Authority{CertPEM: clients.CertPEM(), PeerCertPEM: peers.CertPEM()}
	if record.KeyPEM, err = clients.KeyPEM(); err != nil {
		return store.Authority{}, err
	}
	record.PeerKeyPEM, err = peers.KeyPEM()
	return record, err
}

// authorities sign a ring's certificates. One that was bootstrapped before its peers had
// their own has one for all.
type authorities struct {
	clients, peers pki.Authority
	parted         bool
}

// of is who signs a pair, and the file in which who trusts it keeps that.
func (a authorities) of(pair string) (authority pki.Authority, file string) {
	if pair == "peer" && a.parted {
		return a.peers, PeersCA
	}
	return a.clients, ClientsCA
}

// signers asks for the authorities' keys. They are kept for no longer than it takes to
// issue what is due.
func (c *certificates) signers(ctx context.Context) (all authorities, err error) {
	asking, cancel := c.host.Timeout(ctx, 2*time.Second)
	defer cancel()
	record, err := c.authority(asking)
	if err != nil {
		return all, fmt.Errorf("the ring's authority is not known: %w", err)
	}
	if all.clients, err = pki.ParseAuthority(record.CertPEM, record.KeyPEM); err != nil || !record.Parted() {
		return all, err
	}
	all.parted = true
	all.peers, err = pki.ParseAuthority(record.PeerCertPEM, record.PeerKeyPEM)
	return all, err
}

// trusted is the file of whom the machine's pair is vouched for by, and what is in
// it. A peer's on a disk without peer-ca.crt is vouched for by the one authority of
// a ring that has no other.
func trusted(read func(name string) ([]byte, error), pair string) (file string, ca []byte, err error) {
	if pair == "peer" {
		if ca, err = read(pkiDir + "/" + PeersCA); err == nil {
			return PeersCA, ca, nil
		} else if !missing(err) {
			return PeersCA, nil, err
		}
	}
	ca, err = read(pkiDir + "/" + ClientsCA)
	return ClientsCA, ca, err
}
