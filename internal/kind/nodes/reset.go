// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ringproof/ringproof/internal/local/machines"
)

// belonging is an object of a cluster's.
type belonging struct {
	of              schema.GroupVersionResource
	namespace, name string // namespace "": it is in none
}

// own are those that a cluster makes of itself, whoever uses it.
var own = []string{"nodes", "csinodes", "ipaddresses", "servicecidrs", "certificatesigningrequests", "volumeattachments", "componentstatuses", "apiservices", "events"}

// patience is how long a cluster may take to let go of what a world has made.
const patience = 90 * time.Second

// objects is a client of whatever objects there are.
func (k *cluster) objects() (metadata.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", k.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return metadata.NewForConfig(config)
}

// has lists what the cluster has that is in no namespace, and with those the objects of kinds
// that somebody has defined.
func (k *cluster) has(ctx context.Context) (all []belonging, err error) {
	objects, err := k.objects()
	if err != nil {
		return nil, err
	}
	kinds, err := k.kinds(ctx)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		list, err := objects.Resource(kind).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) { // the kind itself has gone
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		for _, o := range list.Items {
			all = append(all, belonging{kind, o.Namespace, o.Name})
		}
	}
	return all, nil
}

const definitions = "customresourcedefinitions"

// kinds are those of what can be listed and deleted and is in no namespace, or is of a kind
// that somebody has defined.
func (k *cluster) kinds(ctx context.Context) (all []schema.GroupVersionResource, err error) {
	objects, err := k.objects()
	if err != nil {
		return nil, err
	}
	defined, err := objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: definitions}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	custom := func(r schema.GroupResource) bool {
		return slices.ContainsFunc(defined.Items, func(d metav1.PartialObjectMetadata) bool { return d.Name == r.String() })
	}
	lists, err := k.api.Discovery().ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // of one that goes just now
		return nil, err
	}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			kind := group.WithResource(r.Name)
			can := slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") && !slices.Contains(own, r.Name)
			if can && (!r.Namespaced || custom(kind.GroupResource())) {
				all = append(all, kind)
			}
		}
	}
	return all, nil
}

// reset takes from the cluster whatever it hadn't when it came up.
func (k *cluster) reset(ctx context.Context) error {
	objects, err := k.objects()
	if err != nil {
		return err
	}
	for {
		now, err := k.has(ctx)
		if err != nil {
			return err
		}
		first := k.first(now)
		if len(first) == 0 {
			return k.clear()
		}
		for _, o := range first {
			if o.of.Resource == "namespaces" { // in order its pods would take half a minute to end
				at := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
				if err := k.api.CoreV1().Pods(o.name).DeleteCollection(ctx, at, metav1.ListOptions{}); err != nil {
					return err
				}
			}
			if err := k.drop(ctx, objects, o); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// drop deletes an object. Whoever looks after a custom resource isn't waited for: it would end
// a ring in good order, member by member, and nobody needs that any more.
func (k *cluster) drop(ctx context.Context, objects metadata.Interface, o belonging) error {
	of := objects.Resource(o.of).Namespace(o.namespace)
	if err := of.Delete(ctx, o.name, metav1.DeleteOptions{}); err != nil || o.namespace == "" {
		return err
	}
	_, err := of.Patch(ctx, o.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	return err
}

// first is what goes first of what the cluster hadn't when it came up: custom resources,
// while their kinds are there, then namespaces, then the rest.
func (k *cluster) first(now []belonging) []belonging {
	var custom, namespaces, rest []belonging
	for _, o := range now {
		switch {
		case slices.Contains(k.begun, o):
		case o.namespace != "":
			custom = append(custom, o)
		case o.of.Resource == "namespaces":
			namespaces = append(namespaces, o)
		default:
			rest = append(rest, o)
		}
	}
	for _, stage := range [][]belonging{custom, namespaces, rest} {
		if len(stage) > 0 {
			return stage
		}
	}
	return nil
}

// clear empties the disks.
func (k *cluster) clear() error {
	var errs []error
	for i := range k.workers {
		errs = append(errs, machines.Empty(k.disk(i)))
	}
	return errors.Join(errs...)
}
