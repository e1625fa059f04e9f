// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package trial

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// unsaid is how long a status is waited for that says nothing yet.
const unsaid = 30 * time.Second

var errUnsaid = errors.New("the status says nothing yet")

// EmptyStatus drops the status of an object, whoever writes it meanwhile, and returns the
// names of its fields. One that says nothing is waited for.
func EmptyStatus(ctx context.Context, api kubeclient.Client, o *unstructured.Unstructured) (before string, err error) {
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		before, err = emptyStatus(ctx, api, o)
		if !errors.Is(err, errUnsaid) || time.Since(began) > unsaid || ctx.Err() != nil {
			return before, err
		}
	}
}

func emptyStatus(ctx context.Context, api kubeclient.Client, o *unstructured.Unstructured) (before string, err error) {
	if err := api.Get(ctx, kubeclient.ObjectKeyFromObject(o), o); err != nil {
		return "", err
	}
	said, _, err := unstructured.NestedMap(o.Object, "status")
	switch {
	case err != nil:
		return "", err
	case len(said) == 0:
		return "", errUnsaid
	}
	return strings.Join(slices.Sorted(maps.Keys(said)), ", "), api.Status().Patch(ctx, o, kubeclient.RawPatch(types.MergePatchType, []byte(`{"status":null}`)))
}
