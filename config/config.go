// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package config holds the manifests of the reference, as `kubectl apply -k` and
// the simulated world read them.
package config

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

//go:embed crd/etcd.*.yaml
var crds embed.FS

//go:embed default/namespace.yaml default/account.yaml default/controller.yaml
var deployed embed.FS

//go:embed samples/backup.yaml
var backup []byte

// Namespace is where the controller is deployed.
const Namespace = "ringadm-system"

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

// Controller returns the objects that run the controller: the namespace, its account and
// what that may do, and the Deployment. They are as kustomize makes them of default/, but
// for its labels.
func Controller() (all []*unstructured.Unstructured, err error) {
	for _, name := range []string{"namespace", "account", "controller"} {
		text, err := deployed.ReadFile("default/" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		for d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
			o := &unstructured.Unstructured{}
			if err := d.Decode(o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("default/%s.yaml: %w", name, err)
			}
			if err := settle(o); err != nil {
				return nil, err
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// Backup returns what backs up the ring r every night, and the volume that it writes to.
func Backup() (*corev1.PersistentVolumeClaim, *batchv1.CronJob, error) {
	claim, job := &corev1.PersistentVolumeClaim{}, &batchv1.CronJob{}
	volume, nightly, _ := bytes.Cut(backup, []byte("\n---\n"))
	if err := errors.Join(yaml.UnmarshalStrict(volume, claim), yaml.UnmarshalStrict(nightly, job)); err != nil {
		return nil, nil, fmt.Errorf("samples/backup.yaml: %w", err)
	}
	return claim, job, nil
}

// settle puts the object into the namespace, and the accounts that it names.
func settle(o *unstructured.Unstructured) error {
	switch o.GetKind() {
	case "Namespace", "ClusterRole":
		return nil
	case "ClusterRoleBinding", "RoleBinding":
		subjects, _, err := unstructured.NestedSlice(o.Object, "subjects")
		if err != nil {
			return err
		}
		for _, s := range subjects {
			if of, ok := s.(map[string]any); ok {
				of["namespace"] = Namespace
			}
		}
		if err := unstructured.SetNestedSlice(o.Object, subjects, "subjects"); err != nil {
			return err
		}
	}
	if o.GetKind() != "ClusterRoleBinding" {
		o.SetNamespace(Namespace)
	}
	return nil
}
