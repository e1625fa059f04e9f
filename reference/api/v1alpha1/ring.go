// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdRing is one etcd cluster, run as pods.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=etcdrings,shortName=ring,categories=all
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.clusterSize`
// +kubebuilder:printcolumn:name="Voters",type=integer,JSONPath=`.status.voters`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="TLS",type=string,JSONPath=`.status.tlsPhase`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`
// +kubebuilder:printcolumn:name="Halted",type=string,JSONPath=`.status.conditions[?(@.type=="Halted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.endsWith('-client')",message="metadata.name: may not end with -client, as the Service of another ring's clients does"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="metadata.name: 40 characters at most: names of pods and claims begin with it"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",optionalOldSelf=true,message="metadata.name: a letter first, then letters, digits and '-': its Services and pods are called so"
type EtcdRing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec EtcdRingSpec `json:"spec"`
	// Status is what was seen. Nothing is decided by it: it may be deleted at any time.
	// +optional
	Status EtcdRingStatus `json:"status,omitempty"`
}

// EtcdRingSpec is what is asked of a ring.
//
// +kubebuilder:validation:XValidation:rule="!oldSelf.?features.etcdLauncher.orValue(false) || self.?features.etcdLauncher.orValue(true)",fieldPath=".features",message="etcdLauncher can't be disabled once it is on: the ring's peers speak TLS only, and may be more than three"
// +kubebuilder:validation:XValidation:rule="self.?features.etcdLauncher.orValue(true) || self.clusterSize == 3",fieldPath=".clusterSize",message="a ring without the launcher has three members: enable features.etcdLauncher first"
// +kubebuilder:validation:XValidation:rule="self.storage == oldSelf.storage",fieldPath=".storage",message="the claims of a StatefulSet's pods can't be changed: make a new ring"
// +kubebuilder:validation:XValidation:rule="self.?certificates.authority.orValue(1) - oldSelf.?certificates.authority.orValue(1) in [0, 1]",fieldPath=".certificates.authority",message="authorities are renewed one at a time, and never taken back"
type EtcdRingSpec struct {
	// +optional
	Features Features `json:"features,omitempty"`
	// ClusterSize is how many members vote: 3, 5, 7 or 9.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=9
	// +kubebuilder:validation:XValidation:rule="self % 2 == 1",message="an even number of members survives no more failures than one less, and needs one more for a quorum: ask for 3, 5, 7 or 9"
	// +optional
	ClusterSize int32 `json:"clusterSize,omitempty"`
	// Version is the release of etcd, without a v: "3.6.16". Changed, it is an upgrade, one
	// minor at a time: each node tries the release first, then one member after the other is
	// restarted, the leader last. An upgrade is taken back by asking for the release before,
	// until a member serves with the later one: a ring isn't taken back.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})$`
	// +kubebuilder:validation:XValidation:rule="int(self.split('.')[0]) == int(oldSelf.split('.')[0]) && int(self.split('.')[1]) - int(oldSelf.split('.')[1]) in [-1, 0, 1]",message="etcd is upgraded one minor release at a time, and what is taken back is one upgrade"
	Version string `json:"version"`
	// Image is the repository that etcd's images are pulled from; the version is the tag.
	// +kubebuilder:default="gcr.io/etcd-development/etcd"
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Image string `json:"image,omitempty"`
	// +required
	Storage Storage `json:"storage"`
	// Resources of etcd's container. Changed, one member after the other is restarted, the
	// leader last.
	// +optional
	Resources Resources `json:"resources,omitempty"`
	// Scheduling is where pods may run. Changed, one member after the other is restarted, as for
	// resources. A pod that no node takes then stops it, until that is changed again.
	// +optional
	Scheduling Scheduling `json:"scheduling,omitempty"`
	// +optional
	Certificates Certificates `json:"certificates,omitempty"`
	// Paused leaves the ring as it is, for whoever works on it by hand: no member is added,
	// promoted, removed or restarted, and no pod, claim or size of the StatefulSet changed.
	// What runs goes on: members that end are started again, certificates renewed, and objects
	// made anew that somebody deletes. What is asked for meanwhile is done afterwards.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// Features are what of the ring is run by ringadm.
type Features struct {
	// EtcdLauncher has a launcher run each member, so that members are added, removed,
	// replaced and upgraded one at a time, and peers speak TLS. Without, a ring is a plain
	// StatefulSet of three. Unset, it is what RingDefaults say, and stays on once it was.
	// +optional
	EtcdLauncher *bool `json:"etcdLauncher,omitempty"`
}

// Resources are what etcd's container asks of its node, and may use of it at most: as in a pod. What
// is no quantity, as "1e1.5" is none, would keep every program of the kind from reading any ring.
type Resources struct {
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(name, isQuantity(string(self[name])))",message="each is a quantity"
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(name, isQuantity(string(self[name])))",message="each is a quantity"
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// Requirements are those of a container.
func (r Resources) Requirements() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: r.Requests, Limits: r.Limits}
}

