// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// gatedKube is a client of the API server, whose every write is a point. Reads pass, or are
// of a cache that is behind.
type gatedKube struct{ behind }

func gateKube(c kubeclient.Client, x *injector) gatedKube {
	return gatedKube{behind{c, x, map[string]*past{}}}
}

// write passes a write.
func (b behind) write(ctx context.Context, p point, o kubeclient.Object, do func(context.Context, kubeclient.Object) error) error {
	if as := b.before(ctx, p, o); as != nil {
		p.hide = func(d time.Duration) { b.hide(kindOf(o), as, d) }
	}
	sent := o.DeepCopyObject().(kubeclient.Object) // whoever asked goes on with o
	p.late = func(ctx context.Context) error { return do(ctx, sent) }
	return b.injector.around(ctx, p, func(ctx context.Context) error { return do(ctx, o) })
}

// wrote is a write of an object: "kube delete pod".
func wrote(verb string, o any) point { return asked(verb, kindOf(o)) }

// asked is a write of what has such a name. An API server that is about to end is what surely
// does nothing and says so.
func asked(verb, name string) point {
	return point{effect: "kube " + verb + " " + name, refusal: apierrors.NewServiceUnavailable("refused by a fault")}
}

// kindOf is what an object is, as kubectl names it: "statefulset".
func kindOf(o any) string {
	name := fmt.Sprintf("%T", o)
	return strings.ToLower(name[strings.LastIndex(name, ".")+1:])
}

func (g gatedKube) Create(ctx context.Context, o kubeclient.Object, how ...kubeclient.CreateOption) error {
	return g.write(ctx, wrote("create", o), o, func(ctx context.Context, o kubeclient.Object) error { return g.Client.Create(ctx, o, how...) })
}

// rehearses reports whether an update is a dry run, which changes nothing.
func rehearses(how []kubeclient.UpdateOption) bool {
	var options kubeclient.UpdateOptions
	return len(options.ApplyOptions(how).DryRun) > 0
}

func (g gatedKube) Update(ctx context.Context, o kubeclient.Object, how ...kubeclient.UpdateOption) error {
	if rehearses(how) {
		return g.Client.Update(ctx, o, how...)
	}
	return g.write(ctx, wrote("update", o), o, func(ctx context.Context, o kubeclient.Object) error { return g.Client.Update(ctx, o, how...) })
}

func (g gatedKube) Patch(ctx context.Context, o kubeclient.Object, p kubeclient.Patch, how ...kubeclient.PatchOption) error {
	return g.write(ctx, wrote("patch", o), o, func(ctx context.Context, o kubeclient.Object) error { return g.Client.Patch(ctx, o, p, how...) })
}

func (g gatedKube) Apply(ctx context.Context, o runtime.ApplyConfiguration, how ...kubeclient.ApplyOption) error {
	return g.injector.around(ctx, wrote("apply", o), func(ctx context.Context) error { return g.Client.Apply(ctx, o, how...) })
}

func (g gatedKube) Delete(ctx context.Context, o kubeclient.Object, how ...kubeclient.DeleteOption) error {
	return g.write(ctx, wrote("delete", o), o, func(ctx context.Context, o kubeclient.Object) error { return g.Client.Delete(ctx, o, how...) })
}

func (g gatedKube) DeleteAllOf(ctx context.Context, o kubeclient.Object, how ...kubeclient.DeleteAllOfOption) error {
	return g.write(ctx, wrote("delete", o), o, func(ctx context.Context, o kubeclient.Object) error { return g.Client.DeleteAllOf(ctx, o, how...) })
}

// Status is the writer of what is told of objects.
func (g gatedKube) Status() kubeclient.SubResourceWriter { return g.SubResource("status") }

// SubResource is the writer of a part of objects that is written by itself.
func (g gatedKube) SubResource(name string) kubeclient.SubResourceClient {
	return gatedPart{g.Client.SubResource(name), g.behind, name}
}

// gatedPart is the writer of a part of objects, whose every write is a point: "kube status
// pod", "kube create eviction".
type gatedPart struct {
	kubeclient.SubResourceClient
	of   behind
	name string
}

func (g gatedPart) wrote(verb string, o any) point {
	if g.name == "status" {
		return wrote("status", o)
	}
	return asked(verb, g.name)
}

func (g gatedPart) Create(ctx context.Context, o, part kubeclient.Object, how ...kubeclient.SubResourceCreateOption) error {
	sent := part.DeepCopyObject().(kubeclient.Object) // as o is, by whoever is late
	return g.of.write(ctx, g.wrote("create", o), o, func(ctx context.Context, o kubeclient.Object) error {
		return g.SubResourceClient.Create(ctx, o, sent, how...)
	})
}

func (g gatedPart) Update(ctx context.Context, o kubeclient.Object, how ...kubeclient.SubResourceUpdateOption) error {
	return g.of.write(ctx, g.wrote("update", o), o, func(ctx context.Context, o kubeclient.Object) error {
		return g.SubResourceClient.Update(ctx, o, how...)
	})
}

func (g gatedPart) Patch(ctx context.Context, o kubeclient.Object, p kubeclient.Patch, how ...kubeclient.SubResourcePatchOption) error {
	return g.of.write(ctx, g.wrote("patch", o), o, func(ctx context.Context, o kubeclient.Object) error {
		return g.SubResourceClient.Patch(ctx, o, p, how...)
	})
}

func (g gatedPart) Apply(ctx context.Context, o runtime.ApplyConfiguration, how ...kubeclient.SubResourceApplyOption) error {
	return g.of.injector.around(ctx, g.wrote("apply", o), func(ctx context.Context) error { return g.SubResourceClient.Apply(ctx, o, how...) })
}
