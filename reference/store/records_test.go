// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/ring"
)

func goodSpec() Spec { return Spec{Nodes: 3, Version: "v3.6.16", Security: "tls"} }

func initialMember(i int) InitialMember {
	return InitialMember{
		Name: fmt.Sprintf("m%d", i), Machine: fmt.Sprintf("n%d", i), Disk: fmt.Sprintf("disk-%d", i),
		PeerURL: fmt.Sprintf("https://10.0.0.%d:2380", i), ClientURL: fmt.Sprintf("https://10.0.0.%d:2379", i),
	}
}

func goodIdentity() Identity {
	return Identity{Token: "ring-1", Members: []InitialMember{initialMember(1), initialMember(2), initialMember(3)}, Epoch: 1}
}

func authority(t testing.TB) Authority {
	t.Helper()
	a, err := pki.NewAuthority(time.Unix(1_800_000_000, 0), "ring")
	require.NoError(t, err)
	key, err := a.KeyPEM()
	require.NoError(t, err)
	return Authority{CertPEM: a.CertPEM(), KeyPEM: key}
}

func TestSpecSizes(t *testing.T) {
	for n, want := range map[int]string{
		-1: "-1 members refused: choose an odd number from 1 to 9",
		0:  "0 members refused: choose an odd number from 1 to 9",
		2:  "2 members refused: an even ring survives no more losses than 1; choose 1 or 3",
		4:  "4 members refused: an even ring survives no more losses than 3; choose 3 or 5",
		8:  "8 members refused: an even ring survives no more losses than 7; choose 7 or 9",
		10: "10 members refused: choose an odd number from 1 to 9",
		11: "11 members refused: choose an odd number from 1 to 9",
	} {
		s := goodSpec()
		s.Nodes = n
		require.EqualError(t, s.Validate(), want)
	}
	for n := 1; n <= 9; n += 2 {
		s := goodSpec()
		s.Nodes = n
		require.NoError(t, s.Validate())
	}
}

func TestSpecRefuses(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		`version "3.6.16" refused`:        func(s *Spec) { s.Version = "3.6.16" },
		`version "v3.6" refused`:          func(s *Spec) { s.Version = "v3.6" },
		`version "v3.06.1" refused`:       func(s *Spec) { s.Version = "v3.06.1" },
		`version "v3.6.1-rc.0"`:           func(s *Spec) { s.Version = "v3.6.1-rc.0" },
		`version "v3.6.1\n"`:              func(s *Spec) { s.Version = "v3.6.1\n" },
		`security "" refused`:             func(s *Spec) { s.Security = "" },
		`security "TLS" refused`:          func(s *Spec) { s.Security = "TLS" },
		`name "N1" refused`:               func(s *Spec) { s.Decommission = []string{"N1"} },
		`"n1" is there twice`:             func(s *Spec) { s.Decommission = []string{"n1", "n2", "n1"} },
		"negative heartbeat":              func(s *Spec) { s.HeartbeatMillis = -1 },
		"negative heartbeat or":           func(s *Spec) { s.ElectionMillis = -1 },
		"1000 ms with a heartbeat of 201": func(s *Spec) { s.HeartbeatMillis = 201 },
		"499 ms with a heartbeat of 100":  func(s *Spec) { s.ElectionMillis = 499 },
		"at most 50000 ms":                func(s *Spec) { s.ElectionMillis = 50_001 },
		"2305843009213693952 ms refused":  func(s *Spec) { s.HeartbeatMillis = 1 << 61 },
	} {
		s := goodSpec()
		change(&s)
		require.ErrorContains(t, s.Validate(), want)
	}
	s := goodSpec()
	s.Decommission, s.HeartbeatMillis, s.ElectionMillis, s.Paused = []string{"n1", "n2.example"}, 200, 1000, true
	require.NoError(t, s.Validate())
}

