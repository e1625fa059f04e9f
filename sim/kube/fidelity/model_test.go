// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity_test

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/config"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/sim/kube"
)

// TestModel plays every script on the simulated API server.
func TestModel(t *testing.T) {
	scripts(t, "api", func(t *testing.T, path string) { play(t, path, newModel(t)) })
}

// scheme knows what scripts write: the server's own kinds and the reference's.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	all := kube.Scheme()
	require.NoError(t, v1alpha1.AddToScheme(all))
	return all
}

// model is the simulated API server as a script asks it.
type model struct {
	client.Client
	server  *kube.Server
	elapsed time.Duration
	drawn   map[string]int
}

// past is how many objects came and went before a script begins, as in a cluster
// that has lived: its first version is none that a message could hold by chance.
const past = 1000

func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{drawn: map[string]int{}}
	m.server = kube.New(m, scheme(t), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	m.Client = m.server.Client()
	crds, err := config.CRDs()
	require.NoError(t, err)
	for _, crd := range crds {
		require.NoError(t, m.server.Install(crd))
	}
	last := &corev1.Secret{}
	for range past {
		last = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace(), Name: "past"}}
		require.NoError(t, m.Create(t.Context(), last))
		require.NoError(t, m.Delete(t.Context(), last))
	}
	version, err := strconv.ParseInt(last.ResourceVersion, 10, 64)
	require.NoError(t, err)
	m.server.Compact(version)
	return m
}

// The model's host.
func (m *model) Elapsed() time.Duration { return m.elapsed }
func (m *model) Log(string)             {}
func (m *model) Draw(stream string) uint64 {
	m.drawn[stream]++
	h := fnv.New64a()
	fmt.Fprint(h, stream, m.drawn[stream])
	return h.Sum64()
}

func (m *model) Namespace() string          { return "model-namespace" }
func (m *model) Elapse(pause time.Duration) { m.elapsed += pause }

// looks is how often the controllers look before they are taken to be busy for ever.
const looks = 100

func (m *model) Settle() error {
	for range looks {
		if wrote, err := m.server.Reconcile(); err != nil || !wrote {
			return err
		}
	}
	return fmt.Errorf("the controllers still write after %d looks", looks)
}

func (m *model) Since(gvk schema.GroupVersionKind, version string, n int) ([]kube.Event, error) {
	from, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return nil, err
	}
	all, err := m.server.Since(gvk, from)
	return all[:min(n, len(all))], err
}
