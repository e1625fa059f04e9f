// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package trial

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof"
)

// Cascade is what becomes of what an object owns that is deleted, as kubectl delete --cascade says it:
// it goes after ("background"), before ("foreground"), or is left ("orphan").
func Cascade(how string) metav1.DeletionPropagation {
	switch how {
	case ringproof.Orphan:
		return metav1.DeletePropagationOrphan
	case ringproof.Foreground:
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// Withdrawn is an object that asks for a ring, while nobody asks.
type Withdrawn struct {
	mu    sync.Mutex
	asked *unstructured.Unstructured // nil: it was never withdrawn
}

func (w *Withdrawn) was() *unstructured.Unstructured {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// renewing is how long an object that is being deleted, or an API server that is away, is
// waited for.
const renewing = 2 * time.Minute

// Withdraw deletes the object, and keeps what it asked for.
func (w *Withdrawn) Withdraw(ctx context.Context, api kubeclient.Client, o *unstructured.Unstructured, how string) (object string, err error) {
	if err := api.Get(ctx, kubeclient.ObjectKeyFromObject(o), o); err != nil {
		return "", err
	}
	uid := o.GetUID()
	w.mu.Lock()
	w.asked = asApplied(o)
	w.mu.Unlock()
	err = api.Delete(ctx, o, kubeclient.PropagationPolicy(Cascade(how)), kubeclient.Preconditions{UID: &uid})
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName(), err
}

// asApplied is an object as somebody has it in a file: what it asks for, its labels and its
// annotations.
func asApplied(o *unstructured.Unstructured) *unstructured.Unstructured {
	fresh := &unstructured.Unstructured{Object: maps.Clone(o.Object)}
	delete(fresh.Object, "status")
	delete(fresh.Object, "metadata")
	fresh.SetNamespace(o.GetNamespace())
	fresh.SetName(o.GetName())
	fresh.SetLabels(o.GetLabels())
	fresh.SetAnnotations(o.GetAnnotations())
	return fresh
}

// Renew makes the object anew, once that of before is gone.
func (w *Withdrawn) Renew(ctx context.Context, api kubeclient.Client) (err error) {
	asked := w.was()
	if asked == nil {
		return errors.New("nothing was withdrawn")
	}
	for began := time.Now(); time.Since(began) < renewing && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		if err = api.Create(ctx, asked.DeepCopy()); err == nil || apierrors.IsInvalid(err) {
			return err
		}
	}
	return err
}

// Await gets the object, once it is there again: whoever edits one that was deleted tries again later.
func (w *Withdrawn) Await(ctx context.Context, api kubeclient.Client, name kubeclient.ObjectKey, into kubeclient.Object) (err error) {
	for began := time.Now(); ; time.Sleep(time.Second) {
		err = api.Get(ctx, name, into)
		if !apierrors.IsNotFound(err) || w.was() == nil || time.Since(began) > renewing || ctx.Err() != nil {
			return err
		}
	}
}
