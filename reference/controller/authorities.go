// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// generation is a ring's authorities: who vouches to clients for servers and the other way
// round, and who vouches for members to each other.
type generation struct {
	clients, peers pki.Authority
	name           string // as launchers tell of it
}

func parseGeneration(record store.Authority) (g generation, err error) {
	if g.clients, err = pki.ParseAuthority(record.CertPEM, record.KeyPEM); err != nil {
		return g, err
	}
	if g.peers, err = pki.ParseAuthority(record.PeerCertPEM, record.PeerKeyPEM); err != nil {
		return g, err
	}
	clients, err := pki.Authorities(g.clients.CertPEM())
	if err != nil {
		return g, err
	}
	peers, err := pki.Authorities(g.peers.CertPEM())
	g.name = clients + "/" + peers
	return g, err
}

// bundles are the certificates of some, for clients' and for peers' trust.
func bundles(all []generation) (clients, peers []byte) {
	for _, g := range all {
		clients, peers = append(clients, g.clients.CertPEM()...), append(peers, g.peers.CertPEM()...)
	}
	return clients, peers
}

// trustName is how launchers tell whom an etcd trusts that was given these.
func trustName(all []generation) string {
	var clients, peers []string
	for _, g := range all {
		c, p, _ := strings.Cut(g.name, "/")
		clients, peers = append(clients, c), append(peers, p)
	}
	return strings.Join(clients, "+") + "/" + strings.Join(peers, "+")
}

// stage is how far a ring has come from one generation of authorities to the next. etcd reads
// whom it trusts once, as it starts, and what it shows at each handshake:
//
//   - first both are mounted, and each member restarts, in its turn, to trust both;
//   - once all do, the next signs what they show;
//   - once all show that, the next alone is mounted, and each member restarts to trust it
//     alone.
//
// What was done is seen, in the Secrets and in what launchers tell of the etcds that run, so
// whoever leads next goes on. It never goes back: who trusts the next alone refuses what the
// one before has signed. Of who is away, as it restarts, nothing is told, and nothing is
// undone for that; a Secret that somebody else wrote says nothing against what is told.
type stage struct {
	trust []generation // whom members are to trust
	signs generation   // who signs what they show
	over  bool         // all is as the last generation has it
	waits string       // what is waited for
}

// stage decides it. before are the slots' Secrets, as they are; view is nil where the ring
// was not read, and then what they have stays.
func (s *signers) stage(view *admin.View, before []*corev1.Secret) stage {
	last := s.all[len(s.all)-1]
	if len(s.all) == 1 {
		return stage{trust: s.all, signs: last, over: true}
	}
	both := s.all[len(s.all)-2:]
	alone := trustName(both[1:])
	trusts := func(p admin.Presence) bool { return p.Trusts == trustName(both) || p.Trusts == alone }
	shows := func(p admin.Presence) bool { return p.Shows == last.name }
	trusted, untrusting := each(view, trusts)
	shown, old := each(view, shows)
	done, not := each(view, func(p admin.Presence) bool { return p.Trusts == alone })
	begun := told(view, func(p admin.Presence) bool { return p.Trusts == alone })
	mounted := func(o *corev1.Secret) bool {
		clients, _ := bundles(both[1:])
		return o != nil && bytes.Equal(o.Data[launcher.ClientsCA], clients)
	}
	switch {
	case begun || shown && trusted || slices.ContainsFunc(before, mounted) && !told(view, func(p admin.Presence) bool { return !trusts(p) || !shows(p) }):
		over := done && !slices.ContainsFunc(before, func(o *corev1.Secret) bool { return !mounted(o) })
		return stage{trust: both[1:], signs: last, over: over, waits: fmt.Sprintf("the authorities are renewed: %s trusts the former ones yet", not)}
	case trusted || slices.ContainsFunc(before, last.signed):
		return stage{trust: both, signs: last, waits: fmt.Sprintf("the authorities are renewed: %s shows what the former ones signed", old)}
	}
	return stage{trust: both, signs: both[0], waits: fmt.Sprintf("the authorities are renewed: %s doesn't trust the new ones yet", untrusting)}
}

