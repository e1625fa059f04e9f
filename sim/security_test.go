// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"crypto/tls"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/sim/etcd"
)

// security is a keeper's authority, and who does not belong to it.
type security struct {
	authority pki.Authority
	stranger  string // a machine whose certificates are another authority's
	other     pki.Authority
}

func newSecurity(t *testing.T) *security {
	t.Helper()
	own, err := pki.NewAuthority(Epoch, "own")
	require.NoError(t, err)
	other, err := pki.NewAuthority(Epoch, "other")
	require.NoError(t, err)
	return &security{authority: own, other: other}
}

func (x *security) scheme() string {
	if x == nil {
		return "http"
	}
	return "https"
}

func (x *security) flags(m *Machine) []string {
	if x == nil {
		return nil
	}
	at := func(name string) string { return m.Disk().Path(name) }
	return []string{"--cert-file=" + at("tls.crt"), "--key-file=" + at("tls.key"), "--trusted-ca-file=" + at("ca.crt"), "--client-cert-auth",
		"--peer-cert-file=" + at("tls.crt"), "--peer-key-file=" + at("tls.key"), "--peer-trusted-ca-file=" + at("ca.crt"), "--peer-client-cert-auth"}
}

// write puts the machine's certificate where the flags say.
func (x *security) write(m *Machine) error {
	if x == nil {
		return nil
	}
	by := x.authority
	if m.Name() == x.stranger {
		by = x.other
	}
	pair, err := by.IssuePeer(Epoch, pki.Subject{CommonName: m.Name(), Hosts: []string{m.Address()}}, 0)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM, "ca.crt": by.CertPEM()} {
		m.disk.put(name, content)
	}
	return nil
}

func (x *security) client() *tls.Config {
	if x == nil {
		return nil
	}
	c, err := signedBy(x.authority, x.authority)
	if err != nil {
		panic(err)
	}
	return c
}

// signedBy is a client that believes one authority and is vouched for by another.
func signedBy(believed, by pki.Authority) (*tls.Config, error) {
	pair, err := by.IssueClient(Epoch, pki.Subject{CommonName: "client"}, 0)
	if err != nil {
		return nil, err
	}
	return pki.ClientTLS(believed.CertPEM(), pair)
}

func pairBy(t *testing.T, by pki.Authority) pki.Pair {
	t.Helper()
	pair, err := by.IssueClient(Epoch, pki.Subject{CommonName: "client"}, 0)
	require.NoError(t, err)
	return pair
}

// listener is the identity that an etcd at 10.0.0.1 shows to clients.
func (x *security) listener(t *testing.T, demands bool) *identity {
	t.Helper()
	if !demands {
		return x.shows(t, etcd.TLSFiles{Cert: "tls.crt"})
	}
	return x.shows(t, etcd.TLSFiles{Cert: "tls.crt", CA: "ca.crt", ClientAuth: true})
}

func (x *security) shows(t *testing.T, files etcd.TLSFiles) *identity {
	t.Helper()
	m := &Machine{name: "m1", address: "10.0.0.1", disk: newDisk(0)}
	require.NoError(t, x.write(m))
	id, err := newIdentity(files, m.disk.files["tls.crt"], m.disk.files["tls.key"], m.disk.files["ca.crt"])
	require.NoError(t, err)
	return id
}

