// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/ring"
)

// renewing is a ring of three in which one generation takes over from another.
type renewing struct {
	t       *testing.T
	signers signers
	view    admin.View
	secrets []*corev1.Secret
	clients *corev1.Secret
	trusts  [3][]generation // as they tell
	shows   [3]generation
}

func newRenewing(t *testing.T) *renewing {
	t.Helper()
	w := &renewing{t: t, view: admin.View{ClusterID: 7, Presences: map[string]admin.Presence{}, Bindings: map[ring.ID]admin.Binding{}}}
	var err error
	for n := range 2 {
		record, err := launcher.NewAuthority(epoch, n+1)
		require.NoError(t, err)
		g, err := parseGeneration(record)
		require.NoError(t, err)
		w.signers.all = append(w.signers.all, g)
	}
	r := newRing(3)
	before := stage{trust: w.signers.all[:1], signs: w.signers.all[0]}
	for i := range 3 {
		slot := namesOf(r).Slot(i)
		w.view.Members = append(w.view.Members, &etcdserverpb.Member{ID: uint64(i) + 1, Name: slot, PeerURLs: []string{namesOf(r).PeerURL(slot, ring.TLS)}})
		w.view.Bindings[ring.ID(i+1)] = admin.Binding{Machine: slot}
		secret, _, err := before.certify(r, i, nil, epoch)
		require.NoError(t, err)
		w.secrets = append(w.secrets, secret)
		w.tell(i, w.signers.all[:1], w.signers.all[0])
	}
	w.clients, _, err = before.certifyClients(r, nil, epoch)
	require.NoError(t, err)
	w.letsClientsIn()
	return w
}

// tell has a launcher tell whom its etcd trusts, and who signed what it shows.
func (w *renewing) tell(i int, trusts []generation, shows generation) {
	w.trusts[i], w.shows[i] = trusts, shows
	slot := namesOf(newRing(3)).Slot(i)
	w.view.Presences[slot] = admin.Presence{Machine: slot, Trusts: trustName(trusts), Shows: shows.name}
}

// mount has the Secrets be as the stage has them.
func (w *renewing) mount(s stage) {
	for i, before := range w.secrets {
		after, _, err := s.certify(newRing(3), i, before, epoch)
		require.NoError(w.t, err)
		w.secrets[i] = after
	}
	after, _, err := s.certifyClients(newRing(3), w.clients, epoch)
	require.NoError(w.t, err)
	w.clients = after
}

// letsClientsIn asserts that each member trusts who shows the clients' certificate, and is trusted there.
func (w *renewing) letsClientsIn() {
	w.t.Helper()
	client, err := pki.Pair{CertPEM: w.clients.Data[corev1.TLSCertKey], KeyPEM: w.clients.Data[corev1.TLSPrivateKeyKey]}.Leaf()
	require.NoError(w.t, err)
	for i := range w.secrets {
		trusts, _ := bundles(w.trusts[i])
		assert.NoError(w.t, pki.Vouched(trusts, client), "r-%d lets them in", i)
		server, err := w.shows[i].clients.IssueServer(epoch, pki.Subject{CommonName: "server", Hosts: []string{"localhost"}}, time.Hour)
		require.NoError(w.t, err)
		leaf, err := server.Leaf()
		require.NoError(w.t, err)
		assert.NoError(w.t, pki.Vouched(w.clients.Data[corev1.ServiceAccountRootCAKey], leaf), "they trust r-%d", i)
	}
}

func (w *renewing) is(trust []generation, signs generation, over bool, waits string, rolls int) stage {
	w.t.Helper()
	s := w.signers.stage(&w.view, w.secrets)
	assert.Equal(w.t, trustName(trust), trustName(s.trust))
	assert.Equal(w.t, signs.name, s.signs.name)
	assert.Equal(w.t, over, s.over)
	assert.Contains(w.t, s.waits, waits)
	assert.Len(w.t, s.rolls(&w.view), rolls)
	return s
}

// TestStages takes a ring from one generation to the next: nothing is signed by the new one
// while anybody doesn't trust it, and the former one is trusted for as long as anybody shows
// what it has signed. Whoever uses the ring is let in by each, all the way.
func TestStages(t *testing.T) {
	w := newRenewing(t)
	both, former, next := w.signers.all, w.signers.all[0], w.signers.all[1]
	w.mount(w.is(both, former, false, "r-0 (1) doesn't trust the new ones yet", 3))
	for i := range 3 {
		w.is(both, former, false, fmt.Sprintf("r-%d (%d) doesn't trust", i, i+1), 3-i)
		w.tell(i, both, former)
		w.letsClientsIn()
	}
	w.mount(w.is(both, next, false, "shows what the former ones signed", 0))
	for i := range 3 {
		w.is(both, next, false, fmt.Sprintf("r-%d (%d) shows what the former", i, i+1), 0)
		w.tell(i, both, next)
		w.letsClientsIn()
	}
	w.mount(w.is(both[1:], next, false, "trusts the former ones yet", 3))
	for i := range 3 {
		w.is(both[1:], next, false, fmt.Sprintf("r-%d (%d) trusts the former", i, i+1), 3-i)
		w.tell(i, both[1:], next)
		w.letsClientsIn()
	}
	w.is(both[1:], next, true, "", 0)
}

