// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// complete fills in what a real server fills in when it reads an object, as far as
// anything here goes by it.
func complete(o Object) {
	if set, ok := o.(*appsv1.StatefulSet); ok {
		completeSet(&set.Spec)
	}
}

func completeSet(spec *appsv1.StatefulSetSpec) {
	const retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	if spec.PodManagementPolicy == "" {
		spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
	}
	if rolling := &spec.UpdateStrategy.RollingUpdate; spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		if *rolling == nil {
			*rolling = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
		(*rolling).Partition = orElse((*rolling).Partition, 0)
	}
	if spec.PersistentVolumeClaimRetentionPolicy == nil {
		spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: retain, WhenScaled: retain}
	}
	spec.Replicas = orElse(spec.Replicas, 1)
	spec.RevisionHistoryLimit = orElse(spec.RevisionHistoryLimit, 10)
}

func orElse(given *int32, other int32) *int32 {
	if given != nil {
		return given
	}
	return ptr.To(other)
}

// volumeProtection keeps a volume that a claim is bound to.
const volumeProtection = "kubernetes.io/pv-protection"

// beginVolume sets what the server says of new volumes and claims: nobody has bound
// them yet, and what uses them keeps them.
func beginVolume(o Object) {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		o.Status.Phase = corev1.ClaimPending
		o.Finalizers = protected(o.Finalizers, claimProtection)
	case *corev1.PersistentVolume:
		o.Status.Phase = corev1.VolumePending
		o.Finalizers = protected(o.Finalizers, volumeProtection)
	}
}

func protected(finalizers []string, by string) []string {
	if slices.Contains(finalizers, by) {
		return finalizers
	}
	return append(finalizers, by)
}