// TestHandshakes: each refusal has the reason that a real dialer is told.
func TestHandshakes(t *testing.T) {
	x := newSecurity(t)
	known := func(believed, by pki.Authority) *identity {
		c, err := signedBy(believed, by)
		require.NoError(t, err)
		id, err := dialer(c)
		require.NoError(t, err)
		return id
	}
	good := known(x.authority, x.authority)
	both, err := pki.ClientTLS(append(x.authority.CertPEM(), x.other.CertPEM()...), pairBy(t, x.other))
	require.NoError(t, err)
	believer, err := dialer(both)
	require.NoError(t, err)
	shows, err := dialer(&tls.Config{RootCAs: x.client().RootCAs})
	require.NoError(t, err)
	demands := x.listener(t, true)
	for name, c := range map[string]struct {
		dialer, listener *identity
		url              string
		at               time.Duration
		want             string // "": it is let in
	}{
		"plain to plain":                             {nil, nil, "http://10.0.0.1:2379", 0, ""},
		"TLS to TLS":                                 {good, demands, "https://10.0.0.1:2379", 0, ""},
		"TLS to plain":                               {good, nil, "https://10.0.0.1:2379", 0, "first record does not look like a TLS handshake"},
		"plain to TLS":                               {nil, demands, "http://10.0.0.1:2379", 0, "EOF"},
		"plain with certificates to TLS":             {good, demands, "http://10.0.0.1:2379", 0, "EOF"},
		"no authority":                               {nil, demands, "https://10.0.0.1:2379", 0, "no certificate authority is known"},
		"foreign listener":                           {known(x.other, x.authority), demands, "https://10.0.0.1:2379", 0, "signed by unknown authority"},
		"foreign dialer":                             {known(x.authority, x.other), demands, "https://10.0.0.1:2379", 0, "bad certificate"},
		"foreign dialer who trusts all":              {believer, demands, "https://10.0.0.1:2379", 0, "bad certificate"},
		"foreign dialer, not asked":                  {known(x.authority, x.other), x.listener(t, false), "https://10.0.0.1:2379", 0, ""},
		"no certificate":                             {shows, demands, "https://10.0.0.1:2379", 0, "certificate required"},
		"no certificate, to who trusts an authority": {shows, x.shows(t, etcd.TLSFiles{Cert: "tls.crt", CA: "ca.crt"}), "https://10.0.0.1:2379", 0, "certificate required"},
		"no certificate, not asked":                  {shows, x.listener(t, false), "https://10.0.0.1:2379", 0, ""},
		"another address":                            {good, demands, "https://10.0.0.2:2379", 0, "10.0.0.2"},
		"too late":                                   {good, demands, "https://10.0.0.1:2379", 366 * 24 * time.Hour, "expired or is not yet valid"},
		"too early":                                  {good, demands, "https://10.0.0.1:2379", -pki.Skew - time.Hour, "expired or is not yet valid"},
		"within the skew":                            {good, demands, "https://10.0.0.1:2379", -pki.Skew, ""},
	} {
		u, err := url.Parse(c.url)
		require.NoError(t, err)
		at := placeOf(u)
		for range 2 { // the second time the signatures are known
			err := trusted(c.dialer, c.listener, at, c.at)
			if c.want == "" {
				assert.NoError(t, err, name)
			} else {
				assert.ErrorContains(t, err, c.want, name)
			}
		}
	}
}

// TestTheFirstHourIsNotForEver: one that came too late may come in once its
// clock is right.
func TestTheFirstHourIsNotForEver(t *testing.T) {
	x := newSecurity(t)
	id, err := dialer(x.client())
	require.NoError(t, err)
	listener, at := x.listener(t, true), placeOf(&url.URL{Scheme: "https", Host: "10.0.0.1:2379"})
	require.Error(t, trusted(id, listener, at, 400*24*time.Hour))
	require.NoError(t, trusted(id, listener, at, 0))
}

// TestTheHourIsLookedAtEachTime: a listener that remembered how a handshake
// went would let an expired certificate in for ever, or never again. Who is in
// stays in: TLS looks at the hour when a connection begins.
func TestTheHourIsLookedAtEachTime(t *testing.T) {
	play(t, 7, &keeper{size: 1, secure: newSecurity(t)}, func(s *stage) {
		s.formed()
		m := s.machine("m1")
		c := s.dial(nil, m)
		_, err := s.put(c, "a", "1", time.Second)
		require.NoError(s, err)
		skew := ringproof.Fault{Kind: ringproof.FaultClockSkew, By: ringproof.Duration(400 * 24 * time.Hour)}
		s.do("skew", skew, "m1")
		_, err = s.put(c, "a", "2", time.Second)
		require.NoError(s, err)
		late := s.dial(nil, m)
		_, err = s.put(late, "a", "2", time.Second)
		require.ErrorContains(s, err, "certificate has expired")
		s.heal("skew", skew, "m1")
		_, err = s.put(late, "a", "3", time.Second)
		require.NoError(s, err)
		plain, err := s.Dial("http://10.0.0.1:2379", nil)
		require.NoError(s, err)
		_, err = s.get(plain, "a")
		assert.ErrorContains(s, err, "EOF")
	})
}

// TestAPeerOfAnotherAuthorityIsNoPeer: two of three are a ring, and the third
// stays outside until its certificate is right.
func TestAPeerOfAnotherAuthorityIsNoPeer(t *testing.T) {
	x := newSecurity(t)
	x.stranger = "m3"
	play(t, 7, &keeper{size: 3, secure: x}, func(s *stage) {
		s.until(10*time.Second, "two serve", func() bool { return len(s.serving()) == 2 })
		s.sleep(10 * time.Second)
		assert.ElementsMatch(s, []string{"m1", "m2"}, s.serving())
		x.stranger = ""
		s.do("again", ringproof.Fault{Kind: ringproof.FaultKill, Scope: "process"}, "m3")
		s.formed()
	})
}

// TestCertificatesMustBeThere: etcd doesn't start without the files that its
// flags name.
func TestCertificatesMustBeThere(t *testing.T) {
	play(t, 7, &keeper{size: 1, secure: newSecurity(t), agent: func(context.Context, *Machine) error { return nil }}, func(s *stage) {
		m := s.machine("m1")
		require.NoError(s, m.launch(s.keep.flags(m)))
		s.sleep(time.Second)
		assert.Nil(s, m.etcd)
		assert.Contains(s, m.words, "open /var/lib/ring/tls.crt")
	})
}
