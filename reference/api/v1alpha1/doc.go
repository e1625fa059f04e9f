// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package v1alpha1 is the Kubernetes API of the reference: etcd rings, and what
// new ones are like by default.
//
// +kubebuilder:object:generate=true
// +groupName=etcd.ringproof.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and the version of all kinds here.
var GroupVersion = schema.GroupVersion{Group: "etcd.ringproof.dev", Version: "v1alpha1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &EtcdRing{}, &EtcdRingList{}, &RingDefaults{}, &RingDefaultsList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
