// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/ringproof/ringproof/internal/image"
	"github.com/ringproof/ringproof/internal/kind"
	"github.com/ringproof/ringproof/internal/kubectl"
)

// Clusters are those that worlds have after one another. To bring one up takes a minute, and
// to take from it what a world has made a few seconds; one that has lost a node is no use to
// anybody.
type Clusters struct {
	mu   sync.Mutex
	idle []*cluster
}

// cluster is one, whoever has it.
type cluster struct {
	*kind.Cluster
	dir     string
	api     kubectl.Client
	pods    corelisters.PodLister
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	stop    context.CancelFunc // of what watches the API server
	workers []string           // their containers, the Nth that of mN
	begun   []belonging        // what it had when it came up
	loaded  map[string]string  // digests of images, by name
}

// take finds an idle cluster with nodes enough, or brings one up. An idle one that is too small
// makes room for it.
func (c *Clusters) take(ctx context.Context, o Options) (*cluster, error) {
	c.mu.Lock()
	small := c.idle
	i := slices.IndexFunc(c.idle, func(k *cluster) bool { return len(k.workers) >= o.Workers })
	if i >= 0 {
		found := c.idle[i]
		c.idle = slices.Delete(c.idle, i, i+1)
		c.mu.Unlock()
		return found, nil
	}
	c.idle = nil
	c.mu.Unlock()
	var errs []error
	for _, k := range small {
		errs = append(errs, k.end())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return up(ctx, o)
}

// giveBack takes from the cluster what its world has made, and keeps it for the next. One for
// which that fails is taken down, and told is why.
func (c *Clusters) giveBack(k *cluster, whole bool, told func(string)) error {
	if !whole {
		return k.end()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := k.reset(ctx); err != nil {
		if told != nil {
			told("the cluster isn't used again: " + err.Error())
		}
		return k.end()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, k)
	return nil
}

// Close takes all clusters down that nobody has.
func (c *Clusters) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, k := range c.idle {
		errs = append(errs, k.end())
	}
	c.idle = nil
	return errors.Join(errs...)
}

// usual is how many workers a cluster has at least, so that most rings can have it.
const usual = 5

// grace is after which time a node that is silent isn't Ready.
const grace = 12 * time.Second

// up brings a cluster up.
func up(ctx context.Context, o Options) (*cluster, error) {
	dir, err := os.MkdirTemp("", "ringproof-cluster-")
	if err != nil {
		return nil, err
	}
	k := &cluster{dir: dir, stop: func() {}, loaded: map[string]string{}}
	if err := k.begin(ctx, o); err != nil {
		return nil, errors.Join(err, k.end())
	}
	return k, nil
}

func (k *cluster) begin(ctx context.Context, o Options) error {
	tools := filepath.Join(k.dir, "tools")
	if err := errors.Join(os.Mkdir(tools, 0o755), copied(o.Self, filepath.Join(tools, keeperName))); err != nil {
		return err
	}
	workers := max(o.Workers, usual)
	if o.OnProgress != nil {
		o.OnProgress(fmt.Sprintf("bringing up a cluster of %d nodes", workers+1))
	}
	var err error
	if k.Cluster, err = kind.Up(ctx, kind.Options{Dir: k.dir, Workers: workers, Disks: filepath.Join(k.dir, "disks"), Grace: grace, Tools: tools}); err != nil {
		return err
	}
	if k.workers, err = k.Workers(); err != nil {
		return err
	}
	if k.api, err = kubectl.Open(k.Kubeconfig); err != nil {
		return err
	}
	k.watch(ctx)
	k.begun, err = k.has(ctx)
	return err
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

// disk is the directory of this host with the volumes of a worker.
func (k *cluster) disk(worker int) string {
	return filepath.Join(k.dir, "disks", fmt.Sprintf("m%d", worker+1))
}

// load gives the nodes the images that they don't have.
func (k *cluster) load(all []image.Image, dir string) error {
	for _, i := range all {
		file := filepath.Join(dir, i.File())
		digest, err := i.Write(file)
		if err != nil {
			return err
		}
		if k.loaded[i.Name] != digest {
			err = k.Load(file)
		}
		if err := errors.Join(err, os.Remove(file)); err != nil {
			return err
		}
		k.loaded[i.Name] = digest
	}
	return nil
}

// spare keeps pods off the workers that are no machines of a ring with so many.
func (k *cluster) spare(ctx context.Context, machines int) error {
	var errs []error
	for i, worker := range k.workers {
		errs = append(errs, k.api.Cordon(ctx, worker, i >= machines))
	}
	return errors.Join(errs...)
}

// watch keeps what the API server said last of pods, claims and volumes: while it is away
// that is what there is.
func (k *cluster) watch(ctx context.Context) {
	ctx, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	all := informers.NewSharedInformerFactory(k.api, 0)
	core := all.Core().V1()
	k.pods, k.claims, k.volumes = core.Pods().Lister(), core.PersistentVolumeClaims().Lister(), core.PersistentVolumes().Lister()
	all.Start(ctx.Done())
	all.WaitForCacheSync(ctx.Done())
}

// end takes the cluster down, and what is on its disks.
func (k *cluster) end() error {
	k.stop()
	var err error
	if k.Cluster != nil {
		err = k.Close()
	}
	return errors.Join(err, os.RemoveAll(k.dir))
}

// member is the pod of a member on the node; nil: there is none. Of two, one of which is
// about to go, it is the other.
func (c *cluster) member(node string, of labels.Selector) (found *corev1.Pod) {
	pods, _ := c.pods.List(of) // of a store
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
func (c *cluster) place(p *corev1.Pod) string {
	claim, err := c.claims.PersistentVolumeClaims(p.Namespace).Get(claimOf(p))
	if err != nil {
		return ""
	}
	volume, err := c.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return ""
	}
	return kubectl.VolumePath(volume)
}
