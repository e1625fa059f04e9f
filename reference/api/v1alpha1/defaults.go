// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RingDefaults says what rings are like that don't say it themselves. There is one,
// named "default".
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ringdefaults,scope=Cluster
// +kubebuilder:printcolumn:name="Launcher",type=boolean,JSONPath=`.spec.featureGates.EtcdLauncher`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="metadata.name: there is one RingDefaults, and its name is default"
type RingDefaults struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec RingDefaultsSpec `json:"spec,omitempty"`
}

// RingDefaultsSpec are the defaults.
type RingDefaultsSpec struct {
	// +kubebuilder:default={}
	// +optional
	FeatureGates FeatureGates `json:"featureGates,omitempty"`
}

// FeatureGates are on or off for rings that don't say.
type FeatureGates struct {
	// EtcdLauncher is given to each ring that leaves features.etcdLauncher unset. Turning
	// it off changes no ring that has it.
	// +kubebuilder:default=true
	// +optional
	EtcdLauncher *bool `json:"EtcdLauncher,omitempty"`
}

// RingDefaultsList is a list of defaults.
//
// +kubebuilder:object:root=true
type RingDefaultsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RingDefaults `json:"items"`
}
