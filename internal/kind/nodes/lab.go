// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

// Package nodes makes the workers of a kind cluster machines of a world in real time: what
// package virtual has of a control plane and a model of the kubelet, here is Kubernetes as it
// is, in containers of this host. Worlds have one cluster after another.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/image"
	"github.com/ringproof/ringproof/internal/kind/keeper"
	"github.com/ringproof/ringproof/internal/kubectl"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
)

// Options are what a cluster is made of.
type Options struct {
	Workers    int
	Images     func(dir string) ([]image.Image, error) // that its nodes have, made of files that may be kept in the directory
	Releases   map[string]etcdbin.Release              // by version: of which its members' programs are
	Members    labels.Selector                         // which pods run a member, of those with a claim
	Self       string                                  // this program, with the command that is a [keeper]
	Keeper     string                                  // the name of that command
	OnProgress func(string)                            // hears what takes long; may be nil
	Over       func() error                            // why nobody will need the cluster after this; nil: somebody may
}

// Lab is a cluster as one world has it.
type Lab struct {
	Options
	*cluster
	of  *Clusters
	dir string // of the run

	mu    sync.Mutex
	front *node   // of the control plane
	nodes []*node // that were added
	tell  func(machine, line string)
	waits func(lost time.Duration)
}

var (
	_ local.Nodes = (*Lab)(nil)
	_ local.Apart = (*Lab)(nil)
)

