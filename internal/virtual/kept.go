// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"fmt"

	"github.com/ringproof/ringproof/internal/kubectl"
	"github.com/ringproof/ringproof/internal/local"
)

var _ local.Kept = (*node)(nil)

// Admin makes an administrator's client.
func (c *cluster) Admin() (kubectl.Client, error) { return kubectl.Open(c.Kubeconfig()) }

// LastMember is the member that is on the node, or was last.
func (n *node) LastMember() (kubectl.Member, error) {
	n.Slot() // so that it is known whose pod is here
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.slot == "" {
		return kubectl.Member{}, fmt.Errorf("no member was on node %s", n.name)
	}
	return kubectl.Member{Namespace: n.namespace, Name: n.slot}, nil
}

// Node is what the cluster calls the node.
func (n *node) Node() string { return n.name }