// TestStagesNeverGoBack: who can't be asked, or has not told, is waited for, and what was
// mounted stays.
func TestStagesNeverGoBack(t *testing.T) {
	w := newRenewing(t)
	both, former, next := w.signers.all, w.signers.all[0], w.signers.all[1]
	unread := func() stage { return w.signers.stage(nil, w.secrets) }
	assert.Equal(t, former.name, unread().signs.name)
	for i := range 3 {
		w.tell(i, both, former)
	}
	delete(w.view.Presences, "r-1")
	w.is(both, former, false, "r-1 (2) doesn't trust", 0)
	w.tell(1, both, former)
	w.mount(w.is(both, next, false, "", 0))
	assert.Equal(t, next.name, unread().signs.name, "what the next has signed is not signed anew by the former")
	for i := range 3 {
		w.tell(i, both, next)
	}
	w.mount(w.is(both[1:], next, false, "", 3))
	assert.Equal(t, trustName(both[1:]), trustName(unread().trust), "who trusts the next alone refuses what the former has signed")
	assert.False(t, unread().over)
	r0 := w.view.Presences["r-0"]
	delete(w.view.Presences, "r-0")                                     // it restarts
	w.view.Presences["r-3"] = admin.Presence{Machine: "r-3", Disk: "d"} // no member is there
	w.is(both[1:], next, false, "r-0 (1) trusts the former", 2)
	w.view.Presences["r-0"] = r0
	w.tell(0, both[1:], next)
	w.tell(1, nil, next) // its etcd was not started by the launcher that tells
	w.is(both[1:], next, false, "r-1 (2) trusts the former", 2)
}

// TestASecretOfSomebodyElses: the new ones alone were mounted by hand, while members trust the
// former ones alone.
func TestASecretOfSomebodyElses(t *testing.T) {
	w := newRenewing(t)
	w.mount(stage{trust: w.signers.all[1:], signs: w.signers.all[0]})
	w.is(w.signers.all, w.signers.all[0], false, "doesn't trust the new ones yet", 3)
}

// A key that somebody put into a Secret is not signed.
func TestNobodyElsesKeyIsSigned(t *testing.T) {
	w, stranger := newRenewing(t), newRenewing(t)
	theirs := stranger.secrets[0].Data["server.key"]
	w.secrets[0].Data["server.crt"], w.secrets[0].Data["server.key"] = stranger.secrets[0].Data["server.crt"], theirs
	w.mount(stage{trust: w.signers.all, signs: w.signers.all[0]})
	assert.NotEqual(t, theirs, w.secrets[0].Data["server.key"])
}

// A pair that is signed by another keeps its key: etcd reads two files at a handshake.
func TestAnotherSignsTheSameKey(t *testing.T) {
	w := newRenewing(t)
	before := w.secrets[0].Data
	w.mount(stage{trust: w.signers.all, signs: w.signers.all[1]})
	for _, name := range []string{"server", "peer", "client"} {
		assert.Equal(t, before[name+".key"], w.secrets[0].Data[name+".key"], name)
		assert.NotEqual(t, before[name+".crt"], w.secrets[0].Data[name+".crt"], name)
	}
}

// TestClientsHaveACertificate: who uses the ring finds in one Secret what it takes, by the keys that
// Kubernetes has for it, and finds it again when somebody has deleted it.
func TestClientsHaveACertificate(t *testing.T) {
	c := bootstrapped(t)
	read := func() *corev1.Secret {
		o := &corev1.Secret{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "r-client-tls"}, o))
		return o
	}
	first := read()
	assert.Equal(t, corev1.SecretTypeTLS, first.Type)
	secure, err := pki.ClientTLS(first.Data["ca.crt"], pki.Pair{CertPEM: first.Data["tls.crt"], KeyPEM: first.Data["tls.key"]})
	require.NoError(t, err)
	assert.Equal(t, "r-client", secure.Certificates[0].Leaf.Subject.CommonName)
	require.NoError(t, c.Delete(t.Context(), first))
	c.reconciler.automation(c.reconcile()).certified = certified{} // a minute is over
	c.reconcile()
	assert.Equal(t, first.Data["ca.crt"], read().Data["ca.crt"])
}
