// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package kubelet

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// Variables come from objects and fields as the kubelet takes them: in their order, the later
// over the earlier, and what need not be there left out.
func TestVariables(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "n", Name: "o"}
	p := &pod{
		k: &kubelet{Options: Options{Node: "node-1"}, api: fake.NewClientset(
			&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "1", "b": "2"}},
			&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"b": []byte("3"), "s": []byte("4")}})},
		object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", Labels: map[string]string{"app": "x", "b/c": `"`}}},
	}
	p.marks.labels = p.object.Labels
	object := corev1.LocalObjectReference{Name: "o"}
	absent := corev1.LocalObjectReference{Name: "absent"}
	optional := true
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	of := func(env ...corev1.EnvVar) corev1.Container { return corev1.Container{Env: env} }

	got, err := p.variables(t.Context(), corev1.Container{
		EnvFrom: []corev1.EnvFromSource{
			{Prefix: "C_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: object}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: object}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: object}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: absent, Optional: &optional}},
		},
		Env: []corev1.EnvVar{
			{Name: "a", Value: "$(C_a)$(b)"},
			{Name: "app", ValueFrom: field("metadata.labels['app']")},
			{Name: "node", ValueFrom: field("spec.nodeName")},
			{Name: "key", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: object, Key: "s"}}},
			{Name: "none", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: object, Key: "z", Optional: &optional}}},
			{Name: "nobody", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: absent, Key: "z", Optional: &optional}}},
		},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"C_a", "C_b", "a", "b", "s", "app", "node", "key"}, got.names)
	assert.Equal(t, map[string]string{"C_a": "1", "C_b": "2", "a": "13", "b": "3", "s": "4", "app": "x", "node": "node-1", "key": "4"}, got.values)

	for says, spec := range map[string]corev1.Container{
		`configmaps "absent" not found`:     {EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: absent}}}},
		"couldn't find key z in Secret n/o": of(corev1.EnvVar{Name: "v", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: object, Key: "z"}}}),
		`secrets "absent" not found`:        of(corev1.EnvVar{Name: "v", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: absent, Key: "z"}}}),
		"spec.priority is none":             of(corev1.EnvVar{Name: "v", ValueFrom: field("spec.priority")}),
		"alone":                             of(corev1.EnvVar{Name: "v", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}}),
	} {
		_, err := p.variables(t.Context(), spec)
		assert.ErrorContains(t, err, says)
	}

	text, err := p.field("metadata.labels")
	require.NoError(t, err)
	assert.Equal(t, "app=\"x\"\nb/c=\"\\\"\"", text)
}

// A container may have a part of its volume, named by its variables: an operator gives each
// member the directory of its pod's name.
func TestPartOfAVolume(t *testing.T) {
	named := corev1.VolumeMount{Name: "data", MountPath: "/var/lib/etcd", SubPathExpr: "$(POD_NAME)"}
	c := &container{spec: corev1.Container{VolumeMounts: []corev1.VolumeMount{named}}}
	c.pod = &pod{volume: t.TempDir(), mains: []*container{c}, object: &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-r-0"}}}}}}}
	assert.Empty(t, c.pod.data(), "its variables aren't known yet")
	c.env.set("POD_NAME", "r-0")
	want := filepath.Join(c.pod.volume, "r-0")
	assert.NoDirExists(t, want)
	dir, err := c.part(c.pod.volume, named)
	require.NoError(t, err)
	assert.Equal(t, want, dir)
	assert.DirExists(t, want)
	assert.Equal(t, want, c.pod.data(), "a fault of the member's data finds it there")

	dir, err = c.part(c.pod.volume, corev1.VolumeMount{Name: "data", SubPath: "a/b"})
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(c.pod.volume, "a/b"), dir)
	c.spec.VolumeMounts[0].SubPathExpr = ""
	assert.Equal(t, c.pod.volume, c.pod.data())
}
