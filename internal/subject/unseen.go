// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/ringproof/ringproof/internal/seam"
)

// behind is a cache that hears late: of some kinds it shows a namespace as it was. Its reads
// alone are old; who reads from the API server itself reads what is.
type behind struct {
	kubeclient.Client
	injector *injector
	shows    map[string]*past // by kind, as an effect names it
}

// past is what a namespace held of one kind.
type past struct {
	namespace string
	objects   []runtime.Object
	until     time.Time
}

// uncached are the kinds that ringadm reads of no cache.
var uncached = []string{"secret", "configmap"}

// before is what there is of an object's kind now, if a fault is set that may hide what
// becomes of it; nil: none is, or nobody reads it of a cache.
func (b behind) before(ctx context.Context, p point, o kubeclient.Object) *past {
	hides := func(s seam.Setting) bool { return s.Fault.Phase == seam.Unseen }
	if slices.Contains(uncached, kindOf(o)) || !slices.ContainsFunc(b.injector.cuts(b.injector.set(), p), hides) {
		return nil
	}
	of, err := apiutil.GVKForObject(o, b.Scheme())
	if err != nil {
		return nil
	}
	made, err := b.Scheme().New(of.GroupVersion().WithKind(of.Kind + "List"))
	if err != nil {
		return nil
	}
	list, is := made.(kubeclient.ObjectList)
	if !is || b.Client.List(ctx, list, kubeclient.InNamespace(o.GetNamespace())) != nil {
		return nil
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil
	}
	return &past{namespace: o.GetNamespace(), objects: objects}
}

// hide has the kind shown as it was, for so long.
func (b behind) hide(kind string, as *past, d time.Duration) {
	as.until = b.injector.host.Now().Add(d)
	b.shows[kind] = as
}

// shown is what is shown in place of the present; nil: that is.
func (b behind) shown(kind, namespace string) *past {
	p := b.shows[kind]
	if p == nil || p.namespace != namespace || !b.injector.host.Now().Before(p.until) {
		return nil
	}
	return p
}

func (b behind) Get(ctx context.Context, key kubeclient.ObjectKey, o kubeclient.Object, how ...kubeclient.GetOption) error {
	p := b.shown(kindOf(o), key.Namespace)
	if p == nil {
		return b.Client.Get(ctx, key, o, how...)
	}
	for _, old := range p.objects {
		if old.(kubeclient.Object).GetName() == key.Name {
			reflect.ValueOf(o).Elem().Set(reflect.ValueOf(old.DeepCopyObject()).Elem())
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: kindOf(o)}, key.Name)
}

func (b behind) List(ctx context.Context, list kubeclient.ObjectList, how ...kubeclient.ListOption) error {
	o := kubeclient.ListOptions{}
	o.ApplyOptions(how)
	kind := kindOf(list)
	p := b.shown(kind[:max(0, len(kind)-len("list"))], o.Namespace)
	if p == nil || o.FieldSelector != nil {
		return b.Client.List(ctx, list, how...)
	}
	var all []runtime.Object
	for _, old := range p.objects {
		if o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(old.(kubeclient.Object).GetLabels())) {
			all = append(all, old.DeepCopyObject())
		}
	}
	return meta.SetList(list, all)
}
