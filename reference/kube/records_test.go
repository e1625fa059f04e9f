// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/store"
	simkube "github.com/ringproof/ringproof/sim/kube"
)

// still is a host whose time stands.
type still struct{ drawn uint64 }

func (s *still) Elapsed() time.Duration { return 0 }
func (s *still) Log(string)             {}
func (s *still) Draw(string) uint64     { s.drawn++; return s.drawn }

func records(ring string) (Records, client.Client) {
	c := simkube.New(&still{}, simkube.Scheme(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Client()
	return Records{Live: c, Writer: c, Namespace: "n", Ring: ring}, c
}

func TestOneCreatorWins(t *testing.T) {
	r, _ := records("r")
	require.NoError(t, r.Create(t.Context(), "identity/00000001.json", []byte(`{"a":1}`)))
	require.ErrorIs(t, r.Create(t.Context(), "identity/00000001.json", []byte(`{"a":2}`)), store.ErrExists)
	value, err := r.Get(t.Context(), "identity/00000001.json")
	require.NoError(t, err)
	assert.Equal(t, `{"a":1}`, string(value))
	_, err = r.Get(t.Context(), "identity/00000002.json")
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestALogOnRecords(t *testing.T) {
	r, _ := records("r")
	marked := store.Marked{Unmarked: r}
	require.Error(t, marked.Create(t.Context(), "formed/00000001.json", []byte("{}")), "there is no marker")
	require.NoError(t, store.Init(t.Context(), r))
	log := store.Log[store.Epoch]{Store: marked, Prefix: "epoch"}
	for n := range 3 {
		made, err := log.Append(t.Context(), n, store.Epoch{Holder: fmt.Sprint("m", n), Nonce: "x"})
		require.NoError(t, err)
		assert.Equal(t, n+1, made)
	}
	_, err := log.Append(t.Context(), 1, store.Epoch{Holder: "late", Nonce: "x"})
	require.ErrorIs(t, err, store.ErrExists)
	n, newest, err := log.Latest(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, n)
	assert.Equal(t, "m2", newest.Holder)
	keys, err := marked.List(t.Context(), "epoch/")
	require.NoError(t, err)
	assert.Equal(t, []string{"epoch/00000001.json", "epoch/00000002.json", "epoch/00000003.json"}, keys)
}

func TestRingsDontReadEachOthers(t *testing.T) {
	r, c := records("r")
	other := Records{Live: c, Writer: c, Namespace: "n", Ring: "r-identity"}
	require.NoError(t, r.Create(t.Context(), "identity/1", []byte("r")))
	_, err := other.Get(t.Context(), "identity/1")
	require.ErrorIs(t, err, store.ErrNotFound)
	keys, err := other.List(t.Context(), "")
	require.NoError(t, err)
	assert.Empty(t, keys)
}

func TestKeysThatReadTheSame(t *testing.T) {
	r, _ := records("r")
	for _, key := range []string{"a/b", "a-b", "a.b", "A/B", "a/b.json"} {
		require.NoError(t, r.Create(t.Context(), key, []byte(key)), key)
	}
	for _, key := range []string{"a/b", "a-b", "a.b", "A/B", "a/b.json"} {
		value, err := r.Get(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, key, string(value))
	}
}

func TestPrivateKeysAreSecrets(t *testing.T) {
	r, c := records("r")
	require.NoError(t, r.Create(t.Context(), "authority/00000001.json", []byte("key")))
	require.NoError(t, r.Create(t.Context(), "identity/00000001.json", []byte("no key")))
	var maps corev1.ConfigMapList
	require.NoError(t, c.List(t.Context(), &maps))
	require.Len(t, maps.Items, 1)
	assert.Equal(t, "r-identity-00000001-9afe3c27", maps.Items[0].Name)
	keys, err := r.List(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, []string{"authority/00000001.json", "identity/00000001.json"}, keys)
}

// TestWhatWasRemadeIsRefused: somebody deletes a record and puts another in its place.
func TestWhatWasRemadeIsRefused(t *testing.T) {
	r, c := records("r")
	require.NoError(t, r.Create(t.Context(), "identity/1", []byte("first")))
	made := &corev1.ConfigMap{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: r.NameOf("identity/1")}, made))
	made.BinaryData["value"] = []byte("changed")
	require.Error(t, c.Update(t.Context(), made), "it is immutable")

	for name, change := range map[string]func(*corev1.ConfigMap){
		"not immutable":   func(m *corev1.ConfigMap) { m.Immutable = nil },
		"of another key":  func(m *corev1.ConfigMap) { m.Annotations[KeyAnnotation] = "identity/2" },
		"without a value": func(m *corev1.ConfigMap) { m.BinaryData = nil },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: made.ObjectMeta}))
			remade := made.DeepCopy()
			remade.ResourceVersion, remade.UID, remade.Immutable = "", "", ptr.To(true)
			change(remade)
			require.NoError(t, c.Create(t.Context(), remade))
			_, err := r.Get(t.Context(), "identity/1")
			require.Error(t, err)
			assert.NotErrorIs(t, err, store.ErrNotFound)
		})
	}
}

// unwell answers nothing that can be relied on.
type unwell struct{ client.Client }

func (unwell) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("connection refused")
}

func (unwell) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("connection refused")
}

func (u unwell) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := u.Client.Create(ctx, o, opts...); err != nil {
		return err
	}
	return errors.New("the reply was lost")
}

func TestUnknownIsNotAbsent(t *testing.T) {
	r, c := records("r")
	cut := Records{Live: unwell{c}, Writer: unwell{c}, Namespace: "n", Ring: "r"}
	_, err := cut.Get(t.Context(), "identity/1")
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrNotFound)
	_, err = cut.List(t.Context(), "")
	require.Error(t, err)

	err = cut.Create(t.Context(), "identity/1", []byte("mine"))
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrExists, "it may be one's own")
	value, err := r.Get(t.Context(), "identity/1")
	require.NoError(t, err)
	assert.Equal(t, "mine", string(value))
}

func TestKeysThatNoStoreTakes(t *testing.T) {
	r, _ := records("r")
	require.Error(t, r.Create(t.Context(), "../up", nil))
	_, err := r.Get(t.Context(), "")
	require.Error(t, err)
}
