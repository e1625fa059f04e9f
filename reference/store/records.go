// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ringproof/ringproof/reference/ring"
)

var (
	namePattern  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
	tokenPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// Spec is what the ring should be.
type Spec struct {
	Nodes   int          `json:"nodes"`
	Version ring.Version `json:"version"`
	// From is what was asked for before Version: members run it until they are upgraded.
	// "": no other ever was.
	From     ring.Version  `json:"from,omitempty"`
	Security ring.Security `json:"security"`
	// Peers is how members speak to each other; "" is as Security, which clients speak by.
	Peers ring.Security `json:"peers,omitempty"`
	// PeersFrom is how they spoke when Peers was asked for. "": no otherwise.
	PeersFrom ring.Security `json:"peersFrom,omitempty"`
	// Decommission names the machines to move members off. Its key is the one that agents of
	// the release before know: they refuse a spec with any other.
	Decommission []string `json:"retire,omitempty"`
	// Paused stops every change that the automation would make.
	Paused bool `json:"paused,omitempty"`
	// Zero means etcd's default.
	HeartbeatMillis int `json:"heartbeatMillis,omitempty"`
	ElectionMillis  int `json:"electionMillis,omitempty"`
	// SnapshotCount is etcd's --snapshot-count. Zero means etcd's default.
	SnapshotCount int `json:"snapshotCount,omitempty"`
	// ReplaceAfterMillis is how long a machine may be absent before a spare
	// takes its place. Zero means ten minutes.
	ReplaceAfterMillis int `json:"replaceAfterMillis,omitempty"`
	// CertificateMillis is how long a machine's certificates live; they are renewed
	// when a third of it is left. Zero means a year.
	CertificateMillis int `json:"certificateMillis,omitempty"`
	// Flags are given to every etcd besides those that ringadm sets, by name
	// without dashes. A running etcd has them once it is restarted.
	Flags map[string]string `json:"flags,omitempty"`
	// Machines is what single machines have for themselves, by name.
	Machines map[string]Own `json:"machines,omitempty"`
}

// Validate tells what is wrong with the spec.
func (s Spec) Validate() error {
	if s.Security != ring.TLS && s.Security != ring.Plain {
		return fmt.Errorf("security %q refused: choose tls or plain", s.Security)
	}
	return cmp.Or(checkSize(s.Nodes), checkVersion(s.Version), s.checkFrom(), s.checkPeers(), s.checkDecommission(), s.checkTiming(), s.checkFlags())
}

// replaceAfter is how long a machine is absent before a spare takes its place, if the
// spec doesn't say. A server takes three to five minutes to come back from a planned
// reboot, and whoever is replaced meanwhile finds its data set aside.
const replaceAfter = 10 * time.Minute

// Wanted is what the spec asks of the ring's membership.
func (s Spec) Wanted() ring.Spec {
	own := map[string]ring.Version{}
	for machine, o := range s.Machines { // order: a map of a map
		own[machine] = o.Version
	}
	return ring.Spec{Nodes: s.Nodes, Version: s.Version, From: s.From, Own: own, Encrypt: s.PeersFrom == ring.Plain, SnapshotCount: uint64(max(0, s.SnapshotCount)), Decommission: s.Decommission, Paused: s.Paused,
		ReplaceAfter: cmp.Or(time.Duration(s.ReplaceAfterMillis)*time.Millisecond, replaceAfter)}
}

func checkSize(n int) error {
	if n < 1 || n > 9 {
		return fmt.Errorf("%d members refused: choose an odd number from 1 to 9", n)
	}
	if n%2 == 0 {
		return fmt.Errorf("%d members refused: an even ring survives no more losses than %d; choose %d or %d", n, n-1, n-1, n+1)
	}
	return nil
}

func checkVersion(v ring.Version) error {
	_, err := ring.ParseVersion(string(v))
	return err
}

func (s Spec) checkDecommission() error {
	for _, machine := range s.Decommission {
		if err := checkName("machine to decommission", machine); err != nil {
			return err
		}
	}
	return checkDistinct("machine to decommission", s.Decommission)
}

// checkTiming holds etcd's own rules, so that a spec that no member could start
// with is refused before any member is restarted with it.
func (s Spec) checkTiming() error {
	heartbeat, election := s.HeartbeatMillis, s.ElectionMillis
	if s.SnapshotCount < 0 || s.ReplaceAfterMillis < 0 {
		return errors.New("negative snapshot count or replacement time refused: leave it out for the default")
	}
	if c := s.CertificateMillis; c != 0 && c < 10_000 {
		return fmt.Errorf("certificates of %d ms refused: choose 10s at least, or leave it out for a year", c)
	}
	if heartbeat < 0 || election < 0 {
		return errors.New("negative heartbeat or election time refused: leave it out for etcd's default")
	}
	if heartbeat == 0 {
		heartbeat = 100
	}
	if election == 0 {
		election = 1000
	}
	// Divided, because 5 times a huge heartbeat wraps around to a small one.
	if heartbeat > election/5 || election > 50_000 {
		return fmt.Errorf("election time of %d ms with a heartbeat of %d ms refused: etcd wants at least 5 heartbeats and at most 50000 ms", election, heartbeat)
	}
	return nil
}

// Machine is one that offers to run a member.
type Machine struct {
	Name    string `json:"name"`
	Address string `json:"address"` // a host name or an IP address, without a port
	// Disk identifies the data disk. It is made once, when the disk is first
	// used: another disk under the same name is another member's memory.
	Disk string `json:"disk"`
	// Versions are the etcd releases that this machine can run.
	Versions []ring.Version `json:"versions,omitempty"`
}

// Validate tells what is wrong with the machine.
func (m Machine) Validate() error {
	if err := cmp.Or(checkName("machine", m.Name), checkHost(m.Address), checkToken("disk", m.Disk)); err != nil {
		return err
	}
	for _, v := range m.Versions {
		if err := checkVersion(v); err != nil {
			return err
		}
	}
	return checkDistinct("version", m.Versions)
}

// Epoch is one term of leadership; its number in the log is the fencing token.
type Epoch struct {
	Holder string `json:"holder"`
	// Nonce tells the holder, after a creation of unknown outcome, that the
	// record is its own and not that of an earlier life under the same name.
	Nonce string `json:"nonce"`
}

// Validate tells what is wrong with the epoch.
func (e Epoch) Validate() error {
	return cmp.Or(checkName("holder", e.Holder), checkToken("nonce", e.Nonce))
}

// Made is what a ring's pods are made with on Kubernetes, from some moment on. What makes them says
// so too, and may be deleted and made anew.
type Made struct {
	Version   ring.Version `json:"version"`
	From      ring.Version `json:"from,omitempty"` // with what before an upgrade; "": never with another
	Launchers bool         `json:"launchers"`
}

// Validate tells what is wrong with it.
func (m Made) Validate() error {
	if m.From != "" {
		return cmp.Or(checkVersion(m.Version), checkVersion(m.From))
	}
	return checkVersion(m.Version)
}

// InitialMember is a member that a ring begins with.
type InitialMember struct {
	Name      string `json:"name"`
	Machine   string `json:"machine"`
	Disk      string `json:"disk"`
	PeerURL   string `json:"peerURL"`
	ClientURL string `json:"clientURL"`
	// Member is its ID in a ring that was adopted. 0: the one that follows from its peer
	// URL and the ring's token.
	Member uint64 `json:"member,omitempty"`
}

// Validate tells what is wrong with the initial member.
func (f InitialMember) Validate() error {
	return cmp.Or(checkName("member", f.Name), checkName("machine", f.Machine), checkToken("disk", f.Disk),
		checkURL("peer URL", f.PeerURL), checkURL("client URL", f.ClientURL))
}

// Identity is the ring, created exactly once.
type Identity struct {
	Token   string          `json:"token"`
	Members []InitialMember `json:"members"`
	Epoch   int             `json:"epoch"`
	// Static: the initial members were started without launchers, by flags of their own, and no
	// disk of theirs had a name. Their peers spoke plain text, unless the ring was adopted.
	Static bool `json:"static,omitempty"`
	// Cluster is the ID of a ring that was there before it was adopted; its members are
	// those that it had then. 0: the ring is bootstrapped by this record.
	Cluster uint64 `json:"cluster,omitempty"`
}

// Validate tells what is wrong with the identity.
func (i Identity) Validate() error {
	if err := cmp.Or(checkToken("token", i.Token), checkEpoch(i.Epoch), checkSize(len(i.Members))); err != nil {
		return err
	}
	if i.Adopted() && !i.Static {
		return fmt.Errorf("ring %x refused: a ring that was there before was begun without launchers", i.Cluster)
	}
	var schemes []string
	distinct := map[string][]string{}
	for _, m := range i.Members {
		if err := i.check(m); err != nil {
			return fmt.Errorf("member %q: %w", m.Name, err)
		}
		distinct["member"] = append(distinct["member"], m.Name)
		distinct["machine"] = append(distinct["machine"], m.Machine)
		if !i.Static {
			distinct["disk"] = append(distinct["disk"], m.Disk)
		}
		distinct["URL"] = append(distinct["URL"], m.PeerURL, m.ClientURL)
		scheme, _, _ := strings.Cut(m.PeerURL, ":")
		schemes = append(schemes, scheme)
	}
	for _, what := range []string{"member", "machine", "disk", "URL"} {
		if err := checkDistinct(what, distinct[what]); err != nil {
			return err
		}
	}
	return checkSameScheme(schemes)
}

// check tells what is wrong with an initial member of the ring.
func (i Identity) check(f InitialMember) error {
	switch {
	case i.Static && f.Disk != "":
		return fmt.Errorf("disk %q refused: initial members that no launcher started have none", f.Disk)
	case i.Adopted() != (f.Member != 0):
		return fmt.Errorf("ID %x in ring %x refused: the ring and its members have IDs of before together, or none has", f.Member, i.Cluster)
	case i.Static && !i.Adopted() && !strings.HasPrefix(f.PeerURL, "http:"):
		return fmt.Errorf("peer URL %q refused: initial members that no launcher started speak plain text", f.PeerURL)
	case i.Static:
		f.Disk = "none"
	}
	return f.Validate()
}

// A ring begins either plain or with TLS; the mixed phase is for moving a ring
// that exists, and initial members that disagree would never hear each other.
func checkSameScheme(schemes []string) error {
	for _, s := range schemes {
		if s != schemes[0] {
			return fmt.Errorf("initial members with both %s and %s peer URLs refused: choose one", schemes[0], s)
		}
	}
	return nil
}

// Formed says that the ring answered for the first time.
type Formed struct {
	ClusterID string `json:"clusterID"` // as etcd prints it: hexadecimal
	Epoch     int    `json:"epoch"`
}

// Formed is the record that the ring has answered.
func (i Identity) Formed() Formed {
	return Formed{ClusterID: fmt.Sprintf("%x", i.ClusterID()), Epoch: i.Epoch}
}

// Validate tells what is wrong with the record.
func (f Formed) Validate() error {
	id, err := strconv.ParseUint(f.ClusterID, 16, 64)
	if err != nil || id == 0 || fmt.Sprintf("%x", id) != strings.TrimLeft(f.ClusterID, "0") {
		return fmt.Errorf("cluster ID %q refused: write it as etcd prints it, in lower-case hexadecimal", f.ClusterID)
	}
	return checkEpoch(f.Epoch)
}

// Authority is the certificate authority of the ring. The record in the store
// holds the private key; nothing that prints an Authority does, encoding/json
// included. So write it through a [Log], which stores the whole.
type Authority struct {
	CertPEM []byte `json:"certPEM"`
	KeyPEM  []byte `json:"keyPEM"`
	// The peers' own, whom no client shows a certificate of. Rings that were bootstrapped
	// before have none, and one authority for all.
	PeerCertPEM []byte `json:"peerCertPEM,omitempty"`
	PeerKeyPEM  []byte `json:"peerKeyPEM,omitempty"`
}

// Parted reports whether peers have an authority of their own.
func (a Authority) Parted() bool { return len(a.PeerCertPEM)+len(a.PeerKeyPEM) > 0 }

// Validate tells what is wrong with the authority.
func (a Authority) Validate() error {
	if err := checkAuthority(a.CertPEM, a.KeyPEM); err != nil || !a.Parted() {
		return err
	}
	if err := checkAuthority(a.PeerCertPEM, a.PeerKeyPEM); err != nil {
		return fmt.Errorf("the peers' %w", err)
	}
	if bytes.Equal(a.PeerCertPEM, a.CertPEM) {
		return errors.New("authority refused: the peers' own is that of the clients; create another for them")
	}
	return nil
}

func checkAuthority(cert, key []byte) error {
	// The cause is left out: it could quote what it failed to parse.
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return errors.New("authority refused: the certificate and the key are not a pair in PEM; create the authority anew")
	}
	if pair.Leaf == nil || !pair.Leaf.IsCA {
		return errors.New("authority refused: its certificate is not that of an authority; use the one that signs, not one it signed")
	}
	return nil
}

