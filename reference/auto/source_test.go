// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/store"
)

// TestAuthorityIsNeverReplaced: machines that took another record would trust nobody
// who has not.
func TestAuthorityIsNeverReplaced(t *testing.T) {
	bucket, err := store.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	require.NoError(t, store.Init(t.Context(), bucket))
	s := &source{store: bucket}
	_, err = s.authority(t.Context())
	assert.ErrorContains(t, err, "holds none")
	record, err := launcher.NewAuthority(time.Now(), 1)
	require.NoError(t, err)
	log := store.Log[store.Authority]{Store: bucket, Prefix: AuthorityPrefix}
	_, err = log.Append(t.Context(), 0, record)
	require.NoError(t, err)
	found, err := s.authority(t.Context())
	require.NoError(t, err)
	assert.Equal(t, record.CertPEM, found.CertPEM)
	_, err = log.Append(t.Context(), 1, record)
	require.NoError(t, err)
	_, err = s.authority(t.Context())
	assert.ErrorContains(t, err, "remove all but the first")
}

// TestAStoreThatForgot: who knows of a ring says so before he says that he is there.
func TestAStoreThatForgot(t *testing.T) {
	bucket, err := store.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	require.NoError(t, store.Init(t.Context(), bucket))
	identity := func(token string) *store.Identity {
		return &store.Identity{Token: token, Epoch: 1, Members: []store.InitialMember{
			{Name: "m1", Machine: "m1", Disk: "d1", PeerURL: "https://10.0.0.1:2380", ClientURL: "https://10.0.0.1:2379"}}}
	}
	knows := launcher.Known{SpecNumber: 2, Spec: store.Spec{Nodes: 1, Version: "v3.6.16", Security: "tls"}, Identity: identity("ours"), Formed: true}
	silent := source{store: bucket, silent: true}
	require.NoError(t, silent.restore(t.Context(), knows))
	keys, err := bucket.List(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, []string{store.MarkerKey}, keys, "a dry run writes nothing")

	s := source{store: bucket}
	require.NoError(t, s.restore(t.Context(), launcher.Known{}), "who knows of none")
	require.NoError(t, s.restore(t.Context(), knows))
	var learned launcher.Known
	require.NoError(t, s.readSpec(t.Context(), &learned))
	require.NoError(t, s.readIdentity(t.Context(), &learned))
	assert.Equal(t, knows.SpecNumber, learned.SpecNumber)
	assert.Equal(t, knows.Spec, learned.Spec)
	assert.Equal(t, knows.Identity, learned.Identity)
	assert.True(t, learned.Formed)

	require.NoError(t, s.restore(t.Context(), knows), "again")
	knows.Identity = identity("another")
	assert.ErrorContains(t, s.restore(t.Context(), knows), "nothing is learned from that store")
}

// stuck is a store that answers nothing for as long as somebody waits.
type stuck struct{ store.Store }

func (stuck) Get(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stuck) List(ctx context.Context, _ string) ([]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// hasty is a host on which nobody waits for long.
type hasty struct{ host.Host }

func (h hasty) Timeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return h.Host.Timeout(ctx, 10*time.Millisecond)
}

// TestNoQuestionIsWaitedForForEver: a turn that asks for an authority, or for who has come,
// goes on without; the next looks after the machine first.
func TestNoQuestionIsWaitedForForEver(t *testing.T) {
	h := hasty{host.NewReal("m1", t.TempDir(), t.TempDir(), nil)}
	a := New(h, stuck{}, Config{Machine: "m1"})
	for name, ask := range map[string]func(context.Context) error{
		"authority": func(ctx context.Context) error { _, err := a.source.authority(ctx); return err },
		"machines":  func(ctx context.Context) error { return a.source.roster.read(ctx, a.source.store) },
		"epoch":     func(ctx context.Context) error { _, _, err := a.epoch(ctx); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		assert.ErrorIs(t, ask(ctx), context.DeadlineExceeded, name)
		assert.NoError(t, ctx.Err(), "%s: waited for until the agent is to end", name)
		cancel()
	}
}
