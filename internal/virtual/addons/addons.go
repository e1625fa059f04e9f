// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

// Package addons is what a cluster in virtual time has beside its control plane and its
// kubelets: names, as CoreDNS answers for them, the addresses of Services, as kube-proxy
// has them, and disks, as a provisioner of local paths makes them.
package addons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ringproof/ringproof/internal/lockstep"
)

// Options are those of a cluster.
type Options struct {
	Kubeconfig  string `json:"kubeconfig"`  // path
	Volumes     string `json:"volumes"`     // the directory that disks are made in
	VolumeBytes int64  `json:"volumeBytes"` // the size of each, which is a filesystem of its own; 0: none is
}

// Run routes to Services and makes disks, until ctx ends.
func Run(ctx context.Context, o Options) error {
	api, err := client(o)
	if err != nil {
		return err
	}
	all := informers.NewSharedInformerFactory(api, 0)
	orders, err := lockstep.Order(ctx)
	if err != nil {
		return err
	}
	p, d := newProxy(all, orders), &disks{Options: o, api: api}
	d.until(ctx, "making the storage class", func() error { return d.class(ctx) })
	if err := errors.Join(d.watch(ctx, all), p.watch(all)); err != nil {
		return err
	}
	all.StartWithContext(ctx)
	<-ctx.Done()
	return ctx.Err()
}

// Answer answers for names, until ctx ends.
func Answer(ctx context.Context, o Options) error {
	api, err := client(o)
	if err != nil {
		return err
	}
	all := informers.NewSharedInformerFactory(api, 0)
	n := newNames(all)
	all.StartWithContext(ctx)
	return n.serve(ctx)
}

func client(o Options) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// on has something done with each object of a kind that is new or another.
func on(i cache.SharedIndexInformer, do func(o any)) error {
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: do, UpdateFunc: func(_, o any) { do(o) }})
	return err
}

// complain says what went wrong, for whoever looks into a run.
func complain(what string, err error) {
	fmt.Fprintf(os.Stderr, "%s %s: %v\n", time.Now().UTC().Format("15:04:05.000"), what, err)
}
