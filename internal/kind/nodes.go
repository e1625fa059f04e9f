// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kind

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
)

// Load gives every node an image, from a file as `docker save` writes it, so that no
// pod pulls it.
func (c *Cluster) Load(file string) error {
	all, err := c.provider.ListInternalNodes(c.Name)
	if err != nil {
		return fmt.Errorf("load %s: list the nodes of %s: %w", file, c.Name, err)
	}
	failed := make([]error, len(all))
	var loading sync.WaitGroup
	for i, node := range all {
		loading.Go(func() { failed[i] = load(node, file) })
	}
	loading.Wait()
	return errors.Join(failed...)
}

func load(node nodes.Node, file string) error {
	archive, err := os.Open(file)
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := nodeutils.LoadImageArchive(node, archive); err != nil {
		return fmt.Errorf("load %s into the node %s: %w", file, node, err)
	}
	return nil
}

// Workers are the containers of the cluster's workers, the Nth that of the disk mN.
func (c *Cluster) Workers() ([]string, error) {
	all, err := c.provider.ListNodes(c.Name)
	if err != nil {
		return nil, fmt.Errorf("list the nodes of %s: %w", c.Name, err)
	}
	var names []string
	for _, n := range all {
		if strings.HasPrefix(n.String(), c.Name+"-worker") {
			names = append(names, n.String())
		}
	}
	// kind calls them worker, worker2, worker3, …
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return names, nil
}

// apply has the control plane's node apply a manifest, as kind does its own.
func (c *Cluster) apply(manifest string) error {
	all, err := c.provider.ListInternalNodes(c.Name)
	if err != nil {
		return err
	}
	front, err := nodeutils.BootstrapControlPlaneNode(all)
	if err != nil {
		return err
	}
	err = front.Command("kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "apply", "-f", "-").SetStdin(strings.NewReader(manifest)).Run()
	if err != nil {
		return fmt.Errorf("apply a manifest of ours to %s: %w", c.Name, err)
	}
	return nil
}

// Run runs a command in a node, as root there.
func (c *Cluster) Run(node string, command string, args ...string) error {
	all, err := c.provider.ListInternalNodes(c.Name)
	if err != nil {
		return err
	}
	for _, n := range all {
		if n.String() == node {
			return n.Command(command, args...).Run()
		}
	}
	return fmt.Errorf("the cluster %s has no node %s", c.Name, node)
}
