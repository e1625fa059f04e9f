// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

type away struct{ client.Reader }

func (away) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the API server is away")
}

// TestAPodHasTheReleaseOfItsImage: its disk remembers the image before, and nobody can be asked. Of
// a disk that remembers nothing nothing is made up.
func TestAPodHasTheReleaseOfItsImage(t *testing.T) {
	s := Source{API: away{}, Names: Names{Namespace: "n", Ring: "r"}, Pod: "r-1", Version: "v3.6.16"}
	known := launcher.Known{SpecNumber: 1, Spec: store.Spec{Nodes: 3, Version: "v3.5.35"}}
	known.Spec.SetVersion("r-1", "v3.5.35")
	require.Error(t, s.Learn(t.Context(), store.Machine{}, &known))
	assert.Equal(t, ring.Version("v3.6.16"), known.Spec.VersionOf("r-1"))

	known = launcher.Known{}
	require.Error(t, s.Learn(t.Context(), store.Machine{}, &known))
	assert.False(t, known.Specified())
	assert.Empty(t, known.Spec.Machines)
}
