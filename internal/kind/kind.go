// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package kind brings up Kubernetes clusters whose nodes are containers of this
// machine, by sigs.k8s.io/kind, and takes them down again. It never touches a
// cluster, a context or a kubeconfig that it didn't make.
package kind

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/log"
)

// ready is how long a cluster may take until its nodes are Ready; on two quiet
// cores five nodes take half a minute.
const ready = 5 * time.Minute

// Options say what cluster is wanted.
type Options struct {
	Image   string       // of the nodes; "" is what RINGPROOF_KIND_IMAGE names, or else kind's own
	Workers int          // nodes beside the one of the control plane
	Dir     string       // where the kubeconfig goes: a folder of the caller's
	Log     func(string) // hears what kind does; may be nil

	// Disks is a folder of this machine that holds the volumes of the workers, those of
	// the Nth in its mN. What is there outlives the volume, if it is of StorageClass, and
	// the node. "": the volumes are in the nodes. What pods write there is theirs.
	Disks string
	// Tools is a folder of this machine that nodes see at [ToolsAt], to run what is there; "":
	// none.
	Tools string
	// Grace is after which time a silent node isn't Ready; 0: Kubernetes's own, 50 s.
	// From Kubernetes 1.36 on.
	Grace time.Duration
	// Audit is a folder of this machine in whose audit.log the API server writes a line
	// for each request that an account of a namespace made; "": nowhere. From Kubernetes
	// 1.36 on.
	Audit string
}

// Cluster is a cluster that runs.
type Cluster struct {
	Name       string
	Kubeconfig string // path
	provider   *cluster.Provider
}

// Up brings up a cluster and waits until its nodes are Ready. What was begun is
// taken down again if that fails, or if ctx ends.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &Cluster{
		Name:       newName(),
		Kubeconfig: filepath.Join(o.Dir, "kubeconfig"),
		provider:   cluster.NewProvider(cluster.ProviderWithDocker(), cluster.ProviderWithLogger(logger{o.Log})),
	}
	done := make(chan error, 1)
	go func() { done <- c.create(o) }()
	select {
	case err := <-done:
		if err == nil {
			return c, nil
		}
		return nil, errors.Join(fmt.Errorf("bring up the kind cluster %s: %w", c.Name, err), c.Close())
	case <-ctx.Done():
	}
	// kind can't be interrupted, but it fails when its nodes are gone; what it made
	// meanwhile goes the second time.
	err := c.Close()
	<-done
	return nil, errors.Join(ctx.Err(), err, c.Close())
}

func (c *Cluster) create(o Options) error {
	config, err := o.prepare()
	if err != nil {
		return err
	}
	err = c.provider.Create(c.Name,
		cluster.CreateWithV1Alpha4Config(config),
		cluster.CreateWithNodeImage(image(o.Image)),
		cluster.CreateWithKubeconfigPath(c.Kubeconfig),
		cluster.CreateWithWaitForReady(ready))
	if err != nil || o.Disks == "" {
		return err
	}
	return c.apply(storage)
}

// image is the node image that is meant; "" is the one that this release of kind
// was made for.
func image(asked string) string {
	if asked != "" {
		return asked
	}
	return os.Getenv("RINGPROOF_KIND_IMAGE")
}

// Close takes the cluster down: its nodes, their volumes and its kubeconfig. One
// that is gone already is no error.
func (c *Cluster) Close() error {
	if err := c.provider.Delete(c.Name, c.Kubeconfig); err != nil {
		return fmt.Errorf("take down the kind cluster %s: %w; ringproof clean does so later", c.Name, err)
	}
	return nil
}

// prefix begins the name of every cluster of ringproof; where its process runs
// follows, and the process, so that Clean knows whose it is.
const prefix = "ringproof-"

var made atomic.Int64

func newName() string { return fmt.Sprintf("%s%s-%d-%d", prefix, here(), os.Getpid(), made.Add(1)) }

// here names the space in which process IDs mean anything: others may share the
// Docker engine, whose processes are none here.
func here() string {
	host, _ := os.Hostname()
	space, _ := os.Readlink("/proc/self/ns/pid") // nothing where there is but one
	h := fnv.New32a()
	fmt.Fprint(h, host, space)
	return fmt.Sprintf("%08x", h.Sum32())
}

// Clean takes down the clusters of processes that were here and are no more, and
// names each. Where no Docker answers there is nothing to clean.
func Clean() ([]string, error) {
	if !docker(context.Background(), "version").ok {
		return nil, nil
	}
	provider := cluster.NewProvider(cluster.ProviderWithDocker())
	names, err := provider.List()
	if err != nil {
		return nil, fmt.Errorf("list the kind clusters: %w", err)
	}
	var removed []string
	var failed []error
	for _, name := range names {
		if !orphaned(name) {
			continue
		}
		c := Cluster{Name: name, Kubeconfig: os.DevNull, provider: provider}
		if err := c.Close(); err != nil {
			failed = append(failed, err)
			continue
		}
		removed = append(removed, "the kind cluster "+name)
	}
	return removed, errors.Join(failed...)
}

// orphaned reports whether a cluster was made by a process that was here and has
// ended.
func orphaned(name string) bool {
	rest, ours := strings.CutPrefix(name, prefix+here()+"-")
	pid, _, ok := strings.Cut(rest, "-")
	owner, err := strconv.Atoi(pid)
	return ours && ok && err == nil && ended(owner)
}

func ended(pid int) bool {
	process, err := os.FindProcess(pid)
	return err == nil && errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// logger hands kind's messages on, a line each.
type logger struct{ to func(string) }

func (l logger) say(text string) {
	if l.to == nil {
		return
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			l.to(line)
		}
	}
}

func (l logger) Warn(message string)           { l.say(message) }
func (l logger) Warnf(format string, a ...any) { l.say(fmt.Sprintf(format, a...)) }
func (l logger) Error(message string)          { l.say(message) }
func (l logger) Errorf(format string, a ...any) {
	l.say(fmt.Sprintf(format, a...))
}

func (l logger) V(level log.Level) log.InfoLogger {
	if level > 0 {
		return log.NoopInfoLogger{}
	}
	return info{l}
}

type info struct{ logger }

func (i info) Info(message string)           { i.say(message) }
func (i info) Infof(format string, a ...any) { i.say(fmt.Sprintf(format, a...)) }
func (i info) Enabled() bool                 { return i.to != nil }
