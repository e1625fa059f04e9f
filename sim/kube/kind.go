// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is what is stored: a typed object of the API. It is the interface that
// controller-runtime's client.Object is, said without that module.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind says how the server keeps objects of one kind.
type Kind struct {
	schema.GroupVersionKind
	Resource string // "pods"
	Global   bool   // in no namespace
	Status   bool   // status is written apart from the rest
	Counts   bool   // metadata.generation counts the changes of what is asked for
	Locked   bool   // an update must say the resourceVersion that it was made from
	Custom   bool   // defined by a CRD
	Graceful bool   // a deletion waits for whoever runs it: pods
}

func (k Kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// path is where a real server keeps an object in etcd: conflicts of UIDs print it.
func (k Kind) path(at Key) string {
	parts := []string{"", "registry", k.Resource, at.Namespace, at.Name}
	if k.Custom {
		parts[2] = k.Group + "/" + k.Resource
	}
	if k.Global {
		parts = append(parts[:3], at.Name)
	}
	return strings.Join(parts, "/")
}

// Custom is the kind that a CRD with a status subresource defines.
func Custom(gvk schema.GroupVersionKind, resource string) Kind {
	return Kind{GroupVersionKind: gvk, Resource: resource, Status: true, Counts: true, Locked: true, Custom: true}
}

// builtin are the kinds that every server has. Which of them count generations
// and which take an update without a version is up to each kind's strategy.
func builtin() []Kind {
	core, apps := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion
	return []Kind{
		{GroupVersionKind: core.WithKind("ConfigMap"), Resource: "configmaps"},
		{GroupVersionKind: core.WithKind("Secret"), Resource: "secrets"},
		{GroupVersionKind: core.WithKind("Service"), Resource: "services", Status: true},
		{GroupVersionKind: core.WithKind("Pod"), Resource: "pods", Status: true, Counts: true, Graceful: true},
		{GroupVersionKind: core.WithKind("Node"), Resource: "nodes", Global: true, Status: true},
		{GroupVersionKind: core.WithKind("PersistentVolume"), Resource: "persistentvolumes", Global: true, Status: true},
		{GroupVersionKind: core.WithKind("PersistentVolumeClaim"), Resource: "persistentvolumeclaims", Status: true},
		{GroupVersionKind: apps.WithKind("StatefulSet"), Resource: "statefulsets", Status: true, Counts: true},
		{GroupVersionKind: apps.WithKind("ControllerRevision"), Resource: "controllerrevisions"},
		{GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), Resource: "poddisruptionbudgets", Status: true, Counts: true, Locked: true},
		{GroupVersionKind: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Resource: "leases", Locked: true},
	}
}

// Scheme returns a scheme that knows the kinds that every server has.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(fmt.Sprintf("the API's own types don't fit a scheme: %v", err))
		}
	}
	return scheme
}
