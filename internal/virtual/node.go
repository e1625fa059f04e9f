// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/lockstep"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/internal/virtual/kubelet"
)

// node is a machine of a cluster. What is asked of its volume and its address is about
// those of the pod on it that has a claim: a ring has one at most on a node.
type node struct {
	*host
	cluster *cluster

	namespace, slot, dns string // of the last pod with a claim
}

var _ local.Host = (*node)(nil)
var _ local.Slotted = (*node)(nil)
var _ local.Limited = (*node)(nil)

// Add makes a node and starts its kubelet.
func (c *cluster) Add(ctx context.Context, name string) (local.Host, error) {
	c.lab.mu.Lock()
	if int(c.added) == mostNodes {
		c.lab.mu.Unlock()
		return nil, fmt.Errorf("a cluster has %d nodes at most", mostNodes)
	}
	c.added++
	n := &node{host: &host{lab: c.lab, name: name, number: perNode * c.added, on: true, tasks: map[string]*task{}, pids: map[int]string{}}, cluster: c}
	for i := range byte(perNode - 1) {
		n.inner = append(n.inner, n.number+1+i)
	}
	n.tags = n.leaders
	c.hosts[n.number] = n.host
	c.lab.mu.Unlock()
	if err := c.keys.client("node-"+name, "system:node:"+name, "system:nodes"); err != nil {
		return nil, err
	}
	return n, errors.Join(os.MkdirAll(n.dir(), 0o755), n.boot(ctx))
}

// dir is where the kubelet keeps what it has.
func (n *node) dir() string { return filepath.Join(n.lab.dir, n.name) }

const kubeletTag = Kubelet

// boot starts the kubelet.
func (n *node) boot(ctx context.Context) error {
	file, err := n.cluster.describe("node-"+n.name, kubelet.Options{Node: n.name, Machine: n.number, Pods: n.inner, Kubeconfig: n.cluster.keys.config("node-" + n.name), Dir: n.dir(),
		Images: n.cluster.images(), Server: n.cluster.keys.server, Proxy: n.cluster.proxy(), Names: lockstep.Address(atNames), Shared: filepath.Join(n.cluster.Dir, trial.PodsDir)})
	if err != nil {
		return err
	}
	err = n.Start(ctx, machines.Command{Tag: kubeletTag, Args: []string{n.cluster.self, Kubelet, file}, Env: os.Environ(), Stdout: n.hear})
	if err == nil {
		go n.attendKubelet()
	}
	return err
}

// attendKubelet starts the kubelet again when it ends while the node is on.
func (n *node) attendKubelet() {
	_, err := n.Wait(context.Background(), kubeletTag)
	time.Sleep(restartPart)
	n.cluster.mu.Lock()
	closing := n.cluster.closing
	n.cluster.mu.Unlock()
	if err == nil && n.On() && !closing {
		_ = n.boot(context.Background()) // it is on already, or goes off just now
	}
}

// hear passes on what a container printed.
func (n *node) hear(text string) {
	var l kubelet.Line
	if json.Unmarshal([]byte(text), &l) == nil && n.cluster.tell != nil {
		n.cluster.tell(n.name, l.Text)
	}
}

// Lacks is what pods there were asked to have that its kubelet hasn't got.
func (n *node) Lacks() []string {
	s, _ := kubelet.Read(n.dir()) // a kubelet that was never there has lacked nothing
	return s.Lacks
}

// member is the pod with a claim; ok: there is one.
func (n *node) member() (kubelet.Running, bool) {
	s, err := kubelet.Read(n.dir())
	if err != nil {
		return kubelet.Running{}, false
	}
	for _, p := range s.Pods {
		if p.Volume != "" && n.cluster.of.Matches(labels.Set(p.Labels)) {
			return p, true
		}
	}
	return kubelet.Running{}, false
}

// Slot is what the pod with a claim is called, and its DNS name.
func (n *node) Slot() (name, host string, here bool) {
	p, here := n.member()
	n.mu.Lock()
	defer n.mu.Unlock()
	if here {
		n.namespace, n.slot, n.dns = p.Namespace, p.Name, p.Host
	}
	return n.slot, n.dns, here
}

