// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/store"
)

// pkiDir is where the machine's certificates are on its disk. The authority's key
// never is: a disk that is stolen can be its machine until its certificates end. A
// machine that mounts the store can be anybody, as whoever reads the store can.
const pkiDir = "pki"

// pairs are what the machine shows: as a server to clients, to peers, and as a client.
var pairs = []string{"server", "peer", "client"}

// certificates are what a machine shows, and what keeps it good.
type certificates struct {
	host      host.Host
	log       *host.Recorder
	machine   string
	address   string
	authority func(context.Context) (store.Authority, error)

	// shown is what the machine showed last. A disk that comes new, or is damaged, while
	// nobody signs gets it back: the machine is the same.
	shown  map[string]exhibit
	looked time.Time     // at them, last
	asked  time.Duration // how long they were to live then
	ends   time.Time     // when the first of those ends that were there then and not renewed
}

// exhibit is a pair, and who vouches for it.
type exhibit struct {
	file string // of the authority
	ca   []byte
	pair pki.Pair
}

// condition is what one pair on the disk is good for.
type condition struct {
	name string
	pair pki.Pair
	bad  error     // it can't be shown: why
	ends time.Time // of one that can be
	due  bool      // it is to be renewed
}

// renewalPaces is how often certificates are looked at in the time of one: those of
// a year twice a day.
const renewalPaces = 730

// endedPace is how often one is looked at that could not be renewed and is over, or almost. The disk
// was full as the certificates ended; once there is room, nobody can reach anybody until the next look.
const endedPace = 10 * time.Second

// due reports whether they are to be looked at again: at once when they are to live longer
// or shorter. Somebody asks for a year where there are those of an hour: at the pace of a
// year they would end before they are looked at.
func (c *certificates) due(lifetime time.Duration) bool {
	since := c.host.Now().Sub(c.looked)
	return lifetime != c.asked || since < 0 || since >= c.pace()
}

// pace is how soon they are looked at again: often in the time of one, and often enough
// for the first that ends.
func (c *certificates) pace() time.Duration {
	pace := c.asked / renewalPaces
	if c.ends.IsZero() {
		return pace
	}
	return min(pace, max(endedPace, c.ends.Sub(c.looked)/3))
}

// lifetimeOf is how long the certificates of a ring live.
func lifetimeOf(asked store.Spec) time.Duration {
	return cmp.Or(time.Duration(asked.CertificateMillis)*time.Millisecond, pki.LeafLifetime)
}

// keep renews what is due, and reports whether anything is new. It fails only if
// there is nothing to show: what can't be renewed now may be good for months, and
// even one that is over may be believed again once a clock is set right.
func (c *certificates) keep(ctx context.Context, lifetime time.Duration) (changed bool, err error) {
	begun := c.host.Now()
	c.ends = time.Time{}
	due, changed := c.dueOnDisk(lifetime)
	if len(due) > 0 {
		signers, unknown := c.signers(ctx)
		for _, x := range due {
			renewed, err := c.replace(x, signers, unknown, lifetime)
			if err != nil {
				return changed, err
			}
			changed = changed || renewed
		}
	}
	c.looked, c.asked = begun, lifetime
	c.warn()
	return changed, nil
}

// warn tells long before the end of an authority that it comes: what it signs can't be
// renewed beyond that, and nothing here makes another. A year is short for that.
func (c *certificates) warn() {
	all, err := Certificates(c.host)
	if err != nil {
		return // of a pair, and keep has told it
	}
	var ending []string
	for _, of := range all {
		if slices.Contains([]string{ClientsCA, PeersCA}, of.File) && of.Trouble != "" {
			ending = append(ending, fmt.Sprintf("the authority in %s is good until %s: %s", of.File, of.Until.UTC().Format(time.RFC3339), of.Trouble))
		}
	}
	if len(ending) > 0 {
		c.log.Say(host.EventTrouble, strings.Join(ending, "; "))
	}
}

// dueOnDisk lists the pairs that are to be renewed, once those that the disk has lost
// were put back; changed: some were.
func (c *certificates) dueOnDisk(lifetime time.Duration) (due []condition, changed bool) {
	for _, name := range pairs {
		x := c.inspect(name, lifetime)
		if x.bad != nil && c.putBack(name) == nil {
			x, changed = c.inspect(name, lifetime), true
		}
		if x.bad != nil || x.due {
			due = append(due, x)
			continue
		}
		c.stays(x)
	}
	return due, changed
}

// stays notes that a pair is not renewed now.
func (c *certificates) stays(x condition) {
	if c.ends.IsZero() || x.ends.Before(c.ends) {
		c.ends = x.ends
	}
}

// replace renews a pair that is due. unknown: why nobody can sign it.
func (c *certificates) replace(x condition, signers authorities, unknown error, lifetime time.Duration) (renewed bool, err error) {
	var pair pki.Pair
	if err = unknown; err == nil {
		pair, err = c.renew(signers, x, lifetime)
	}
	switch {
	case err == nil:
		c.host.Log(host.Line{Event: host.EventIssued, Text: pair.String()})
		return true, nil
	case x.bad != nil:
		return false, fmt.Errorf("issuing the %s certificate (%w): %w", x.name, x.bad, err)
	}
	c.stays(x)
	c.log.Say(host.EventTrouble, fmt.Sprintf("the %s certificate, good until %s, is not renewed: %v", x.name, x.ends.UTC().Format(time.RFC3339), err))
	return false, nil
}

