// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var today = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

func newAuthority(t *testing.T, now time.Time) Authority {
	t.Helper()
	a, err := NewAuthority(now, "ring")
	require.NoError(t, err)
	return a
}

type issuer func(time.Time, Subject, time.Duration) (Pair, error)

func issued(t *testing.T, issue issuer, now time.Time, hosts ...string) Pair {
	t.Helper()
	p, err := issue(now, Subject{CommonName: "m1", Hosts: hosts}, 0)
	require.NoError(t, err)
	return p
}

// handshake does a real one over a pipe: server shows its certificate and wants
// one that ca signed; client dials name. The errors are each side's own.
func handshake(t *testing.T, ca []byte, server, client Pair, name string, now time.Time) (serverErr, clientErr error) {
	t.Helper()
	serving, err := tls.X509KeyPair(server.CertPEM, server.KeyPEM)
	require.NoError(t, err)
	trusted, err := pool(ca)
	require.NoError(t, err)
	dialling, err := ClientTLS(ca, client)
	require.NoError(t, err)
	clock := func() time.Time { return now }
	dialling.ServerName, dialling.Time = name, clock

	// TCP, because each side must be able to send its alert unheard.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		c := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{serving}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert, Time: clock})
		done <- c.Handshake()
	}()
	raw, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer raw.Close()
	conn := tls.Client(raw, dialling)
	clientErr = conn.Handshake()
	raw.Close()
	return <-done, clientErr
}

func TestHandshakes(t *testing.T) {
	ca := newAuthority(t, today)
	server := issued(t, ca.IssueServer, today, "n1.example", "10.0.0.1")
	peer := issued(t, ca.IssuePeer, today, "n2.example", "10.0.0.2")
	client := issued(t, ca.IssueClient, today)
	other := newAuthority(t, today)

	for _, c := range []struct {
		story          string
		ca             []byte
		server, client Pair
		name           string
		now            time.Time
		want           any // an error of either side, or nil
	}{
		{"a client dials a server by name", ca.CertPEM(), server, client, "n1.example", today, nil},
		{"and by address", ca.CertPEM(), server, client, "10.0.0.1", today, nil},
		{"a peer dials a peer", ca.CertPEM(), peer, peer, "10.0.0.2", today, nil},
		{"a peer dials a server", ca.CertPEM(), server, peer, "n1.example", today, nil},
		{"the gateway dials its own server", ca.CertPEM(), server, server, "n1.example", today, nil},
		{"by a bundle of two authorities", slices.Concat(other.CertPEM(), ca.CertPEM()), server, client, "n1.example", today, nil},
		{"a clock a day behind", ca.CertPEM(), server, client, "n1.example", today.Add(-Skew), nil},
		{"issued by a clock that was an hour ahead", ca.CertPEM(), issued(t, ca.IssueServer, today.Add(time.Hour), "n1.example"), client, "n1.example", today, nil},
		{"on the last day", ca.CertPEM(), server, client, "n1.example", today.Add(LeafLifetime), nil},
		{"the day after", ca.CertPEM(), server, client, "n1.example", today.Add(LeafLifetime + time.Second), x509.CertificateInvalidError{}},
		{"a clock further behind", ca.CertPEM(), server, client, "n1.example", today.Add(-Skew - time.Second), x509.CertificateInvalidError{}},
		{"another authority of the same name", other.CertPEM(), server, client, "n1.example", today, x509.UnknownAuthorityError{}},
		{"a client's certificate of another authority", ca.CertPEM(), server, issued(t, other.IssueClient, today), "n1.example", today, &tls.CertificateVerificationError{}},
		{"a server's certificate of another authority", ca.CertPEM(), issued(t, other.IssueServer, today, "n1.example"), client, "n1.example", today, x509.UnknownAuthorityError{}},
		{"a name that isn't there", ca.CertPEM(), server, client, "n2.example", today, x509.HostnameError{}},
		{"an address that isn't there", ca.CertPEM(), server, client, "10.0.0.2", today, x509.HostnameError{}},
		{"a client's certificate cannot serve", ca.CertPEM(), issued(t, ca.IssueClient, today, "n1.example"), client, "n1.example", today, x509.CertificateInvalidError{}},
	} {
		serverErr, clientErr := handshake(t, c.ca, c.server, c.client, c.name, c.now)
		switch want := c.want.(type) {
		case nil:
			require.NoError(t, errors.Join(serverErr, clientErr), c.story)
		case *tls.CertificateVerificationError: // the server's own verdict
			require.ErrorAs(t, serverErr, &want, c.story)
		case x509.CertificateInvalidError:
			require.ErrorAs(t, clientErr, &want, c.story)
		case x509.UnknownAuthorityError:
			require.ErrorAs(t, clientErr, &want, c.story)
		case x509.HostnameError:
			require.ErrorAs(t, clientErr, &want, c.story)
		}
	}
}

