// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kubectl

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ringproof/ringproof"
)

// What a fault hits is the ring's own, and nobody else's; it is amended when it is another object, or
// says something again. What only a pod that is gone had is owed to nobody.
func TestBeside(t *testing.T) {
	yes, ring := true, types.UID("ring")
	owned := func(name string, uid types.UID) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "rings", Name: name, UID: uid,
			OwnerReferences: []metav1.OwnerReference{{Kind: "EtcdRing", Name: "r", UID: ring, Controller: &yes}},
		}
	}
	set := &appsv1.StatefulSet{ObjectMeta: owned("r", "set")}
	service := func(uid types.UID) runtime.Object {
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: owned("r", uid), Spec: corev1.ServiceSpec{Selector: map[string]string{"ring": "r"}},
		})
		require.NoError(t, err)
		return &unstructured.Unstructured{Object: o}
	}
	secret := &corev1.Secret{ObjectMeta: owned("r-3-tls", "tls"), Data: map[string][]byte{"tls.key": []byte("a")}}
	elses := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: "elses"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}}}
	dynamic := dynamicfake.NewSimpleDynamicClient(scheme.Scheme, service("a"), secret, elses)
	pods := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: "r-3"}})
	api := Client{Interface: pods, objects: dynamic}
	amended := func(b Beside) bool {
		ok, err := api.Amended(t.Context(), b)
		require.NoError(t, err)
		return ok
	}
	of := func(kind string) schema.GroupVersionResource { return beside[kind].of }

	empty := ringproof.Fault{Kind: ringproof.FaultObjectsEmptied, Object: "services"}
	e, hit, err := api.injectBeside(t.Context(), set, empty)
	require.NoError(t, err)
	assert.Equal(t, "services of EtcdRing r: r", e.String())
	require.Len(t, hit, 1)
	assert.Equal(t, "services/r", hit[0].String())
	assert.False(t, amended(hit[0]))
	now, err := dynamic.Resource(of("services")).Namespace("rings").Get(t.Context(), "r", metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotEqual(t, map[string]any{"ring": "r"}, now.Object["spec"].(map[string]any)["selector"])
	require.NoError(t, dynamic.Tracker().Update(of("services"), service("a"), "rings"))
	assert.True(t, amended(hit[0]), "it says again whom it chooses")

	remove := ringproof.Fault{Kind: ringproof.FaultObjectsDeleted, Object: "services"}
	_, hit, err = api.injectBeside(t.Context(), set, remove)
	require.NoError(t, err)
	assert.False(t, amended(hit[0]))
	require.NoError(t, dynamic.Tracker().Create(of("services"), service("b"), "rings"))
	assert.True(t, amended(hit[0]), "another is in its place")

	empty.Object = "secrets"
	_, hit, err = api.injectBeside(t.Context(), set, empty)
	require.NoError(t, err)
	assert.False(t, amended(hit[0]))
	require.NoError(t, pods.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "rings", "r-3"))
	assert.True(t, amended(hit[0]), "the pod that had it is gone")

	typed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: owned("r-client-tls", "client"), Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"ca.crt": []byte("a"), "tls.crt": []byte("b"), "tls.key": []byte("c")},
	})
	require.NoError(t, err)
	require.NoError(t, dynamic.Tracker().Delete(of("secrets"), "rings", "r-3-tls"))
	require.NoError(t, dynamic.Tracker().Create(of("secrets"), &unstructured.Unstructured{Object: typed}, "rings"))
	_, hit, err = api.injectBeside(t.Context(), set, empty)
	require.NoError(t, err)
	require.Len(t, hit, 1)
	assert.False(t, amended(hit[0]))
	now, err = dynamic.Resource(of("secrets")).Namespace("rings").Get(t.Context(), "r-client-tls", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"tls.crt": "", "tls.key": ""}, now.Object["data"], "the API server has no Secret of that type without them")

	_, _, err = api.injectBeside(t.Context(), set, ringproof.Fault{Kind: ringproof.FaultObjectsDeleted, Object: "roles"})
	assert.ErrorContains(t, err, "EtcdRing r owns no roles")
	dynamic.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(assert.AnError)
	})
	_, err = api.Amended(t.Context(), Beside{kind: "services", namespace: "rings", name: "r"})
	assert.Error(t, err, "no answer is none of that it was amended")
}

func TestPodOf(t *testing.T) {
	for name, want := range map[string]string{"r": "", "r-3-tls": "r-3", "r-12": "r-12", "r-client": "", "other-3-tls": "", "r-3x": ""} {
		assert.Equal(t, want, podOf("r", name), name)
	}
}
