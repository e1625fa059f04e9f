// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/ringproof/ringproof"
)

// Shown looks through all objects of the cluster but its Secrets, of whatever kind, and names
// those that hold a key.
func (c Client) Shown(ctx context.Context, holdsKey func(text []byte) bool) (o ringproof.Objects) {
	kinds, err := c.shown()
	for _, kind := range kinds {
		var all *unstructured.UnstructuredList
		failed := insist(ctx, func() (err error) { all, err = c.objects.Resource(kind).List(ctx, metav1.ListOptions{}); return err })
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("list %s: %w", kind.GroupResource(), failed))
			continue
		}
		for _, one := range all.Items {
			o.Seen++
			text, failed := one.MarshalJSON()
			err = errors.Join(err, failed)
			if holdsKey(text) {
				o.Keys = append(o.Keys, kind.GroupResource().String()+" "+strings.TrimPrefix(one.GetNamespace()+"/"+one.GetName(), "/"))
			}
		}
	}
	if err != nil {
		o.Err = err.Error()
	}
	return o
}

// shown are the kinds of objects that can be listed but Secrets, each in the version that the API
// server prefers.
func (c Client) shown() (kinds []schema.GroupVersionResource, err error) {
	of, err := discovery.ServerPreferredResources(c.Discovery())
	for _, list := range of {
		group, failed := schema.ParseGroupVersion(list.GroupVersion)
		err = errors.Join(err, failed)
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && r.Name != "secrets" {
				kinds = append(kinds, group.WithResource(r.Name))
			}
		}
	}
	return kinds, err
}
