// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ringproof/ringproof/reference/pki"
)

// pkiDir is where the machine's certificates are on its disk. The authority's
// key never is: a machine that is stolen can be itself and nobody else.
const pkiDir = "pki"

// renewBefore is how long before its end a certificate is issued anew.
const renewBefore = 30 * 24 * time.Hour

// secure makes the credentials with which this agent asks the ring: those on
// its disk, or new ones.
func (a *Agent) secure() error {
	if !a.tls() || a.ring.Secure != nil {
		return nil
	}
	if err := a.certify(); err != nil {
		return err
	}
	ca, pair, err := a.readPair("client")
	if err != nil {
		return err
	}
	a.ring.Secure, err = pki.ClientTLS(ca, pair)
	return err
}

// certify sees to it that the disk holds certificates that will do for the
// machine's address and for some time to come.
func (a *Agent) certify() error {
	for _, name := range []string{"server", "peer", "client"} {
		_, pair, err := a.readPair(name)
		if err == nil && a.good(pair) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := a.issue(name); err != nil {
			return err
		}
	}
	return nil
}

func (a *Agent) good(pair pki.Pair) bool {
	leaf, err := pair.Leaf()
	if err != nil || leaf.NotAfter.Sub(a.host.Now()) < renewBefore {
		return false
	}
	return len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 || pki.Covers(leaf, []string{a.Address}) == nil
}

func (a *Agent) issue(name string) error {
	if a.known.authority == nil {
		return fmt.Errorf("issuing the %s certificate: the ring's authority is not known: %s", name, a.known.trouble)
	}
	issue := map[string]func(time.Time, pki.Subject, time.Duration) (pki.Pair, error){
		"server": a.known.authority.IssueServer, "peer": a.known.authority.IssuePeer, "client": a.known.authority.IssueClient,
	}[name]
	subject := pki.Subject{CommonName: name + "-" + a.Machine}
	if name != "client" {
		subject.Hosts = []string{a.Address, "localhost", "127.0.0.1"}
	}
	pair, err := issue(a.host.Now(), subject, pki.LeafLifetime)
	if err != nil {
		return fmt.Errorf("issuing the %s certificate: %w", name, err)
	}
	return a.writePair(name, pair)
}

// writePair writes the key last: readPair takes a pair without it for none.
func (a *Agent) writePair(name string, pair pki.Pair) error {
	for _, file := range []struct {
		name    string
		content []byte
	}{{"ca.crt", a.known.authority.CertPEM()}, {name + ".crt", pair.CertPEM}, {name + ".key", pair.KeyPEM}} {
		if err := a.host.Disk().Write(pkiDir+"/"+file.name, file.content); err != nil {
			return fmt.Errorf("writing %s: %w", file.name, err)
		}
	}
	return nil
}

func (a *Agent) readPair(name string) (ca []byte, pair pki.Pair, err error) {
	read := func(file string) []byte {
		content, failed := a.host.Disk().Read(pkiDir + "/" + file)
		err = errors.Join(err, failed)
		return content
	}
	ca = read("ca.crt")
	pair = pki.Pair{CertPEM: read(name + ".crt"), KeyPEM: read(name + ".key")}
	return ca, pair, err
}

// Credentials reads the client's credentials that an agent left on the disk at
// root, for a person at the command line.
func Credentials(read func(name string) ([]byte, error)) (*tls.Config, error) {
	ca, err := read(pkiDir + "/ca.crt")
	if err != nil {
		return nil, err
	}
	cert, err := read(pkiDir + "/client.crt")
	if err != nil {
		return nil, err
	}
	key, err := read(pkiDir + "/client.key")
	if err != nil {
		return nil, err
	}
	return pki.ClientTLS(ca, pki.Pair{CertPEM: cert, KeyPEM: key})
}