// Storage is the volume of each member. It can't be changed later.
type Storage struct {
	// StorageClassName is the class of the claims; unset, the cluster's default.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
	// Size of each volume, as "8Gi".
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="a volume has more than 0 bytes"
	Size resource.Quantity `json:"size"`
	// Retain keeps the claims of a ring that is deleted.
	// +optional
	Retain bool `json:"retain,omitempty"`
}

// Scheduling is where pods may run. No two members of a ring run on one node.
type Scheduling struct {
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// TopologyKey is what members are spread over; unset, kubernetes.io/hostname.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	TopologyKey string `json:"topologyKey,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// Certificates are issued by the controller and renewed while all runs.
type Certificates struct {
	// Lifetime of a member's certificate, 2160h if unset and 5m at least; it is renewed after
	// two thirds of it. What is no duration to Go, as "90d" is none, would keep every program
	// of the kind from reading any ring.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5m')",message="a certificate lives for five minutes or longer: the next is mounted a minute or two after the last third has begun"
	// +optional
	Lifetime *metav1.Duration `json:"lifetime,omitempty"`
	// Authority is how many times the ring has got authorities, 1 if unset. Raised by one it
	// gets new ones, while it runs: members trust both, are given certificates that the new
	// ones signed, and then trust those alone. They restart twice, one in its turn.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Authority int32 `json:"authority,omitempty"`
	// ExtraNames are host names that clients reach the ring by.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[!-~]+$`
	// +listType=set
	// +optional
	ExtraNames []string `json:"extraNames,omitempty"`
}

// TLSPhase is how far the peers' way from plain text to TLS has come.
type TLSPhase string

// A ring goes from Plain to Mixed to Strict, and never back.
const (
	Plain  TLSPhase = "Plain"  // peers speak http
	Mixed  TLSPhase = "Mixed"  // members listen for http and https, or some do
	Strict TLSPhase = "Strict" // peers speak https only
)

// The types of a ring's conditions.
const (
	Available   = "Available"   // a quorum of its members serves
	Progressing = "Progressing" // it is being brought to what is asked for
	Degraded    = "Degraded"    // a member is missing, or doesn't serve
	Halted      = "Halted"      // nothing more is done until a person decides; the message has the commands to consider
)

// EtcdRingStatus is what was seen of a ring.
type EtcdRingStatus struct {
	// ObservedGeneration is the generation of the spec that the rest speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ClusterID is etcd's, in hexadecimal.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// Voters is how many members vote.
	// +optional
	Voters int32 `json:"voters,omitempty"`
	// +optional
	TLSPhase TLSPhase `json:"tlsPhase,omitempty"`
	// +listType=map
	// +listMapKey=id
	// +optional
	Members []Member `json:"members,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Member is one member of the ring.
type Member struct {
	// ID is etcd's, in hexadecimal.
	ID string `json:"id"`
	// Pod is the pod that it runs in, or ran in last.
	// +optional
	Pod string `json:"pod,omitempty"`
	// Role is Leader, Follower, Learner or Unknown.
	Role string `json:"role"`
	// +optional
	Version string `json:"version,omitempty"`
	// Disk is the identity of the disk that holds its log.
	// +optional
	Disk string `json:"disk,omitempty"`
	// Healthy is whether it served when it was asked last.
	Healthy bool `json:"healthy"`
}

// EtcdRingList is a list of rings.
//
// +kubebuilder:object:root=true
type EtcdRingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []EtcdRing `json:"items"`
}
