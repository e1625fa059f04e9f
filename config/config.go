// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package config holds the manifests of the reference, as `kubectl apply -k` and
// the simulated world read them.
package config

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crd/etcd.*.yaml
var crds embed.FS

// CRDs returns the definitions of the reference's own kinds, by the names of their
// files.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := crds.ReadDir("crd")
	if err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, entry := range entries {
		text, err := crds.ReadFile("crd/" + entry.Name())
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("crd/%s: %w", entry.Name(), err)
		}
		all = append(all, crd)
	}
	return all, nil
}
