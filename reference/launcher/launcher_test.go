// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/reconcile"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

const version ring.Version = "v3.6.16"

// told is a source that says what it was told, as an API would.
type told struct {
	spec     store.Spec
	identity *store.Identity
	away     error
}

func (s *told) Learn(_ context.Context, _ store.Machine, known *launcher.Known) error {
	if s.away != nil {
		return s.away
	}
	known.SpecNumber, known.Spec = 1, s.spec
	known.Identity, known.IdentityKnown, known.FormedKnown = s.identity, true, true
	return nil
}

func (s *told) Heard() []string { return nil }

// start returns a launcher on the machine's disk.
func (s *told) start(t *testing.T, dir, address, etcd string) (*launcher.Launcher, *host.Real) {
	h := host.NewReal("m1", filepath.Join(dir, "data"), filepath.Join(dir, "run"), io.Discard)
	h.Plain = true
	return launcher.NewLauncher(h, &host.Recorder{Host: h}, launcher.Config{Machine: "m1", Address: address,
		Binaries: map[ring.Version]string{version: etcd}, Source: s, Decide: launcher.Decide,
		Do: func(ctx context.Context, r *admin.Ring, a ring.Action, f admin.Fence) error { return r.Do(ctx, a, f) }}), h
}

// until takes turns until the ring, as it is seen, is as it should be.
func until(t *testing.T, l *launcher.Launcher, is func(admin.View) bool) admin.View {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		look, err := l.Turn(t.Context())
		if err != nil || look == nil || look.Unread != nil {
			continue
		}
		require.NoError(t, l.Attend(t.Context(), look))
		if is(look.View) {
			return look.View
		}
	}
	require.Fail(t, "the ring is not as it should be", "%+v", l.Known)
	return admin.View{}
}

// TestALauncherAndAController: a machine runs its member without a store to meet in,
// led by a process that is on no machine; and goes on by what its disk remembers.
func TestALauncherAndAController(t *testing.T) {
	needs.RealTime(t)
	etcd, dir := needs.Etcd(t).Etcd, t.TempDir()
	address := fmt.Sprintf("127.%d.%d.1", 64+rand.IntN(128), rand.IntN(256))
	s := &told{spec: store.Spec{Nodes: 1, Version: version, Security: ring.Plain}}
	l, h := s.start(t, dir, address, etcd)
	t.Cleanup(func() { assert.NoError(t, h.Process().Stop(context.Background(), time.Second)) })

	look, err := l.Turn(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, look.Unread, "no ring has been bootstrapped yet")
	initialMember := store.InitialMember{Name: "m1", Machine: "m1", Disk: l.Self().Disk, PeerURL: ring.Plain.URL(address, 2380), ClientURL: ring.Plain.URL(address, 2379)}
	s.identity = &store.Identity{Token: "ring-1", Members: []store.InitialMember{initialMember}, Epoch: 1}
	view := until(t, l, func(v admin.View) bool { return v.Presences["m1"].Disk == initialMember.Disk })
	require.Empty(t, view.RingMembers()[0].Disk, "who leads binds it")

	lead(t, s, initialMember)
	view = until(t, l, func(v admin.View) bool { return v.RingMembers()[0].Disk == initialMember.Disk })
	member := view.RingMembers()[0].ID
	require.NoError(t, l.Stop(t.Context()))
	args, err := h.Process().Running()
	require.NoError(t, err)
	require.Nil(t, args, "it is stopped in good order")

	s.away = errors.New("the API is away")
	again, _ := s.start(t, dir, address, etcd)
	view = until(t, again, func(v admin.View) bool { return v.Presences["m1"].Disk == initialMember.Disk })
	assert.Equal(t, member, view.RingMembers()[0].ID, "the same member runs, as its disk remembers the ring")
	assert.Equal(t, "the API is away", again.Known.Trouble)
	require.NoError(t, again.Stop(t.Context()))
}

// lead leads the ring from elsewhere until its initial member is bound to its disk.
func lead(t *testing.T, s *told, initialMember store.InitialMember) {
	t.Helper()
	h := host.NewReal("controller", "/nonexistent", "/nonexistent", io.Discard)
	r := &admin.Ring{Host: h, Cluster: s.identity.ClusterID()}
	defer r.Close()
	r.Use(initialMember.ClientURL)
	leader := &reconcile.Reconciler{Ring: r, Log: &host.Recorder{Host: h}, Next: ring.Next, Lead: admin.Lead{Holder: "controller", Nonce: "life-1"},
		Do: func(ctx context.Context, r *admin.Ring, a ring.Action, f admin.Fence) error { return r.Do(ctx, a, f) }}
	var lease admin.Lease
	for range 20 {
		view, err := r.View(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Keep(t.Context(), r))
		fence, leads, err := leader.Leads(t.Context(), view, lease)
		require.NoError(t, err)
		if !leads {
			continue
		}
		if leader.Bind(t.Context(), view, s.identity.Members, fence) {
			continue
		}
		d := leader.Step(t.Context(), view, s.spec.Wanted(), fence)
		require.Equal(t, ring.Steady, d.Wait)
		return
	}
	require.Fail(t, "it never led")
}
