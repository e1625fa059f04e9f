// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ringproof/ringproof/reference/ring"
)

// PeersSpeak is how the members of the ring are to speak to each other.
func (s Spec) PeersSpeak() ring.Security { return cmp.Or(s.Peers, s.Security) }

// PeersBegin is how those spoke that the ring was bootstrapped with. What has become of it since
// the members' records and the list say.
func (s Spec) PeersBegin() ring.Security { return cmp.Or(s.PeersFrom, s.PeersSpeak()) }

// PeerURL is where a member at an address is reached by its peers when the ring is bootstrapped.
func (s Spec) PeerURL(address string) string { return s.PeersBegin().URL(address, ring.PeerPort) }

// AskPeers has the members speak another way to each other. It refuses to take TLS back.
func (s *Spec) AskPeers(way ring.Security) error {
	before := s.PeersSpeak()
	switch {
	case way == before:
		return nil
	case way == ring.Plain:
		return errors.New("peers=plain refused: the peers of this ring speak TLS, or are on the way to it, and what they say is not sent in the clear again")
	}
	next := *s
	next.Peers, next.PeersFrom = way, before
	if err := next.checkPeers(); err != nil {
		return err
	}
	*s = next
	return nil
}

func (s Spec) checkPeers() error {
	switch {
	case s.Peers != "" && s.Peers != ring.TLS && s.Peers != ring.Plain:
		return fmt.Errorf("peers %q refused: choose tls or plain", s.Peers)
	case s.Security == ring.Plain && s.PeersSpeak() != ring.Plain:
		return errors.New("peers=tls beside security=plain refused: a ring whose clients speak plain text has no authority for certificates")
	case s.PeersFrom != "" && (s.PeersFrom != ring.Plain || s.PeersSpeak() != ring.TLS):
		return fmt.Errorf("peers from %q to %q refused: they go from plain to tls only", s.PeersFrom, s.PeersSpeak())
	}
	return nil
}