func TestExpiredClientIsRefusedByTheServer(t *testing.T) {
	ca := newAuthority(t, today)
	server := issued(t, ca.IssueServer, today, "n1")
	client, err := ca.IssueClient(today, Subject{CommonName: "c"}, time.Hour)
	require.NoError(t, err)
	serverErr, _ := handshake(t, ca.CertPEM(), server, client, "n1", today.Add(2*time.Hour))
	var invalid x509.CertificateInvalidError
	require.ErrorAs(t, serverErr, &invalid)
	require.Equal(t, x509.Expired, invalid.Reason)
}

func TestLeaf(t *testing.T) {
	ca := newAuthority(t, today)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	serials := map[string]bool{}
	for name, c := range map[string]struct {
		issue  issuer
		usages []x509.ExtKeyUsage
	}{
		"server": {ca.IssueServer, both}, "peer": {ca.IssuePeer, both},
		"client": {ca.IssueClient, both[1:]},
	} {
		p, err := c.issue(today, Subject{CommonName: name, Hosts: []string{"N1.example", "n1.example", "10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "*.ring.svc"}}, 0)
		require.NoError(t, err)
		leaf, err := p.Leaf()
		require.NoError(t, err)
		require.Equal(t, name, leaf.Subject.CommonName)
		require.Equal(t, c.usages, leaf.ExtKeyUsage)
		require.Equal(t, []string{"n1.example", "*.ring.svc", "10.0.0.1", "fd00::1"}, hosts(leaf))
		require.Equal(t, ca.cert.NotBefore, leaf.NotBefore)
		require.Equal(t, today.Add(LeafLifetime), leaf.NotAfter)
		require.False(t, leaf.IsCA)
		require.Equal(t, x509.KeyUsageDigitalSignature, leaf.KeyUsage)
		require.Equal(t, elliptic.P256(), leaf.PublicKey.(*ecdsa.PublicKey).Curve)
		serials[leaf.SerialNumber.String()] = true
	}
	require.Len(t, serials, 3)

	cert := ca.cert
	require.Equal(t, today.Add(AuthorityLifetime), cert.NotAfter)
	require.True(t, cert.IsCA && cert.MaxPathLenZero)
	require.Equal(t, elliptic.P256(), cert.PublicKey.(*ecdsa.PublicKey).Curve)
}

func TestLeafStaysWithinItsAuthority(t *testing.T) {
	ca := newAuthority(t, today)
	p, err := ca.IssueClient(today.Add(2*time.Hour), Subject{CommonName: "c"}, 20*AuthorityLifetime)
	require.NoError(t, err)
	leaf, err := p.Leaf()
	require.NoError(t, err)
	require.Equal(t, ca.cert.NotBefore, leaf.NotBefore)
	require.Equal(t, ca.cert.NotAfter, leaf.NotAfter)
}

func TestIssueRefuses(t *testing.T) {
	ca := newAuthority(t, today)
	good := Subject{CommonName: "m1", Hosts: []string{"n1"}}
	for want, try := range map[string]func() (Pair, error){
		"there is no authority":               func() (Pair, error) { return Authority{}.IssuePeer(today, good, 0) },
		"lifetime -1s refused":                func() (Pair, error) { return ca.IssuePeer(today, good, -time.Second) },
		"set the clock":                       func() (Pair, error) { return ca.IssuePeer(today.Add(-Skew-time.Hour), good, 0) },
		"the authority expired at 2037-02-26": func() (Pair, error) { return ca.IssuePeer(today.Add(AuthorityLifetime+time.Second), good, 0) },
		`common name "" refused`:              func() (Pair, error) { return ca.IssueClient(today, Subject{}, 0) },
		"common name \"a\\nb\" refused":       func() (Pair, error) { return ca.IssueClient(today, Subject{CommonName: "a\nb"}, 0) },
		"no hosts":                            func() (Pair, error) { return ca.IssuePeer(today, Subject{CommonName: "m1"}, 0) },
		`certificate "s1" refused: no hosts`:  func() (Pair, error) { return ca.IssueServer(today, Subject{CommonName: "s1"}, 0) },
	} {
		_, err := try()
		require.ErrorContains(t, err, want)
	}
	for _, host := range []string{"", "n1:2380", "https://n1", "10.0.0.300", "n_1", "a..b", "fe80::1%eth0", "*", "a.*.b", "10.0.0.0/8"} {
		_, err := ca.IssuePeer(today, Subject{CommonName: "m1", Hosts: []string{host}}, 0)
		require.ErrorContains(t, err, "write an IP address or a DNS name", "%q", host)
	}
	_, err := NewAuthority(today, strings.Repeat("x", 65))
	require.ErrorContains(t, err, "common name")
}

func TestParseAuthority(t *testing.T) {
	ca := newAuthority(t, today)
	key, err := ca.KeyPEM()
	require.NoError(t, err)
	back, err := ParseAuthority(ca.CertPEM(), key)
	require.NoError(t, err)
	require.Equal(t, ca.CertPEM(), back.CertPEM())
	p := issued(t, back.IssuePeer, today, "n1")
	serverErr, clientErr := handshake(t, ca.CertPEM(), p, p, "n1", today)
	require.NoError(t, errors.Join(serverErr, clientErr))

	otherKey, err := newAuthority(t, today).KeyPEM()
	require.NoError(t, err)
	leaf := issued(t, ca.IssueClient, today)
	for want, c := range map[string][2][]byte{
		"do not belong together":   {ca.CertPEM(), otherKey},
		"not belong together":      {ca.CertPEM(), nil},
		"may not sign others":      {leaf.CertPEM, leaf.KeyPEM},
		"no certificate":           {nil, key},
		"not a certificate in PEM": {key, key},
		"check that the right":     {[]byte("rubbish"), key},
	} {
		_, err := ParseAuthority(c[0], c[1])
		require.ErrorContains(t, err, want)
	}
	// Without a key usage, as openssl makes them, the basic constraints decide.
	plain := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: today, NotAfter: today.Add(time.Hour)}
	cert, err := sign(plain, plain, ca.key.Public(), ca.key)
	require.NoError(t, err)
	_, err = ParseAuthority(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), key)
	require.ErrorContains(t, err, "may not sign others")
	_, err = Authority{}.KeyPEM()
	require.ErrorContains(t, err, "there is no authority")
	require.Nil(t, Authority{}.CertPEM())
}

// etcdadm's authorities are RSA 2048; a ring that is taken over keeps its own.
func TestParseAuthorityOfAnotherMaker(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd"}, NotBefore: today, NotAfter: today.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	cert, err := sign(template, template, key.Public(), key)
	require.NoError(t, err)
	ca, err := ParseAuthority(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	require.NoError(t, err)
	p := issued(t, ca.IssuePeer, today, "n1")
	serverErr, clientErr := handshake(t, ca.CertPEM(), p, p, "n1", today)
	require.NoError(t, errors.Join(serverErr, clientErr))
}

func TestClientTLSRefuses(t *testing.T) {
	ca := newAuthority(t, today)
	a, b := issued(t, ca.IssueClient, today), issued(t, ca.IssueClient, today)
	_, err := ClientTLS(ca.CertPEM(), Pair{a.CertPEM, b.KeyPEM})
	require.ErrorContains(t, err, "do not belong together")
	_, err = ClientTLS(a.CertPEM, a)
	require.ErrorContains(t, err, "is not an authority")
	_, err = ClientTLS(append(ca.CertPEM(), "half a bundle"...), a)
	require.ErrorContains(t, err, "not a certificate in PEM")
	_, err = ClientTLS(nil, a)
	require.ErrorContains(t, err, "no certificate")
}

// TestParse: of a bundle, the certificate that ends first.
func TestParse(t *testing.T) {
	ca, older := newAuthority(t, today), newAuthority(t, today.Add(-time.Hour))
	first, err := Parse(slices.Concat(ca.CertPEM(), older.CertPEM()))
	require.NoError(t, err)
	require.Equal(t, older.cert.NotAfter, first.NotAfter)
	_, err = Parse([]byte("rubbish"))
	require.ErrorContains(t, err, "not a certificate in PEM")
}

func TestCovers(t *testing.T) {
	ca := newAuthority(t, today)
	leaf, err := issued(t, ca.IssuePeer, today, "n1.example", "10.0.0.1", "fd00::1", "*.ring.svc").Leaf()
	require.NoError(t, err)
	require.NoError(t, Covers(leaf, []string{"N1.example", "10.0.0.1", "fd00:0::1", "m3.ring.svc", "*.ring.svc"}))
	require.NoError(t, Covers(leaf, nil))
	require.EqualError(t, Covers(leaf, []string{"10.0.0.1", "10.0.0.9", "a.b.ring.svc"}),
		`certificate "m1" does not cover 10.0.0.9, a.b.ring.svc (it covers n1.example, *.ring.svc, 10.0.0.1, fd00::1): issue it again for all of them`)
	require.ErrorContains(t, Covers(leaf, []string{""}), "does not cover")
	require.ErrorContains(t, Covers(nil, []string{"n1"}), "issue one")
}

func TestNothingPrintsAKey(t *testing.T) {
	ca := newAuthority(t, today)
	caKey, err := ca.KeyPEM()
	require.NoError(t, err)
	p := issued(t, ca.IssuePeer, today, "n1")
	type holder struct {
		Authority Authority
		Pair      Pair
		Files     Files
	}
	all := holder{ca, p, Files{CA: ca.CertPEM(), Authority: ca, Pairs: map[string]Pair{"peer": p}}}
	var out bytes.Buffer
	for _, v := range []any{ca, &ca, p, &p, all, &all, []Pair{p}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		require.NoError(t, json.NewEncoder(&out).Encode(v))
	}
	_, err = ParseAuthority(caKey, caKey)
	fmt.Fprintln(&out, err)
	_, err = ParseAuthority(p.CertPEM, caKey)
	fmt.Fprintln(&out, err)
	require.Contains(t, out.String(), `authority "ring" until 2037-02-26T12:00:00Z (key not shown)`)
	require.Contains(t, out.String(), `pair "m1" until 2028-02-29T12:00:00Z (key not shown)`)
	require.False(t, shows(out.String(), caKey), "the authority's key is shown")
	require.False(t, shows(out.String(), p.KeyPEM), "the pair's key is shown")
	scalar, err := ca.key.(*ecdsa.PrivateKey).Bytes()
	require.NoError(t, err)
	require.NotContains(t, out.String(), new(big.Int).SetBytes(scalar).String(), "the authority's key is shown as a number")
	for _, verb := range []string{"%s", "%x", "%d", "%#v"} {
		require.True(t, shows(fmt.Sprintf(verb, caKey), caKey), "this test must see a key printed by %s", verb)
	}
}

// shows looks for the middle of the key in each of the ways to spell bytes. 60
// is a multiple of 3, so that base64 of the whole holds base64 of the middle.
func shows(text string, key []byte) bool {
	middle := key[60:90]
	for _, spelled := range []string{
		string(middle), hex.EncodeToString(middle), base64.StdEncoding.EncodeToString(middle),
		strings.Trim(fmt.Sprint(middle), "[]"), strings.Trim(fmt.Sprintf("%#v", middle), "[]byte{}"),
	} {
		if strings.Contains(text, spelled) {
			return true
		}
	}
	return false
}
