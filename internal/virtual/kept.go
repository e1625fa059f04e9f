// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"context"
	"fmt"

	"github.com/ringproof/ringproof/internal/kubectl"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
)

var _ local.Kept = (*node)(nil)

// api is an administrator's client.
func (c *cluster) api() (kubectl.Client, error) { return kubectl.Open(c.Kubeconfig()) }

// kept is the member that is on the node, or was last, and who asks the API server for it.
func (n *node) kept() (api kubectl.Client, m kubectl.Member, err error) {
	n.Slot() // so that it is known whose pod is here
	n.mu.Lock()
	m = kubectl.Member{Namespace: n.namespace, Name: n.slot}
	n.mu.Unlock()
	if m.Name == "" {
		return api, m, fmt.Errorf("no member was on node %s", n.name)
	}
	api, err = n.cluster.api()
	return api, m, err
}

// Delete deletes an object of the member.
func (n *node) Delete(ctx context.Context, object string, force bool) (machines.Evidence, error) {
	api, m, err := n.kept()
	if err != nil {
		return machines.Evidence{}, err
	}
	return api.Delete(ctx, m, object, force)
}

// Hold gives an object of the member a finalizer.
func (n *node) Hold(ctx context.Context, object, finalizer string) (machines.Evidence, error) {
	api, m, err := n.kept()
	if err != nil {
		return machines.Evidence{}, err
	}
	return api.Hold(ctx, m, object, finalizer)
}

// Release takes a finalizer off whatever has it.
func (c *cluster) Release(ctx context.Context, finalizer string) error {
	api, err := c.api()
	if err != nil {
		return err
	}
	return api.Release(ctx, finalizer)
}

// Drain evicts the node's pods.
func (n *node) Drain(ctx context.Context) (machines.Evidence, error) {
	api, err := n.cluster.api()
	if err != nil {
		return machines.Evidence{}, err
	}
	return api.Drain(ctx, n.name)
}

// Uncordon lets the node take pods again.
func (n *node) Uncordon(ctx context.Context) error {
	api, err := n.cluster.api()
	if err != nil {
		return err
	}
	return api.Uncordon(ctx, n.name)
}
