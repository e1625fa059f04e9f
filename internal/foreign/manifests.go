// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/ringproof/ringproof/scenarios"
)

// objects are those of a file, or of all files of a directory, as kubectl apply -f takes
// them; a directory that is a kustomization is built, as by kubectl apply -k.
func objects(path string) (all []*unstructured.Unstructured, err error) {
	files := []string{path}
	if stat, err := os.Stat(path); err != nil {
		return nil, err
	} else if stat.IsDir() && kustomized(path) {
		return built(path)
	} else if stat.IsDir() {
		if files, err = manifests(path); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		own, err := objectsOf(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, own...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no object is in %s", path)
	}
	return all, nil
}

// kustomized reports whether the directory is a kustomization.
func kustomized(dir string) bool {
	return slices.ContainsFunc(konfig.RecognizedKustomizationFileNames(), func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	})
}

// built are the objects of a kustomization, in its order.
func built(dir string) (all []*unstructured.Unstructured, err error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("building the kustomization %s: %w", dir, err)
	}
	for _, r := range resources.Resources() {
		o, err := r.Map()
		if err != nil {
			return nil, fmt.Errorf("building the kustomization %s: %w", dir, err)
		}
		all = append(all, &unstructured.Unstructured{Object: o})
	}
	return all, nil
}

func manifests(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

func objectsOf(file string) (all []*unstructured.Unstructured, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := d.Decode(o); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case len(o.Object) > 0:
			all = append(all, o)
		}
	}
}

// The operator's deployment where no manifest has one, and what its image holds.
const (
	deployment = "operator"
	manager    = "/manager"

	operatorImage = "ringproof.dev/operator:dev"
)

// deployed are the objects by which the operator runs, in the order in which they are
// created, and its Deployment among them.
func deployed(o scenarios.Operator) (all []*unstructured.Unstructured, of *appsv1.Deployment, err error) {
	for _, path := range slices.Concat([]string{o.CRDs}, o.Manifests) {
		own, err := objects(path)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, own...)
	}
	all = once(all)
	if !has(all, "Deployment") {
		made, err := made(all)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, made...)
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	of, err = adapt(all, o)
	return all, of, err
}

// once leaves out what is there twice: a kustomization has its kinds beside all else.
func once(all []*unstructured.Unstructured) (left []*unstructured.Unstructured) {
	known := map[string]bool{}
	for _, o := range all {
		key := strings.Join([]string{o.GroupVersionKind().String(), o.GetNamespace(), o.GetName()}, "/")
		if !known[key] {
			left = append(left, o)
		}
		known[key] = true
	}
	return left
}

func has(all []*unstructured.Unstructured, kind string) bool {
	return slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
}

// first are the kinds that others need.
var first = []string{"CustomResourceDefinition", "Namespace", "ServiceAccount"}

func rank(o *unstructured.Unstructured) int {
	if i := slices.Index(first, o.GetKind()); i >= 0 {
		return i
	}
	if o.GetKind() == "Deployment" {
		return len(first) + 1
	}
	return len(first)
}

// made are a Deployment and what it needs, where no manifest has one: for the account
// that the manifests have, or for one that may do everything.
func made(of []*unstructured.Unstructured) (all []*unstructured.Unstructured, err error) {
	namespace, account := deployment, deployment
	if i := slices.IndexFunc(of, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ServiceAccount" }); i >= 0 {
		namespace, account = of[i].GetNamespace(), of[i].GetName()
	} else {
		all, err = typed(
			&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: namespace}},
			&rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: deployment},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: namespace}}})
	}
	labels := map[string]string{"app": deployment}
	d, own := typed(&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: deployment, Namespace: namespace},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "manager"}}}}}})
	return append(all, d...), errors.Join(err, own)
}

func typed(of ...runtime.Object) (all []*unstructured.Unstructured, err error) {
	for _, o := range of {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		all = append(all, &unstructured.Unstructured{Object: object})
	}
	return all, nil
}

// adapt has the first Deployment run the operator's own program, as the file says.
func adapt(all []*unstructured.Unstructured, o scenarios.Operator) (*appsv1.Deployment, error) {
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all[i].Object, d); err != nil {
		return nil, fmt.Errorf("the operator's Deployment: %w", err)
	}
	containers := d.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return nil, fmt.Errorf("the operator's Deployment %s has no container", d.Name)
	}
	c := &containers[max(0, slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "manager" }))]
	c.Image, c.Command = operatorImage, append([]string{manager}, c.Command[min(1, len(c.Command)):]...)
	if o.Args != nil {
		c.Args = o.Args
	}
	for _, name := range slices.Sorted(maps.Keys(o.Env)) {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: o.Env[name]})
	}
	if o.Replicas > 0 {
		d.Spec.Replicas = ptr.To(int32(o.Replicas))
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
	all[i].Object = object
	return d, err
}