// TestSpecKeepsItsKeys: two agents of which one is of the release before read what the other
// writes. One refuses a spec with a key that it doesn't know, and then does nothing at all.
func TestSpecKeepsItsKeys(t *testing.T) {
	const record = `{"nodes":3,"version":"v3.6.16","security":"tls","retire":["n2"]}`
	s, err := decode[Spec]("spec/00000002.json", []byte(record))
	require.NoError(t, err)
	require.Equal(t, []string{"n2"}, s.Decommission)
	written, err := json.Marshal(s)
	require.NoError(t, err)
	require.Equal(t, record, string(written))
}

func TestMachineRefuses(t *testing.T) {
	good := Machine{Name: "n1", Address: "10.0.0.1", Disk: "d-1", Versions: []ring.Version{"v3.5.35", "v3.6.16"}}
	require.NoError(t, good.Validate())
	for _, address := range []string{"n1.example", "fd00::1", "127.0.0.2", "n1"} {
		m := good
		m.Address = address
		require.NoError(t, m.Validate(), address)
	}
	for _, address := range []string{"", "10.0.0.300", "10.0.0.1:2380", "https://n1", "N1", "-n1", "1"} {
		m := good
		m.Address = address
		require.ErrorContains(t, m.Validate(), "write an IP address or a host name", address)
	}
	for want, change := range map[string]func(*Machine){
		`machine name "" refused`:     func(m *Machine) { m.Name = "" },
		`machine name "../n1"`:        func(m *Machine) { m.Name = "../n1" },
		`disk "" refused`:             func(m *Machine) { m.Disk = "" },
		`disk "a/b" refused`:          func(m *Machine) { m.Disk = "a/b" },
		`version "latest" refused`:    func(m *Machine) { m.Versions = []ring.Version{"latest"} },
		`version "v3.5.1" is there t`: func(m *Machine) { m.Versions = []ring.Version{"v3.5.1", "v3.5.1"} },
	} {
		m := good
		change(&m)
		require.ErrorContains(t, m.Validate(), want)
	}
}

func TestIdentityRefuses(t *testing.T) {
	require.NoError(t, goodIdentity().Validate())
	for want, change := range map[string]func(*Identity){
		`token "" refused`:                              func(i *Identity) { i.Token = "" },
		"epoch 0 refused":                               func(i *Identity) { i.Epoch = 0 },
		"0 members refused":                             func(i *Identity) { i.Members = nil },
		"2 members refused":                             func(i *Identity) { i.Members = i.Members[:2] },
		`member "m1" is there twice`:                    func(i *Identity) { i.Members[1].Name = "m1" },
		`machine "n1" is there tw`:                      func(i *Identity) { i.Members[1].Machine = "n1" },
		`disk "disk-1" is there`:                        func(i *Identity) { i.Members[1].Disk = "disk-1" },
		`URL "https://10.0.0.1:2380" is there twice`:    func(i *Identity) { i.Members[1].ClientURL = i.Members[0].PeerURL },
		"both https and http":                           func(i *Identity) { i.Members[1].PeerURL = "http://10.0.0.2:2380" },
		`member "m3": peer URL "10.0.0.3:2380" refused`: func(i *Identity) { i.Members[2].PeerURL = "10.0.0.3:2380" },
		`client URL "https://n3" refused`:               func(i *Identity) { i.Members[2].ClientURL = "https://n3" },
		`client URL "https://n3:0" refused`:             func(i *Identity) { i.Members[2].ClientURL = "https://n3:0" },
		`client URL "https://u:p@n3:1" refused`:         func(i *Identity) { i.Members[2].ClientURL = "https://u:p@n3:1" },
		`client URL "https://n3:1/x" refused`:           func(i *Identity) { i.Members[2].ClientURL = "https://n3:1/x" },
		`address "10.0.0.300" refused`:                  func(i *Identity) { i.Members[2].ClientURL = "https://10.0.0.300:1" },
		`disk "" refused`:                               func(i *Identity) { i.Members[2].Disk = "" },
	} {
		i := goodIdentity()
		change(&i)
		require.ErrorContains(t, i.Validate(), want)
	}
	i := goodIdentity()
	i.Members[0].PeerURL = "https://[fd00::1]:2380"
	require.NoError(t, i.Validate())
}

