// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package v1 is what is asked of a cluster of etcd, and what is told of it.
//
// +kubebuilder:object:generate=true
// +groupName=etcd.example.com
package v1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	// GroupVersion is that of the kinds here.
	GroupVersion = schema.GroupVersion{Group: "etcd.example.com", Version: "v1"}
	// SchemeBuilder adds the kinds to a scheme.
	SchemeBuilder = &scheme.Builder{GroupVersion: GroupVersion}
	// AddToScheme does.
	AddToScheme = SchemeBuilder.AddToScheme
)
