// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/pki"
)

// Certificate is what a machine has of one certificate, and what becomes of it.
// There is no key in it.
type Certificate struct {
	File    string    `json:"file"`
	Subject string    `json:"subject,omitempty"`
	Signer  string    `json:"signer,omitempty"`
	From    time.Time `json:"from,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Renewed time.Time `json:"renewed,omitzero"` // when the agent makes its successor; zero: nobody does
	// Trouble is why it can't be shown now, or will end before it is renewed.
	Trouble string `json:"trouble,omitempty"`
}

// Certificates lists what the machine's disk holds: its authorities, and its pairs.
// None is a ring without TLS, or a machine that no agent has run on.
func Certificates(h host.Host) ([]Certificate, error) {
	lifetime, machine := lived(h), ""
	if disk, known := Named(h); known {
		machine = disk.Machine
	}
	var all []Certificate
	for _, file := range []string{ClientsCA, PeersCA} {
		if pem, err := h.Disk().Read(pkiDir + "/" + file); err == nil {
			all = append(all, trustedBy(file, pem, h.Now(), lifetime))
		} else if !missing(err) {
			return nil, err
		}
	}
	for _, name := range pairs {
		x, err := readPair(h.Disk().Read, name)
		if missing(err) && len(all) == 0 {
			continue
		}
		all = append(all, shownAs(name, x, err, h.Now(), lifetime, machine))
	}
	return all, nil
}

// lived is how long certificates of the ring live, as the agent left word of.
func lived(h host.Host) time.Duration {
	known, _ := recalled(h.Disk().Read)
	return lifetimeOf(known.Spec)
}

func trustedBy(file string, pem []byte, now time.Time, lifetime time.Duration) Certificate {
	c := Certificate{File: file}
	cert, err := pki.Parse(pem)
	if err != nil {
		c.Trouble = err.Error()
		return c
	}
	c.tell(cert)
	if c.Trouble = untimely(cert, now); c.Trouble == "" && cert.NotAfter.Sub(now) < lifetime {
		c.Trouble = "no certificate that it signs now lives its time, and nobody renews an authority: bootstrap a new ring, and move the data"
	}
	return c
}

func shownAs(name string, x exhibit, read error, now time.Time, lifetime time.Duration, machine string) Certificate {
	c := Certificate{File: name + ".crt"}
	if read != nil {
		c.Trouble = fmt.Sprintf("can't be read, the agent issues another: %v", read)
		return c
	}
	leaf, err := x.pair.Leaf()
	if err == nil {
		c.tell(leaf)
		err = pki.Vouched(x.ca, leaf)
	}
	if err != nil {
		c.Trouble = err.Error()
		return c
	}
	c.Renewed = leaf.NotAfter.Add(-renewBefore(lifetime, machine, name))
	if c.Trouble = untimely(leaf, now); c.Trouble == "" && now.Sub(c.Renewed) > 2*lifetime/renewalPaces {
		c.Trouble = "its renewal is overdue: see that the agent runs and reaches the store, and what it says"
	}
	return c
}

func (c *Certificate) tell(cert *x509.Certificate) {
	c.Subject, c.Signer, c.From, c.Until = cert.Subject.CommonName, cert.Issuer.CommonName, cert.NotBefore, cert.NotAfter
}

func untimely(cert *x509.Certificate, now time.Time) string {
	switch {
	case now.After(cert.NotAfter):
		return "it has expired"
	case now.Before(cert.NotBefore):
		return "it is not valid yet: see whether the clock is right"
	}
	return ""
}

// InTrouble is an error that says how many of them are; nil: none.
func InTrouble(all []Certificate) error {
	n := 0
	for _, c := range all {
		if c.Trouble != "" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d certificates can't be shown, or end before they are renewed", n, len(all))
}
