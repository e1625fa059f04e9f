// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package config_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/ringproof/ringproof/config"
)

// What is deployed without kustomize is what kustomize deploys: the same files, in the
// same namespace, and the accounts that roles are bound to are found there.
func TestControllerIsWhatKustomizeDeploys(t *testing.T) {
	text, err := os.ReadFile("default/kustomization.yaml")
	require.NoError(t, err)
	var asked struct {
		Namespace string
		Resources []string
	}
	require.NoError(t, yaml.Unmarshal(text, &asked))
	assert.Equal(t, config.Namespace, asked.Namespace)
	assert.Equal(t, []string{"../crd", "namespace.yaml", "account.yaml", "controller.yaml"}, asked.Resources, "config.Controller reads these, and CRDs the first")

	all, err := config.Controller()
	require.NoError(t, err)
	bound := 0
	for _, o := range all {
		if kind := o.GetKind(); kind != "Namespace" && kind != "ClusterRole" && kind != "ClusterRoleBinding" {
			assert.Equal(t, config.Namespace, o.GetNamespace(), "%s %s", kind, o.GetName())
		}
		subjects, _, err := unstructured.NestedSlice(o.Object, "subjects")
		require.NoError(t, err)
		for _, s := range subjects {
			assert.Equal(t, config.Namespace, s.(map[string]any)["namespace"], o.GetName())
			bound++
		}
	}
	assert.Equal(t, 2, bound)
}
