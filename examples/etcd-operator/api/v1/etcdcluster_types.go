// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdClusterSpec is what is asked for.
type EtcdClusterSpec struct {
	// How many members there are to be.
	// +kubebuilder:validation:Enum=1;3;5;7;9
	Size int32 `json:"size"`
	// The release of etcd, such as 3.6.16. It can't be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an upgrade isn't made"
	Version string `json:"version"`
	// The volume of each member.
	Storage Storage `json:"storage"`
}

// Storage is a volume.
type Storage struct {
	ClassName *string           `json:"className,omitempty"`
	Size      resource.Quantity `json:"size"`
}

// EtcdClusterStatus is what is known.
type EtcdClusterStatus struct {
	// How many members it has.
	Members int32 `json:"members,omitempty"`
}

// EtcdCluster is a cluster of etcd. Without its scale a disruption budget of its pods
// would allow none.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.members
// +kubebuilder:printcolumn:name=Size,type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name=Members,type=integer,JSONPath=`.status.members`
type EtcdCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EtcdClusterSpec   `json:"spec,omitempty"`
	Status EtcdClusterStatus `json:"status,omitempty"`
}

// EtcdClusterList is several.
//
// +kubebuilder:object:root=true
type EtcdClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []EtcdCluster `json:"items"`
}

func init() { SchemeBuilder.Register(&EtcdCluster{}, &EtcdClusterList{}) }
