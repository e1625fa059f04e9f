// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

// Package nodes makes the workers of a kind cluster machines of a world in real time: what
// package virtual has of a control plane and a model of the kubelet, here is Kubernetes as it
// is, in containers of this host. A cluster lives as long as its world.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/image"
	"github.com/ringproof/ringproof/internal/kind"
	"github.com/ringproof/ringproof/internal/kind/keeper"
	"github.com/ringproof/ringproof/internal/kubectl"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
)

// Options are what a cluster is made of.
type Options struct {
	Workers  int
	Images   func(dir string) ([]image.Image, error) // that its nodes have, made of files that may be kept in the directory
	Releases map[string]etcdbin.Release              // by version: of which its members' programs are
	Members  labels.Selector                         // which pods run a member, of those with a claim
	Self     string                                  // this program, with the command that is a [keeper]
	Keeper   string                                  // the name of that command
	Log      func(string)                            // hears how the cluster comes up; may be nil
}

// grace is after which time a node that is silent isn't Ready.
const grace = 12 * time.Second

// Lab is a cluster.
type Lab struct {
	Options
	dir     string
	cluster *kind.Cluster
	api     kubectl.Client
	pods    corelisters.PodLister
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	stop    context.CancelFunc // of what watches the API server
	workers []string           // their containers, the Nth that of mN

	mu    sync.Mutex
	front *node   // of the control plane
	nodes []*node // that were added
	tell  func(machine, line string)
}

var _ local.Nodes = (*Lab)(nil)

// New brings a cluster up.
func New(o Options) func(context.Context, machines.Options) (local.Lab, error) {
	return func(ctx context.Context, _ machines.Options) (local.Lab, error) {
		dir, err := os.MkdirTemp("", "ringproof-kind-")
		if err != nil {
			return nil, err
		}
		l := &Lab{Options: o, dir: dir, stop: func() {}}
		if err := l.up(ctx); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return l, nil
	}
}

func (l *Lab) up(ctx context.Context) error {
	tools := filepath.Join(l.dir, "tools")
	if err := errors.Join(os.Mkdir(tools, 0o755), os.Mkdir(l.Shared(), 0o755)); err != nil {
		return err
	}
	if err := copied(l.Self, filepath.Join(tools, keeperName)); err != nil {
		return err
	}
	l.say("bringing up a cluster of %d nodes", l.Workers+1)
	var err error
	l.cluster, err = kind.Up(ctx, kind.Options{Dir: l.dir, Workers: l.Workers, Disks: filepath.Join(l.dir, "disks"), Grace: grace, Tools: tools})
	if err != nil {
		return err
	}
	if err := l.load(); err != nil {
		return err
	}
	if l.workers, err = l.cluster.Workers(); err != nil {
		return err
	}
	if l.api, err = kubectl.Open(l.cluster.Kubeconfig); err != nil {
		return err
	}
	l.watch(ctx)
	l.front, err = l.node(ctx, "control-plane", l.cluster.Name+"-control-plane")
	return err
}

func (l *Lab) say(format string, args ...any) {
	if l.Told != nil {
		l.Told(fmt.Sprintf(format, args...))
	}
}

// keeperName is what this program is called in nodes.
const keeperName = "ringproof"

func copied(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// load gives the nodes the images.
func (l *Lab) load() error {
	all, err := l.Images(l.dir)
	if err != nil {
		return err
	}
	for _, i := range all {
		file := filepath.Join(l.dir, i.File())
		if _, err := i.Write(file); err != nil {
			return err
		}
		if err := errors.Join(l.cluster.Load(file), os.Remove(file)); err != nil {
			return err
		}
	}
	return nil
}

// watch keeps what the API server said last of pods, claims and volumes: while it is away
// that is what there is.
func (l *Lab) watch(ctx context.Context) {
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	all := informers.NewSharedInformerFactory(l.api, 0)
	core := all.Core().V1()
	l.pods, l.claims, l.volumes = core.Pods().Lister(), core.PersistentVolumeClaims().Lister(), core.PersistentVolumes().Lister()
	all.Start(ctx.Done())
	all.WaitForCacheSync(ctx.Done())
}

// Add takes one of the cluster's workers for a machine.
func (l *Lab) Add(ctx context.Context, name string) (local.Host, error) {
	l.mu.Lock()
	i := len(l.nodes)
	l.mu.Unlock()
	if i == len(l.workers) {
		return nil, fmt.Errorf("the cluster has %d workers, and none for %s (%w)", i, name, errors.ErrUnsupported)
	}
	n, err := l.node(ctx, name, l.workers[i])
	if err != nil {
		return nil, err
	}
	n.disk = filepath.Join(l.dir, "disks", fmt.Sprintf("m%d", i+1))
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
func (l *Lab) Shared() string { return filepath.Join(l.dir, "shared") }

// Gateway is nobody's address: what of the run goes to pods comes from their nodes.
func (l *Lab) Gateway() netip.Addr { return netip.IPv4Unspecified() }

// Resolve is no harm of a cluster: its names are Kubernetes's.
func (l *Lab) Resolve(string, netip.Addr) error { return errors.ErrUnsupported }

// Kubeconfig is the path of an administrator's.
func (l *Lab) Kubeconfig() string { return l.cluster.Kubeconfig }

// Listen has told what is printed in pods, line by line.
func (l *Lab) Listen(tell func(machine, line string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell = tell
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
		return machines.Evidence{What: server, Detail: "it is started again"}, l.cluster.Run(l.front.container, "mv", aside, manifest)
	}
	if err := l.cluster.Run(l.front.container, "mv", manifest, aside); err != nil {
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

// Release takes a finalizer off whatever has it.
func (l *Lab) Release(ctx context.Context, finalizer string) error {
	return l.api.Release(ctx, finalizer)
}

// member is the pod of a member on the node; nil: there is none. Of two, one of which is
// about to go, it is the other.
func (l *Lab) member(node string) (found *corev1.Pod) {
	pods, _ := l.pods.List(l.Members) // of a store
	for _, p := range pods {
		over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.Spec.NodeName != node || over || p.Status.PodIP == "" || claimOf(p) == "" {
			continue
		}
		if found == nil || found.DeletionTimestamp != nil {
			found = p
		}
	}
	return found
}

// claimOf is the claim of a pod; "": it has none.
func claimOf(p *corev1.Pod) string {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName
		}
	}
	return ""
}

// place is where on its node the pod's volume is; "": that isn't known.
func (l *Lab) place(p *corev1.Pod) string {
	claim, err := l.claims.PersistentVolumeClaims(p.Namespace).Get(claimOf(p))
	if err != nil {
		return ""
	}
	volume, err := l.volumes.Get(claim.Spec.VolumeName)
	switch {
	case err != nil:
		return ""
	case volume.Spec.HostPath != nil:
		return volume.Spec.HostPath.Path
	case volume.Spec.Local != nil:
		return volume.Spec.Local.Path
	}
	return ""
}

// Left are the containers of the cluster that are there still.
func (l *Lab) Left([]string) []string {
	if l.cluster == nil {
		return nil
	}
	said, err := exec.Command("docker", "ps", "-aq", "--filter", "label=io.x-k8s.kind.cluster="+l.cluster.Name).Output()
	if err != nil {
		return []string{"perhaps the cluster " + l.cluster.Name + ": " + err.Error()}
	}
	return strings.Fields(string(said))
}

// Close takes the cluster down, and what was on its disks.
func (l *Lab) Close() error {
	l.stop()
	var err error
	if l.cluster != nil {
		err = l.cluster.Close()
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}
