// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package trial

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ringproof/ringproof"
)

// kinds is a client that knows of which kinds objects are in a namespace.
func kinds() kubeclient.WithWatch {
	known := meta.NewDefaultRESTMapper(nil)
	known.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	known.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return fake.NewClientBuilder().WithRESTMapper(known).Build()
}

// TestEditOther: an object is made where there is none, in the ring's namespace if its kind is in one,
// and edited where there is one.
func TestEditOther(t *testing.T) {
	api, core := kinds(), corev1.SchemeGroupVersion
	edit := func(object, field, value string) (string, error) {
		return EditOther(t.Context(), api, core, "rings", ringproof.Op{Kind: ringproof.OpEdit, Params: map[string]string{"object": object, "field": field, "value": value}})
	}
	done, err := edit("ConfigMap/all", "data.launcher", "on")
	require.NoError(t, err)
	assert.Equal(t, "ConfigMap/all data.launcher: on", done)
	_, err = edit("ConfigMap/all", "data.size", `"3"`)
	require.NoError(t, err)
	_, err = edit("Node/m1", "spec.unschedulable", "true")
	require.NoError(t, err, "an object of no namespace")

	made := &corev1.ConfigMap{}
	require.NoError(t, api.Get(t.Context(), kubeclient.ObjectKey{Namespace: "rings", Name: "all"}, made))
	assert.Equal(t, map[string]string{"launcher": "on", "size": "3"}, made.Data)
	node := &corev1.Node{}
	require.NoError(t, api.Get(t.Context(), kubeclient.ObjectKey{Name: "m1"}, node))
	assert.True(t, node.Spec.Unschedulable)
}

func TestWhatTheAPIServerRefuses(t *testing.T) {
	kind := schema.GroupResource{Resource: "configmaps"}
	for refused, err := range map[bool]error{true: apierrors.NewForbidden(kind, "all", errors.New("no")), false: apierrors.NewServiceUnavailable("away")} {
		api := interceptor.NewClient(kinds(), interceptor.Funcs{
			Patch: func(context.Context, kubeclient.WithWatch, kubeclient.Object, kubeclient.Patch, ...kubeclient.PatchOption) error {
				return err
			},
		})
		_, got := EditOther(t.Context(), api, corev1.SchemeGroupVersion, "rings", ringproof.Op{Kind: ringproof.OpEdit, Params: map[string]string{"object": "ConfigMap/all", "field": "data.a", "value": "1"}})
		assert.Equal(t, refused, errors.Is(got, ErrRefused), got)
	}
}