// String shows how much there is, never the key.
func (a Authority) String() string {
	return fmt.Sprintf("authority with %d bytes of certificate (key not shown)", len(a.CertPEM))
}

// GoString is String: %#v is how keys get into test logs.
func (a Authority) GoString() string { return a.String() }

// Format is String for every verb: %d would list the key as numbers.
func (a Authority) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.String()) }

// LogValue is String.
func (a Authority) LogValue() slog.Value { return slog.StringValue(a.String()) }

// MarshalText is String.
func (a Authority) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// stored is the whole. It is another type, without the methods above.
func (a Authority) stored() any {
	type whole Authority
	return whole(a)
}

func checkName(what, name string) error {
	if long := tooLong(name); long != "" {
		return fmt.Errorf("%s name %.80q refused: %s", what, name, long)
	}
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%s name %.80q refused: use lower-case letters, digits, '-' and '.', as in a host name", what, name)
	}
	return nil
}

// tooLong says what is longer than in any host name; "": nothing is.
func tooLong(name string) string {
	if len(name) > 253 {
		return fmt.Sprintf("it has %d characters, use at most 253", len(name))
	}
	for part := range strings.SplitSeq(name, ".") {
		if len(part) > 63 {
			return fmt.Sprintf("it has %d characters between two dots, use at most 63", len(part))
		}
	}
	return ""
}

