// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// ofRings are the kinds of objects that are looked for where a ring was.
var ofRings = []schema.GroupVersionKind{
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"), corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithKind("ServiceAccount"), corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
}

// everywhere are objects that each namespace has.
var everywhere = []string{"ConfigMap/kube-root-ca.crt", "ServiceAccount/default"}

// Left names what there is of a ring that has a namespace to itself, as Kind/name; more are kinds of the
// subject's own.
func Left(ctx context.Context, api kubeclient.Client, namespace string, more ...schema.GroupVersionKind) (names []string, err error) {
	for _, kind := range slices.Concat(ofRings, more) {
		all := &metav1.PartialObjectMetadataList{}
		all.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := api.List(ctx, all, kubeclient.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing what is left of kind %s: %w", kind.Kind, err)
		}
		for _, o := range all.Items {
			if name := kind.Kind + "/" + o.Name; !slices.Contains(everywhere, name) {
				names = append(names, strings.ToLower(kind.Kind)+"/"+o.Name)
			}
		}
	}
	return names, nil
}