// Lab takes a cluster, or brings one up.
func (c *Clusters) Lab(o Options) func(context.Context, machines.Options) (local.Lab, error) {
	return func(ctx context.Context, _ machines.Options) (local.Lab, error) {
		dir, err := os.MkdirTemp("", "ringproof-kind-")
		if err != nil {
			return nil, err
		}
		l := &Lab{Options: o, of: c, dir: dir}
		if l.cluster, err = c.take(ctx, o); err == nil {
			err = l.begin(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return l, nil
	}
}

// front is what the node of the control plane is called, which is no machine of a ring.
const front = "control-plane"

// begin gives the cluster what the world's ring needs.
func (l *Lab) begin(ctx context.Context) (err error) {
	all, err := l.Images(l.dir)
	if err != nil {
		return err
	}
	if err := errors.Join(l.load(all, l.dir), l.spare(ctx, l.Workers)); err != nil {
		return err
	}
	l.front, err = l.node(ctx, front, l.Name+"-control-plane")
	return err
}

// Add takes one of the cluster's workers for a machine.
func (l *Lab) Add(ctx context.Context, name string) (local.Host, error) {
	l.mu.Lock()
	i := len(l.nodes)
	l.mu.Unlock()
	if i == l.Workers {
		return nil, fmt.Errorf("the cluster has %d workers for this ring, and none for %s (%w)", i, name, errors.ErrUnsupported)
	}
	n, err := l.node(ctx, name, l.workers[i])
	if err != nil {
		return nil, err
	}
	n.disk = l.disk(i)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = append(l.nodes, n)
	return n, nil
}

// node begins to keep a node.
func (l *Lab) node(ctx context.Context, name, container string) (*node, error) {
	n := &node{lab: l, name: name, container: container, on: true, seen: map[string]int64{}, places: map[string]string{}}
	o, err := l.api.CoreV1().Nodes().Get(ctx, container, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if n.pods, err = netip.ParsePrefix(o.Spec.PodCIDR); err != nil {
		return nil, fmt.Errorf("the addresses of pods on %s: %w", container, err)
	}
	return n, n.boot(ctx)
}

// Shared is a directory of the run alone: pods see nothing of it.
func (l *Lab) Shared() string { return l.dir }

// Gateway is nobody's address: what of the run goes to pods comes from their nodes.
func (l *Lab) Gateway() netip.Addr { return netip.IPv4Unspecified() }

// Resolve is nothing that a cluster suffers: its names are Kubernetes's.
func (l *Lab) Resolve(string, netip.Addr) error { return errors.ErrUnsupported }

// Kubeconfig is the path of an administrator's.
func (l *Lab) Kubeconfig() string { return l.cluster.Kubeconfig }

// Listen has told what is printed in pods, line by line.
func (l *Lab) Listen(tell func(machine, line string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell = tell
}

// Waits has told how long processes on the nodes wait for a processor or the disk.
func (l *Lab) Waits(tell func(lost time.Duration)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = tell
}

func (l *Lab) waited(lost time.Duration) {
	l.mu.Lock()
	tell := l.waits
	l.mu.Unlock()
	if tell != nil {
		tell(lost)
	}
}

// system are the namespaces of what a cluster comes with.
var system = []string{"kube-system", "local-path-storage"}

// hear passes on what a container printed.
func (l *Lab) hear(machine string, line keeper.Line) {
	l.mu.Lock()
	tell := l.tell
	l.mu.Unlock()
	if tell != nil && !slices.Contains(system, line.Namespace) {
		tell(machine, line.Text)
	}
}

// Where the kubelet finds which parts of the control plane it is to run, and where they are
// kept from it.
const (
	manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	aside    = "/etc/kubernetes/kube-apiserver.yaml"
)

const server = "kube-apiserver"

// Outage takes the API server from the kubelet that runs it, or gives it back.
func (l *Lab) Outage(away bool) (machines.Evidence, error) {
	if !away {
		return machines.Evidence{What: server, Detail: "it is started again"}, l.Run(l.front.container, "mv", aside, manifest)
	}
	if err := l.Run(l.front.container, "mv", manifest, aside); err != nil {
		return machines.Evidence{}, err
	}
	return l.SignalPart(server, syscall.SIGKILL)
}

// SignalPart signals a program of the control plane.
func (l *Lab) SignalPart(name string, sig syscall.Signal) (machines.Evidence, error) {
	return l.front.SignalExe(name, sig)
}

// SignalPod signals the first process of each container of a pod, wherever it runs.
func (l *Lab) SignalPod(namespace, name string, sig syscall.Signal) (machines.Evidence, error) {
	pod, err := l.pods.Pods(namespace).Get(name)
	if err != nil {
		return machines.Evidence{}, err
	}
	l.mu.Lock()
	all := append(slices.Clone(l.nodes), l.front)
	l.mu.Unlock()
	for _, n := range all {
		if n.container == pod.Spec.NodeName {
			return n.signal(fmt.Sprintf("of pod %s/%s", namespace, name), sig, func(p keeper.Process) bool { return p.Pod == string(pod.UID) && p.First })
		}
	}
	return machines.Evidence{}, fmt.Errorf("pod %s/%s is on no node", namespace, name)
}

var _ local.Switchboard = (*Lab)(nil)

// Heard is how pods on the nodes were spoken to at etcd's ports. What a node heard that is off
// or gone by now is what it had told before.
func (l *Lab) Heard() (all []local.Heard, err error) {
	l.mu.Lock()
	nodes := slices.Clone(l.nodes)
	l.mu.Unlock()
	for _, n := range nodes {
		n.mu.Lock()
		heard := slices.Clone(n.heard)
		n.mu.Unlock()
		if n.On() {
			said, err := n.ask(keeper.Order{Do: keeper.DoHeard})
			if err != nil {
				return nil, fmt.Errorf("what was heard on %s: %w", n.name, err)
			}
			heard = append(heard, said.Heard...)
		}
		for _, h := range heard {
			all = append(all, local.Heard{From: h.From, To: h.To, Plain: h.Plain, TLS: h.TLS})
		}
	}
	return all, nil
}

// Admin is an administrator's client.
func (l *Lab) Admin() (kubectl.Client, error) { return l.api, nil }

// Left are those whose command line has one of these paths: in a node, none.
func (l *Lab) Left([]string) []string { return nil }

// Close gives the cluster back.
func (l *Lab) Close() error {
	for _, n := range l.nodes {
		n.leave()
	}
	if l.front != nil {
		l.front.leave()
	}
	var err error
	if l.cluster != nil {
		err = l.of.giveBack(l.cluster, l.whole(), l.OnProgress)
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}

// whole reports whether every node is as it was, and there may be another run.
func (l *Lab) whole() bool {
	return (l.Over == nil || l.Over() == nil) && l.front != nil && !slices.ContainsFunc(l.nodes, func(n *node) bool { return !n.whole() })
}
