// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/store"
)

// TestCredentialsOutliveTheRings: in a ring whose certificates live for minutes the run isn't
// shut out while it judges what became of them.
func TestCredentialsOutliveTheRings(t *testing.T) {
	p := &Pods{api: fake.NewClientBuilder().Build(), ring: kube.Names{Namespace: podsNamespace, Ring: podsRing}}
	records := kube.Records{Live: p.api, Writer: p.api, Namespace: p.ring.Namespace, Ring: p.ring.Ring}
	require.NoError(t, store.Init(t.Context(), records))
	record, err := launcher.NewAuthority(time.Now(), 1)
	require.NoError(t, err)
	_, err = store.Log[store.Authority]{Store: store.Marked{Unmarked: records}, Prefix: kube.AuthorityPrefix}.Append(t.Context(), 0, record)
	require.NoError(t, err)
	secure, err := p.Credentials(t.Context())
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(secure.Certificates[0].Certificate[0])
	require.NoError(t, err)
	assert.Greater(t, time.Until(leaf.NotAfter), 365*24*time.Hour)
}

// What an EtcdRing can't be is said before anything runs, and is never a pass.
func TestRunsInPods(t *testing.T) {
	for want, ring := range map[string]ringproof.RingSpec{
		"":                     {Size: 5, Security: "tls"},
		"clients talk plainly": {Size: 3, Security: "plain"},
		"without launchers":    {Size: 5, Security: "tls", Peers: "plain"},
	} {
		if err := RunsInPods(ringproof.Plan{Ring: ring}); want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
			assert.ErrorIs(t, err, errors.ErrUnsupported)
		}
	}
	assert.NoError(t, RunsInPods(ringproof.Plan{Ring: ringproof.RingSpec{Size: 3, Security: "tls", Peers: "plain"}}))
	deleted := ringproof.Plan{Ring: ringproof.RingSpec{Size: 3, Security: "tls"}, End: &ringproof.End{}}
	assert.NoError(t, RunsInPods(deleted))
	deleted.Steps = []ringproof.Step{{Name: "pruned", Fault: &ringproof.Fault{Kind: ringproof.FaultRingDeleted}}}
	assert.ErrorContains(t, RunsInPods(deleted), "the storage of a ring")
}
