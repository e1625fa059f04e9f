// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package trial

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json" // its integers are none with a point
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof"
)

// EditOther carries out an edit of another object than the ring's, which is of the same group and
// version. One that isn't there is made, as kubectl apply does.
func EditOther(ctx context.Context, api kubeclient.Client, group schema.GroupVersion, namespace string, op ringproof.Op) (done string, err error) {
	patch, err := op.MergePatch()
	if err != nil {
		return "", err
	}
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(patch, &o.Object); err != nil {
		return "", err
	}
	kind, name := op.Object()
	o.SetGroupVersionKind(group.WithKind(kind))
	o.SetName(name)
	if namespaced, err := api.IsObjectNamespaced(o); err != nil {
		return "", err
	} else if namespaced {
		o.SetNamespace(namespace)
	}
	fresh := o.DeepCopy()
	err = api.Patch(ctx, o, kubeclient.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		err = api.Create(ctx, fresh)
	}
	return fmt.Sprintf("%s %s: %s", op.Params["object"], op.Params["field"], op.Params["value"]), Refused(err)
}

// Refused is what the API server said to an edit: [ErrRefused] where it takes no such object.
func Refused(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
