// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/pki"
)

// Issued are certificates that somebody else issues and renews: who runs the machine
// has no authority's key. etcd reads its pairs at each handshake, so a renewed one needs
// no restart.
type Issued struct {
	// Dir is where etcd finds them: ca.crt, peer-ca.crt, and of server, peer and client
	// each .crt and .key.
	Dir string
	// Read reads one of those files.
	Read func(name string) ([]byte, error)

	shown string // the files that the credentials were made of
}

// credentials are the client's, and whether they are others than the last time. A
// reader that comes between two files of a renewal finds a pair that doesn't belong
// together, and reads again.
func (i *Issued) credentials() (c *tls.Config, changed bool, err error) {
	read := map[string][]byte{}
	var all strings.Builder
	for _, name := range []string{ClientsCA, "client.crt", "client.key"} {
		if read[name], err = i.Read(name); err != nil {
			return nil, false, fmt.Errorf("the machine's certificates, which others issue: %w", err)
		}
		all.Write(read[name])
	}
	if all.String() == i.shown {
		return nil, false, nil
	}
	c, err = Credentials(func(name string) ([]byte, error) { return read[strings.TrimPrefix(name, pkiDir+"/")], nil })
	if err != nil {
		return nil, false, fmt.Errorf("the machine's certificates, which others issue: %w", err)
	}
	i.shown = all.String()
	return c, true, nil
}

// trusts names whom an etcd that is started now is to trust: "CLIENTS/PEERS", each as
// [pki.Authorities] names them.
func (i *Issued) trusts() (string, error) {
	return i.named(pki.Authorities, ClientsCA, PeersCA)
}

// shows names who signed what the etcd shows now, to clients and to peers, as trusts does.
// It reads them at each handshake.
func (i *Issued) shows() (string, error) { return i.named(pki.SignedBy, "server.crt", "peer.crt") }

// named reads two files, and what each is called.
func (i *Issued) named(what func([]byte) (string, error), clients, peers string) (string, error) {
	var names []string
	for _, file := range []string{clients, peers} {
		text, err := i.Read(file)
		if err != nil {
			return "", err
		}
		name, err := what(text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		names = append(names, name)
	}
	return strings.Join(names, "/"), nil
}

// takeIssued asks the ring with the certificates that there are now. Who has some keeps
// them where the files can't be read.
func (l *Launcher) takeIssued() error {
	credentials, changed, err := l.Issued.credentials()
	switch {
	case err != nil && l.Ring.Secure == nil:
		return err
	case err != nil:
		l.log.Say(host.EventTrouble, err.Error())
	case changed:
		l.Ring.Close() // clients dial with what they were given
		l.Ring.Secure = credentials
	}
	return nil
}