// leaders are the first processes of the pod with a claim.
func (n *node) leaders() map[int]string {
	tags := map[int]string{}
	p, _ := n.member()
	for _, pid := range p.Mains { // order: into a map
		tags[pid] = local.AgentTag
	}
	return tags
}

// Addr is the address of the pod with a claim, or the node's own where there is none.
func (n *node) Addr() netip.Addr {
	if p, ok := n.member(); ok {
		return lockstep.Address(p.Machine)
	}
	return n.host.Addr()
}

// DataDir is the volume of the pod with a claim. Without one it is a place where nothing is.
func (n *node) DataDir() string {
	if p, ok := n.member(); ok {
		return p.Volume
	}
	return filepath.Join(n.dir(), "none")
}

// Volume is the same: the run sees what nodes see.
func (*node) Volume(path string) string { return path }

// DataRoot is the same, too.
func (n *node) DataRoot() string { return n.DataDir() }

// PowerOn gives the node power and starts its kubelet.
func (n *node) PowerOn(ctx context.Context) (machines.Evidence, error) {
	e, err := n.host.PowerOn(ctx)
	if err != nil {
		return e, err
	}
	return e, n.boot(ctx)
}

// Destroy takes the node away for good. Its volumes stay where whoever judges the run
// reads them, and where no pod can come.
func (n *node) Destroy() (machines.Evidence, error) {
	e := machines.Evidence{Detail: "it was off"}
	if n.On() {
		var err error
		if e, err = n.PowerOff(); err != nil {
			return e, err
		}
	}
	e.What, e.Detail = "loss of node "+n.name, e.Detail+"; its Node goes in "+nodeDeleted.String()
	go func() {
		time.Sleep(nodeDeleted)
		n.cluster.forget(n.name)
	}()
	return e, nil
}

// nodeDeleted is when the Node of a lost machine is deleted, as a cloud's controller does
// that finds no machine for it.
const nodeDeleted = 10 * time.Second

// SwapVolume wipes the volume under its claim, and kills those that hold it.
func (n *node) SwapVolume(_ context.Context, directories ...string) (machines.Evidence, error) {
	root := n.DataDir()
	e, err := n.wipe(root, "it holds no file")
	for _, d := range directories {
		err = errors.Join(err, os.MkdirAll(filepath.Join(root, d), 0o700))
	}
	return e, err
}

// LoseDirectory removes one directory from the volume, and kills those that hold it.
func (n *node) LoseDirectory(directory string) (machines.Evidence, error) {
	return n.wipe(filepath.Join(n.DataDir(), directory), "of what it held, "+directory+" is gone")
}

func (n *node) wipe(dir, how string) (machines.Evidence, error) {
	p, ok := n.member()
	if !ok {
		return machines.Evidence{}, fmt.Errorf("no pod on node %s has a volume", n.name)
	}
	before, _ := n.Processes() // it may be off
	for _, at := range p.Mounts {
		if err := n.lab.orders.Do(lockstep.Deed{Do: lockstep.DoEvict, Machines: []byte{p.Machine}, Path: at}); err != nil {
			return machines.Evidence{}, err
		}
	}
	if err := machines.Empty(dir); err != nil {
		return machines.Evidence{}, fmt.Errorf("wiping the volume of %s: %w", p.Name, err)
	}
	hit := n.gone(before)
	return machines.Evidence{What: "loss of the volume of " + p.Name + " on node " + n.name, Detail: how + "; dead: " + machines.Roll(hit), Processes: hit}, nil
}

// Unmount is no fault of a cluster: its volumes are Kubernetes's to mount.
func (n *node) Unmount(context.Context) (machines.Evidence, error) {
	return machines.Evidence{}, fmt.Errorf("unmounting a volume of node %s: %w", n.name, errors.ErrUnsupported)
}

// Mount has nothing to mount.
func (n *node) Mount(context.Context) error { return nil }

// FillVolume writes until the kernel says that no space is left.
func (n *node) FillVolume() (machines.Evidence, error) { return machines.Fill(n.name, n.DataDir()) }

// FreeVolume takes that away.
func (n *node) FreeVolume() (machines.Evidence, error) { return machines.Free(n.name, n.DataDir()) }
