// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package nodes

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A ring has a finalizer that its controller takes off, and a namespace that goes with the
// controller in it would wait for that for ever.
func TestFirst(t *testing.T) {
	of := func(resource, namespace, name string) belonging {
		return belonging{schema.GroupVersionResource{Resource: resource}, namespace, name}
	}
	system, ring := of("namespaces", "", "kube-system"), of("etcdrings", "rings", "r")
	rings, controllers, kind := of("namespaces", "", "rings"), of("namespaces", "", "ringadm-system"), of(definitions, "", "etcdrings.etcd.ringproof.dev")
	k := &cluster{begun: []belonging{system}}
	now := []belonging{kind, system, rings, ring, controllers}
	assert.Equal(t, []belonging{ring}, k.first(now))
	assert.Equal(t, []belonging{rings, controllers}, k.first([]belonging{kind, system, rings, controllers}))
	assert.Equal(t, []belonging{kind}, k.first([]belonging{kind, system}))
	assert.Empty(t, k.first([]belonging{system}))
}