// signed reports whether the generation has signed what a Secret has for clients.
func (g generation) signed(o *corev1.Secret) bool {
	if o == nil {
		return false
	}
	by, err := pki.SignedBy(o.Data["server.crt"])
	return err == nil && strings.HasPrefix(g.name, by+"/")
}

// each reports whether what its launcher tells is so of every member, and of whom it isn't.
func each(view *admin.View, is func(admin.Presence) bool) (all bool, not string) {
	if view == nil {
		return false, "a ring that can't be read"
	}
	members := view.RingMembers()
	for _, m := range members {
		if p, told := view.Presences[m.Machine]; !told || !is(p) {
			return false, m.String()
		}
	}
	return len(members) > 0, "nobody"
}

// told reports whether what the launcher of some member tells is so.
func told(view *admin.View, is func(admin.Presence) bool) bool {
	return view != nil && slices.ContainsFunc(view.RingMembers(), func(m ring.Member) bool {
		p, told := view.Presences[m.Machine]
		return told && is(p)
	})
}

// rolls are the members that are to restart for whom they are to trust, by their slots.
func (s stage) rolls(view *admin.View) map[string]string {
	all := map[string]string{}
	if s.over || view == nil {
		return all
	}
	for _, m := range view.RingMembers() {
		if p, told := view.Presences[m.Machine]; told && p.Trusts != trustName(s.trust) {
			all[m.Machine] = "its etcd is to trust other authorities"
		}
	}
	return all
}

// authoritiesAsked is how many generations of authorities a ring is to have had.
func authoritiesAsked(r *v1alpha1.EtcdRing) int { return max(1, int(r.Spec.Certificates.Authority)) }

// learnAuthorities reads who signs the ring's certificates, or makes the first, of a ring that was
// not bootstrapped. Of two that make some the first wins, and is read.
func (x *automation) learnAuthorities(ctx context.Context, bootstrapped bool) error {
	if x.signers != nil {
		return nil
	}
	log := store.Log[store.Authority]{Store: x.records, Prefix: kube.AuthorityPrefix}
	records, err := log.All(ctx)
	if err != nil {
		return err
	}
	if len(records) == 0 && bootstrapped {
		return errors.New("the ring's authorities are gone: restore their records, or all members refuse whom others sign for; none are made anew")
	}
	if len(records) == 0 {
		record, err := launcher.NewAuthority(x.host.Now(), 1)
		if err != nil {
			return err
		}
		if _, err := log.Append(ctx, 0, record); err != nil {
			return err // the next turn reads whose is there
		}
		records = append(records, record)
	}
	s := &signers{records: records}
	for _, record := range records {
		g, err := parseGeneration(record)
		if err != nil {
			return err
		}
		s.all = append(s.all, g)
	}
	x.signers = s
	return nil
}

// renewAuthorities makes the next generation, if it is asked for and the last is in use
// everywhere, and reports whether it did.
func (x *automation) renewAuthorities(ctx context.Context, s Seen) (bool, error) {
	n := len(x.signers.all)
	if n >= authoritiesAsked(s.Ring) || s.Ring.Spec.Paused || !x.formed || s.View == nil || s.static() || !x.stage.over {
		return false, nil
	}
	record, err := launcher.NewAuthority(x.host.Now(), n+1)
	if err != nil {
		return false, err
	}
	_, err = store.Log[store.Authority]{Store: x.records, Prefix: kube.AuthorityPrefix}.Append(ctx, n, record)
	if err != nil && !errors.Is(err, store.ErrExists) {
		return false, err
	}
	x.signers, x.stage, x.certified = nil, stage{}, certified{} // all is read anew
	return true, x.learnAuthorities(ctx, true)
}
