// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package config_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/ringproof/ringproof/config"
	"github.com/ringproof/ringproof/internal/image"
	"github.com/ringproof/ringproof/reference/kube"
)

// deed is a verb on a resource, "create apps/statefulsets".
type deed string

// documents are the objects of a manifest, each parsed by its kind alone.
func documents(t *testing.T, file string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	all, stream := map[string][]byte{}, yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := stream.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		var head struct{ Kind string }
		require.NoError(t, sigsyaml.Unmarshal(document, &head))
		all[head.Kind] = document
	}
}

// rules are what a Role, or the ClusterRole, of the controller grants.
func rules(t *testing.T, kind string) []rbacv1.PolicyRule {
	t.Helper()
	document := documents(t, "default/account.yaml")[kind]
	require.NotEmpty(t, document, kind)
	role := &rbacv1.ClusterRole{} // a Role has the same rules
	require.NoError(t, sigsyaml.Unmarshal(document, role))
	return role.Rules
}

// granted are the deeds that rules allow, each once.
func granted(rules []rbacv1.PolicyRule) (all []deed) {
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					all = append(all, did(verb, group, resource))
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func did(verb, group, resource string) deed {
	return deed(strings.TrimPrefix(fmt.Sprintf("%s %s/%s", verb, group, resource), "/"))
}

func TestNoRoleIsForAnything(t *testing.T) {
	for _, kind := range []string{"ClusterRole", "Role"} {
		for _, d := range granted(rules(t, kind)) {
			assert.NotContains(t, string(d), "*", kind)
		}
	}
}

// TestControllerIsConfined: what the namespace enforces, the controller's pods fulfil.
func TestControllerIsConfined(t *testing.T) {
	namespace := &corev1.Namespace{}
	require.NoError(t, sigsyaml.UnmarshalStrict(documents(t, "default/namespace.yaml")["Namespace"], namespace))
	assert.Equal(t, "restricted", namespace.Labels["pod-security.kubernetes.io/enforce"])
	d := &appsv1.Deployment{}
	require.NoError(t, sigsyaml.UnmarshalStrict(documents(t, "default/controller.yaml")["Deployment"], d))
	pod := d.Spec.Template.Spec
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	assert.Equal(t, image.RingadmName, c.Image, "the image that make images writes")
	assert.Equal(t, "controller", c.Name, "it looks for its own image by this name")
	assert.Greater(t, ptr.Deref(d.Spec.Replicas, 1), int32(1), "one takes over from the other")
	confined(t, pod)
	require.NotNil(t, c.LivenessProbe)
	require.NotNil(t, c.ReadinessProbe)
}

// confined asserts that a pod may be where the strictest of Kubernetes's standards is enforced.
func confined(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	assert.True(t, *pod.SecurityContext.RunAsNonRoot)
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	assert.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
}

// TestBackupFindsItsRing: the job that backs a ring up names what the controller makes, runs the
// image that make images writes, and may do nothing at the API server.
func TestBackupFindsItsRing(t *testing.T) {
	claim, nightly, err := config.Backup()
	require.NoError(t, err)
	pod, r := nightly.Spec.JobTemplate.Spec.Template.Spec, kube.Names{Ring: "r"}
	require.Len(t, pod.Containers, 1)
	assert.Equal(t, image.RingadmName, pod.Containers[0].Image)
	assert.Contains(t, pod.Containers[0].Args, "--endpoints=https://"+r.Client()+":2379")
	var secret, volume string
	for _, v := range pod.Volumes {
		switch {
		case v.Secret != nil:
			secret = v.Secret.SecretName
		case v.PersistentVolumeClaim != nil:
			volume = v.PersistentVolumeClaim.ClaimName
		}
	}
	assert.Equal(t, r.ClientCertificates(), secret)
	assert.Equal(t, claim.Name, volume)
	assert.False(t, *pod.AutomountServiceAccountToken)
	confined(t, pod)
}