func (c *certificates) putBack(name string) error {
	x, ok := c.shown[name]
	if !ok {
		return errors.New("none was shown")
	}
	return c.write(name, x, ".crt", ".key")
}

// inspect looks at one pair.
func (c *certificates) inspect(name string, lifetime time.Duration) condition {
	p := condition{name: name}
	x, err := readPair(c.host.Disk().Read, name)
	if err != nil {
		if missing(err) {
			err = errors.New("there is none")
		}
		p.bad = err
		return p
	}
	leaf, err := x.pair.Leaf()
	if err == nil {
		err = pki.Vouched(x.ca, leaf)
	}
	if err != nil {
		p.bad = fmt.Errorf("%s is damaged: %w", c.host.Disk().Path(pkiDir+"/"+name+".crt"), err)
		return p
	}
	p.pair, p.ends = x.pair, leaf.NotAfter
	c.show(name, x)
	if name != "client" {
		p.due = pki.Covers(leaf, []string{c.address}) != nil
	}
	p.due = p.due || leaf.NotAfter.Sub(c.host.Now()) < renewBefore(lifetime, c.machine, name)
	return p
}

func (c *certificates) show(name string, x exhibit) {
	if c.shown == nil {
		c.shown = map[string]exhibit{}
	}
	c.shown[name] = x
}

// renewBefore is how long before its end a pair is renewed: a third of its time, and
// up to a twelfth more, which differs from machine to machine, so that those which
// were issued in one minute are not renewed in one.
func renewBefore(lifetime time.Duration, machine, pair string) time.Duration {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%s", machine, pair)
	return lifetime/3 + lifetime/12*time.Duration(h.Sum32()%1000)/1000
}

// renew issues what is due. A certificate that can be shown gets a successor for the
// same key: then one file changes, and etcd, which reads two at each handshake, never
// reads a pair that doesn't belong together. Whoever wants another key
// deletes it while no agent runs.
func (c *certificates) renew(signers authorities, p condition, lifetime time.Duration) (pki.Pair, error) {
	authority, file := signers.of(p.name)
	if x, shows := c.shown[p.name]; shows && string(x.ca) != string(authority.CertPEM()) {
		return pki.Pair{}, errors.New("the store holds another authority than the one that has signed what the machines of this ring show, and none of them trusts it: restore the store's own")
	}
	subject := pki.Subject{CommonName: commonName(p.name, c.machine)}
	if p.name != "client" {
		subject.Hosts = []string{c.address, "localhost", "127.0.0.1"}
	}
	pair, err := p.issue(authority, c.host.Now(), subject, lifetime)
	if err != nil {
		return pki.Pair{}, err
	}
	parts := []string{".crt", ".key"}
	if p.bad == nil {
		parts = parts[:1]
	}
	x := exhibit{file: file, ca: authority.CertPEM(), pair: pair}
	if err := c.write(p.name, x, parts...); err != nil {
		return pki.Pair{}, err
	}
	c.show(p.name, x)
	return pair, nil
}

// issue has a successor signed for the key of one that can be shown, else a new pair.
func (p condition) issue(by pki.Authority, now time.Time, subject pki.Subject, lifetime time.Duration) (pki.Pair, error) {
	switch {
	case p.bad == nil:
		return by.Renew(now, p.pair, subject, lifetime)
	case p.name == "server":
		return by.IssueServer(now, subject, lifetime)
	case p.name == "peer":
		return by.IssuePeer(now, subject, lifetime)
	}
	return by.IssueClient(now, subject, lifetime)
}

// commonName is at most 64 letters long, as RFC 5280 wants it. A machine in a cloud may
// have a longer name: its beginning and a hash stand for it.
func commonName(pair, machine string) string {
	full := pair + "-" + machine
	if len(full) <= 64 {
		return full
	}
	sum := sha256.Sum256([]byte(machine))
	return full[:47] + "-" + hex.EncodeToString(sum[:8])
}

// write writes the key last: readPair takes a pair without it for none.
func (c *certificates) write(name string, x exhibit, parts ...string) error {
	if known, err := c.host.Disk().Read(pkiDir + "/" + x.file); err != nil || string(known) != string(x.ca) {
		if err := c.host.Disk().Write(pkiDir+"/"+x.file, x.ca); err != nil {
			return fmt.Errorf("writing %s: %w", x.file, err)
		}
	}
	for _, part := range []struct {
		extension string
		content   []byte
	}{{".crt", x.pair.CertPEM}, {".key", x.pair.KeyPEM}} {
		if !slices.Contains(parts, part.extension) {
			continue
		}
		if err := c.host.Disk().Write(pkiDir+"/"+name+part.extension, part.content); err != nil {
			return fmt.Errorf("writing %s%s: %w", name, part.extension, err)
		}
	}
	return nil
}

func readPair(read func(name string) ([]byte, error), name string) (x exhibit, err error) {
	x.file, x.ca, err = trusted(read, name)
	var bad [2]error
	x.pair.CertPEM, bad[0] = read(pkiDir + "/" + name + ".crt")
	x.pair.KeyPEM, bad[1] = read(pkiDir + "/" + name + ".key")
	return x, errors.Join(err, bad[0], bad[1])
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// ClusterID is the ring that an agent left word of on the disk, for a person at
// the command line: who asks it with this machine's credentials means that ring.
// 0: no word was left.
func ClusterID(read func(name string) ([]byte, error)) uint64 {
	known, ok := recalled(read)
	if !ok || known.Identity == nil {
		return 0
	}
	return known.Identity.ClusterID()
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
