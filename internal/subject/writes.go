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

func gateKube(c kubeclient.Client, x *harm) gatedKube {
	return gatedKube{behind{c, x, map[string]*past{}}}
}

// write passes a write.
func (b behind) write(ctx context.Context, verb string, o kubeclient.Object, do func(context.Context, kubeclient.Object) error) error {
	p := wrote(verb, o)
	if as := b.before(ctx, p, o); as != nil {
		p.hide = func(d time.Duration) { b.hide(kindOf(o), as, d) }
	}
	asked := o.DeepCopyObject().(kubeclient.Object) // whoever asked goes on with o
	p.late = func(ctx context.Context) error { return do(ctx, asked) }
	return b.harm.around(ctx, p, func(ctx context.Context) error { return do(ctx, o) })
}

// wrote is a write of an object: "kube delete pod". An API server that is about to end is
// what surely does nothing and says so.
func wrote(verb string, o any) point {
	return point{effect: "kube " + verb + " " + kindOf(o), refusal: apierrors.NewServiceUnavailable("refused by a fault")}
}

// kindOf is what an object is, as kubectl names it: "statefulset".
func kindOf(o any) string {
	name := fmt.Sprintf("%T", o)
	return strings.ToLower(name[strings.LastIndex(name, ".")+1:])
}

func (g gatedKube) Create(ctx context.Context, o kubeclient.Object, how ...kubeclient.CreateOption) error {
	return g.write(ctx, "create", o, func(ctx context.Context, o kubeclient.Object) error { return g.Client.Create(ctx, o, how...) })
}

func (g gatedKube) Update(ctx context.Context, o kubeclient.Object, how ...kubeclient.UpdateOption) error {
	return g.write(ctx, "update", o, func(ctx context.Context, o kubeclient.Object) error { return g.Client.Update(ctx, o, how...) })
}

func (g gatedKube) Patch(ctx context.Context, o kubeclient.Object, p kubeclient.Patch, how ...kubeclient.PatchOption) error {
	return g.write(ctx, "patch", o, func(ctx context.Context, o kubeclient.Object) error { return g.Client.Patch(ctx, o, p, how...) })
}

func (g gatedKube) Apply(ctx context.Context, o runtime.ApplyConfiguration, how ...kubeclient.ApplyOption) error {
	return g.harm.around(ctx, wrote("apply", o), func(ctx context.Context) error { return g.Client.Apply(ctx, o, how...) })
}

func (g gatedKube) Delete(ctx context.Context, o kubeclient.Object, how ...kubeclient.DeleteOption) error {
	return g.write(ctx, "delete", o, func(ctx context.Context, o kubeclient.Object) error { return g.Client.Delete(ctx, o, how...) })
}

func (g gatedKube) DeleteAllOf(ctx context.Context, o kubeclient.Object, how ...kubeclient.DeleteAllOfOption) error {
	return g.write(ctx, "delete", o, func(ctx context.Context, o kubeclient.Object) error { return g.Client.DeleteAllOf(ctx, o, how...) })
}

// Status is the writer of what is told of objects.
func (g gatedKube) Status() kubeclient.SubResourceWriter {
	return gatedStatus{g.Client.Status(), g.behind}
}

// gatedStatus is the writer of an object's status, whose every write is a point.
type gatedStatus struct {
	kubeclient.SubResourceWriter
	behind
}

func (g gatedStatus) Update(ctx context.Context, o kubeclient.Object, how ...kubeclient.SubResourceUpdateOption) error {
	return g.write(ctx, "status", o, func(ctx context.Context, o kubeclient.Object) error {
		return g.SubResourceWriter.Update(ctx, o, how...)
	})
}

func (g gatedStatus) Patch(ctx context.Context, o kubeclient.Object, p kubeclient.Patch, how ...kubeclient.SubResourcePatchOption) error {
	return g.write(ctx, "status", o, func(ctx context.Context, o kubeclient.Object) error {
		return g.SubResourceWriter.Patch(ctx, o, p, how...)
	})
}
