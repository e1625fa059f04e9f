// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Client returns what controller-runtime's clients are to a controller: its objects are
// typed ones, its reads are of the server and not of a cache, and each request is
// carried out at once. What isn't modelled is refused.
func (s *Server) Client() client.Client { return requests{s} }

type requests struct{ server *Server }

var _ client.Client = requests{}

// errNotModelled begins the refusal of what the server can't do.
var errNotModelled = errors.New("the simulated API server can't do this")

func notModelled(what string) error { return fmt.Errorf("%w: %s", errNotModelled, what) }

// fill puts what the server answered into the caller's object.
func (r requests) fill(into client.Object, answer Object, err error) error {
	if err != nil {
		return err
	}
	to, from := reflect.ValueOf(into), reflect.ValueOf(answer)
	if to.Type() != from.Type() {
		return notModelled(fmt.Sprintf("a %s as a %s: ask by the kind's own type", from.Type(), to.Type()))
	}
	to.Elem().Set(from.Elem())
	return nil
}

func (r requests) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	gvk, err := r.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	found, err := r.server.Get(gvk, key)
	return r.fill(o, found, err)
}

func (r requests) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	if o.FieldSelector != nil && !o.FieldSelector.Empty() {
		return notModelled("a field selector in a list: " + o.FieldSelector.String())
	}
	gvk, err := r.itemsOf(list)
	if err != nil {
		return err
	}
	found, version, err := r.server.List(gvk, o.Namespace)
	if err != nil {
		return err
	}
	var items []runtime.Object
	for _, item := range found {
		if o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(item.GetLabels())) {
			items = append(items, item)
		}
	}
	list.SetResourceVersion(strconv.FormatInt(version, 10))
	return meta.SetList(list, items)
}

// itemsOf is the kind that a list is of.
func (r requests) itemsOf(list client.ObjectList) (schema.GroupVersionKind, error) {
	gvk, err := r.GroupVersionKindFor(list)
	if err != nil {
		return gvk, err
	}
	const suffix = "List"
	if len(gvk.Kind) <= len(suffix) || gvk.Kind[len(gvk.Kind)-len(suffix):] != suffix {
		return gvk, fmt.Errorf("%s is no list", gvk.Kind)
	}
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len(suffix)]
	return gvk, nil
}

func (r requests) Create(_ context.Context, o client.Object, opts ...client.CreateOption) error {
	var options client.CreateOptions
	options.ApplyOptions(opts)
	defer r.server.rehearse(options.DryRun)()
	made, err := r.server.Create(o)
	return r.fill(o, made, err)
}

func (r requests) Update(_ context.Context, o client.Object, opts ...client.UpdateOption) error {
	var options client.UpdateOptions
	options.ApplyOptions(opts)
	defer r.server.rehearse(options.DryRun)()
	updated, err := r.server.Update(o)
	return r.fill(o, updated, err)
}

func (r requests) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return r.patch(o, patch, false)
}

func (r requests) patch(o client.Object, patch client.Patch, status bool) error {
	gvk, err := r.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	text, err := patch.Data(o)
	if err != nil {
		return err
	}
	patched, err := r.server.Patch(gvk, keyOf(o), patch.Type(), text, status)
	return r.fill(o, patched, err)
}

func (r requests) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	gvk, err := r.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	_, err = r.server.Delete(gvk, keyOf(o), *options.AsDeleteOptions())
	return err
}

func (r requests) DeleteAllOf(_ context.Context, o client.Object, opts ...client.DeleteAllOfOption) error {
	var options client.DeleteAllOfOptions
	options.ApplyOptions(opts)
	gvk, err := r.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	found, _, err := r.server.List(gvk, options.Namespace)
	if err != nil {
		return err
	}
	for _, item := range found {
		if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(item.GetLabels())) {
			continue
		}
		if _, err := r.server.Delete(gvk, keyOf(item), *options.AsDeleteOptions()); err != nil {
			return err
		}
	}
	return nil
}

func (requests) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return notModelled("server-side apply")
}

func (r requests) Status() client.SubResourceWriter { return r.SubResource("status") }

func (r requests) SubResource(name string) client.SubResourceClient { return subresource{r, name} }

func (r requests) Scheme() *runtime.Scheme { return r.server.scheme }

// RESTMapper knows the kinds of the server.
func (r requests) RESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk, sh := range r.server.shelves { // order: a mapper is asked by kind
		scope := meta.RESTScopeNamespace
		if sh.kind.Global {
			scope = meta.RESTScopeRoot
		}
		mapper.AddSpecific(gvk, gvk.GroupVersion().WithResource(sh.kind.Resource), gvk.GroupVersion().WithResource(sh.kind.Resource), scope)
	}
	return mapper
}

func (r requests) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, r.server.scheme)
}

func (r requests) IsObjectNamespaced(o runtime.Object) (bool, error) {
	gvk, err := r.GroupVersionKindFor(o)
	if err != nil {
		return false, err
	}
	sh, err := r.server.shelf(gvk)
	if err != nil {
		return false, err
	}
	return !sh.kind.Global, nil
}

// subresource is a part of objects that is written by itself: status, and of pods
// eviction.
type subresource struct {
	requests
	name string
}

func (p subresource) known() error {
	if p.name != "status" {
		return notModelled("the subresource " + p.name)
	}
	return nil
}

func (p subresource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errors.Join(p.known(), notModelled("reading a subresource"))
}

func (p subresource) Create(_ context.Context, o, part client.Object, _ ...client.SubResourceCreateOption) error {
	eviction, ok := part.(*policyv1.Eviction)
	if p.name != "eviction" || !ok {
		return notModelled(fmt.Sprintf("creating a %T as %s", part, p.name))
	}
	var options metav1.DeleteOptions
	if eviction.DeleteOptions != nil {
		options = *eviction.DeleteOptions
	}
	return p.server.Evict(keyOf(o), options)
}

func (p subresource) Update(_ context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	if err := p.known(); err != nil {
		return err
	}
	var options client.SubResourceUpdateOptions
	options.ApplyOptions(opts)
	if options.SubResourceBody != nil {
		return notModelled("a status in another object")
	}
	updated, err := p.server.UpdateStatus(o)
	return p.fill(o, updated, err)
}

func (p subresource) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	if err := p.known(); err != nil {
		return err
	}
	return p.patch(o, patch, true)
}

func (p subresource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return notModelled("server-side apply")
}