func checkToken(what, token string) error {
	if !tokenPattern.MatchString(token) {
		return fmt.Errorf("%s %.80q refused: use 1 to 128 letters, digits, '.', '_' and '-'", what, token)
	}
	return nil
}

func checkEpoch(epoch int) error {
	if epoch < 1 {
		return fmt.Errorf("epoch %d refused: epochs begin at 1; take one before deciding for the ring", epoch)
	}
	return nil
}

func checkHost(host string) error {
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	// 10.0.0.300 has the form of a host name, and is a mistyped address.
	mistyped := strings.Trim(host[strings.LastIndex(host, ".")+1:], "0123456789") == ""
	if long := tooLong(host); long != "" {
		return fmt.Errorf("address %.80q refused: %s", host, long)
	}
	if mistyped || !namePattern.MatchString(host) {
		return fmt.Errorf("address %.80q refused: write an IP address or a host name, without a port", host)
	}
	return nil
}

func checkURL(what, address string) error {
	u, err := url.Parse(address)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Scheme+"://"+u.Host == address {
		if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil && port > 0 {
			return checkHost(u.Hostname())
		}
	}
	return fmt.Errorf("%s %.300q refused: write a scheme, a host and a port, as in https://10.0.0.1:2380", what, address)
}

func checkDistinct[T ~string](what string, names []T) error {
	seen := map[T]bool{}
	for _, name := range names {
		if seen[name] {
			return fmt.Errorf("%s %q is there twice: give each once", what, name)
		}
		seen[name] = true
	}
	return nil
}
