// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/pki"
)

// TestCommonNames: a machine whose name is longer than a certificate's may be gets
// certificates all the same, and no two machines one name.
func TestCommonNames(t *testing.T) {
	long := strings.Repeat("a", 60) + ".example.org"
	assert.Equal(t, "server-m1", commonName("server", "m1"))
	assert.NotEqual(t, commonName("peer", long), commonName("peer", long+".net"))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	authority, err := pki.NewAuthority(now, "ringadm")
	require.NoError(t, err)
	for _, name := range pairs {
		_, err := authority.IssueServer(now, pki.Subject{CommonName: commonName(name, long), Hosts: []string{"10.0.0.1"}}, 0)
		assert.NoError(t, err)
	}
}

// TestRenewalsAreSpread: machines whose certificates were issued in one minute don't
// renew them in one.
func TestRenewalsAreSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for _, name := range []string{"m1", "m2", "m3"} {
		before := renewBefore(pki.LeafLifetime, name, "peer")
		assert.GreaterOrEqual(t, before, pki.LeafLifetime/3)
		assert.Less(t, before, pki.LeafLifetime/2)
		seen[before] = true
	}
	assert.Len(t, seen, 3)
}
