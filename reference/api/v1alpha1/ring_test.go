// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package v1alpha1

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestSchemeKnowsEveryKind(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, AddToScheme(scheme))
	for _, kind := range []string{"EtcdRing", "EtcdRingList", "RingDefaults", "RingDefaultsList"} {
		assert.True(t, scheme.Recognizes(GroupVersion.WithKind(kind)), kind)
	}
}