func TestEpochAndFormedRefuse(t *testing.T) {
	require.NoError(t, Epoch{Holder: "n1", Nonce: "x"}.Validate())
	require.Error(t, Epoch{Holder: "", Nonce: "x"}.Validate())
	require.Error(t, Epoch{Holder: "n1", Nonce: ""}.Validate())
	for _, id := range []string{"cdf818194e3a8c32", "1", "0cdf818194e3a8c3"} {
		require.NoError(t, Formed{ClusterID: id, Epoch: 1}.Validate(), id)
	}
	for _, id := range []string{"", "0", "0000", "CDF8", "0x1f", "+1f", "1_0", "cdf818194e3a8c321"} {
		require.ErrorContains(t, Formed{ClusterID: id, Epoch: 1}.Validate(), "lower-case hexadecimal", id)
	}
	require.ErrorContains(t, Formed{ClusterID: "1"}.Validate(), "epoch 0 refused")
}

func TestAuthorityRefuses(t *testing.T) {
	good := authority(t)
	require.NoError(t, good.Validate())
	ca, err := pki.ParseAuthority(good.CertPEM, good.KeyPEM)
	require.NoError(t, err)
	leaf, err := ca.IssueClient(time.Unix(1_800_000_000, 0), pki.Subject{CommonName: "x"}, 0)
	require.NoError(t, err)
	require.ErrorContains(t, Authority{CertPEM: leaf.CertPEM, KeyPEM: leaf.KeyPEM}.Validate(), "not that of an authority")
	for _, bad := range []Authority{{}, {CertPEM: good.CertPEM}, {CertPEM: good.CertPEM, KeyPEM: leaf.KeyPEM}} {
		require.ErrorContains(t, bad.Validate(), "not a pair")
	}
	peers := authority(t)
	require.NoError(t, Authority{good.CertPEM, good.KeyPEM, peers.CertPEM, peers.KeyPEM}.Validate())
	require.ErrorContains(t, Authority{good.CertPEM, good.KeyPEM, peers.CertPEM, nil}.Validate(), "the peers' authority refused")
	require.ErrorContains(t, Authority{good.CertPEM, good.KeyPEM, good.CertPEM, good.KeyPEM}.Validate(), "create another")
}

// The store must have the key, or the ring has no authority after a restart;
// nothing else may.
func TestAuthorityKeyGoesToTheStoreOnly(t *testing.T) {
	m := newMemory()
	l := Log[Authority]{Store: m, Prefix: "authority"}
	secret, peers := authority(t), authority(t)
	secret.PeerCertPEM, secret.PeerKeyPEM = peers.CertPEM, peers.KeyPEM
	_, err := l.Append(t.Context(), 0, secret)
	require.NoError(t, err)
	_, back, err := l.Latest(t.Context())
	require.NoError(t, err)
	require.True(t, bytes.Equal(secret.KeyPEM, back.KeyPEM) && bytes.Equal(secret.CertPEM, back.CertPEM))

	type Holder struct{ Authority Authority }
	var out bytes.Buffer
	for _, v := range []any{secret, &secret, Holder{secret}, []Authority{secret}, map[string]Authority{"a": secret}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		require.NoError(t, json.NewEncoder(&out).Encode(v))
	}
	require.Contains(t, out.String(), "key not shown")
	requireNoKey(t, out.String(), secret.KeyPEM)
	requireNoKey(t, out.String(), secret.PeerKeyPEM)
}

func requireNoKey(t *testing.T, text string, key []byte) {
	t.Helper()
	if shows(text, key) {
		t.Fatal("the private key is shown") // without the text, which shows it
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

func TestKeyIsFoundWhenShown(t *testing.T) {
	key := authority(t).KeyPEM
	for _, verb := range []string{"%s", "%x", "%d", "%#v"} {
		require.True(t, shows(fmt.Sprintf(verb, key), key), verb)
	}
	text, err := json.Marshal(key)
	require.NoError(t, err)
	require.True(t, shows(string(text), key))
}
