// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package trial

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// What each namespace has, and what another one has, is left of no ring.
func TestLeft(t *testing.T) {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	api := fake.NewClientBuilder().WithObjects(
		&corev1.ConfigMap{ObjectMeta: meta("rings", "kube-root-ca.crt")}, &corev1.ServiceAccount{ObjectMeta: meta("rings", "default")},
		&corev1.Pod{ObjectMeta: meta("other", "r-0")}, &corev1.PersistentVolumeClaim{ObjectMeta: meta("rings", "data-r-0")}, &corev1.Pod{ObjectMeta: meta("rings", "r-3")}).Build()
	left, err := Left(t.Context(), api, "rings")
	require.NoError(t, err)
	assert.Equal(t, []string{"pod/r-3", "persistentvolumeclaim/data-r-0"}, left)
	_, err = Left(t.Context(), api, "rings", corev1.SchemeGroupVersion.WithKind("Unheard"))
	assert.NoError(t, err)
}
