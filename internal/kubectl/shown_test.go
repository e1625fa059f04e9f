// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kubectl

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Whatever can be listed is looked through, but for Secrets; what can't be is told.
func TestShown(t *testing.T) {
	scheme := runtime.NewScheme()
	assert.NoError(t, corev1.AddToScheme(scheme))
	meta := metav1.ObjectMeta{Namespace: "rings", Name: "r"}
	objects := dynamicfake.NewSimpleDynamicClient(scheme, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"a": "KEY"}},
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "KEY"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	api := fake.NewClientset()
	api.Resources = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "configmaps", Verbs: []string{"list"}}, {Name: "secrets", Verbs: []string{"list"}}, {Name: "nodes", Verbs: []string{"list"}}, {Name: "bindings", Verbs: []string{"create"}},
	}}}
	o := Client{api, objects}.Shown(t.Context(), func(text []byte) bool { return strings.Contains(string(text), "KEY") })
	assert.Equal(t, 2, o.Seen)
	assert.Equal(t, []string{"configmaps rings/r"}, o.Keys)
	assert.Empty(t, o.Err)

	objects.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("not yours"))
	})
	o = Client{api, objects}.Shown(t.Context(), func([]byte) bool { return false })
	assert.Equal(t, 1, o.Seen)
	assert.Contains(t, o.Err, "list nodes: ")
	assert.Contains(t, o.Err, "not yours")
}
