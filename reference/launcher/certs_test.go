// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/pki"
)

// dated is a host whose clock is set by hand.
type dated struct {
	host.Host
	now time.Time
}

func (d dated) Now() time.Time { return d.now }

// said is a host whose log is read.
type said struct {
	dated
	lines *[]host.Line
}

func (s said) Log(l host.Line) { *s.lines = append(*s.lines, l) }

// TestAnAuthoritysEndIsTold: once, and while there is a certificate's time left.
func TestAnAuthoritysEndIsTold(t *testing.T) {
	begin := time.Now()
	record, err := NewAuthority(begin, 1)
	require.NoError(t, err)
	c := signed(t, record)
	var lines []host.Line
	keep := func(later time.Duration) (told []string) {
		h := said{dated{c.host, begin.Add(later)}, &lines}
		if s, ok := c.host.(said); ok {
			h.dated.Host = s.dated.Host
		}
		c.host, c.log.Host, lines = h, h, nil
		_, err := c.keep(t.Context(), pki.LeafLifetime)
		require.NoError(t, err)
		for _, l := range lines {
			if l.Event == host.EventTrouble {
				told = append(told, l.Text)
			}
		}
		return told
	}
	_, err = NewDisk(c.host, "m1")
	require.NoError(t, err)
	assert.Empty(t, keep(0))
	assert.Empty(t, keep(pki.AuthorityLifetime-pki.LeafLifetime-time.Hour))
	told := keep(pki.AuthorityLifetime - pki.LeafLifetime + time.Hour)
	require.Len(t, told, 1)
	assert.Contains(t, told[0], "ca.crt is good until")
	assert.Empty(t, keep(pki.AuthorityLifetime-pki.LeafLifetime+2*time.Hour), "it was told")
}

// TestCertificatesOfAMachine: what is good, what the agent should have renewed, what
// is over, and an authority that ends before what it would sign.
func TestCertificatesOfAMachine(t *testing.T) {
	begin := time.Now()
	record, err := NewAuthority(begin, 1)
	require.NoError(t, err)
	c := signed(t, record)
	all, err := Certificates(c.host)
	require.NoError(t, err)
	require.Empty(t, all, "no agent has run here")
	_, err = NewDisk(c.host, "m1")
	require.NoError(t, err)
	_, err = c.keep(t.Context(), pki.LeafLifetime)
	require.NoError(t, err)

	look := func(later time.Duration) (troubled map[string]string, err error) {
		all, err := Certificates(dated{c.host, begin.Add(later)})
		require.NoError(t, err)
		require.Len(t, all, 5)
		troubled = map[string]string{}
		for _, c := range all {
			if c.Trouble != "" {
				troubled[c.File] = c.Trouble
			}
		}
		text, failed := json.Marshal(all)
		require.NoError(t, failed)
		require.NotContains(t, string(text), "PRIVATE")
		return troubled, InTrouble(all)
	}
	const day = 24 * time.Hour
	troubled, err := look(time.Minute)
	assert.NoError(t, err)
	assert.Empty(t, troubled)
	troubled, err = look(260 * day)
	assert.ErrorContains(t, err, "3 of 5")
	assert.Contains(t, troubled["peer.crt"], "overdue")
	troubled, _ = look(366 * day)
	assert.Contains(t, troubled["client.crt"], "expired")
	assert.NotContains(t, troubled, ClientsCA)
	troubled, _ = look(pki.AuthorityLifetime - 100*day)
	assert.Contains(t, troubled[PeersCA], "bootstrap a new ring")
	troubled, _ = look(-pki.Skew - time.Hour)
	assert.Contains(t, troubled["server.crt"], "not valid yet")

	all, err = Certificates(c.host)
	require.NoError(t, err)
	for _, c := range all {
		switch c.File {
		case ClientsCA, PeersCA:
			assert.True(t, c.Renewed.IsZero(), c.File)
		default:
			assert.True(t, c.Renewed.After(c.From) && c.Renewed.Before(c.Until), c.File)
		}
	}
	require.NoError(t, c.host.Disk().Remove(pkiDir+"/server.key"))
	troubled, err = look(time.Minute)
	assert.ErrorContains(t, err, "1 of 5")
	assert.Contains(t, troubled["server.crt"], "can't be read")
}
