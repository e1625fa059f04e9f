// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
)

// askedOf tells apart what pods are made with by the spec, and members are restarted for
// when it is edited: not the release, which has a way of its own, and nothing of ringadm's,
// which a later controller may make otherwise.
func askedOf(r *v1alpha1.EtcdRing) string {
	return digest(struct {
		Resources  corev1.ResourceRequirements
		Scheduling v1alpha1.Scheduling
	}{r.Spec.Resources, r.Spec.Scheduling})
}

// edited is why a slot's pod is to be another than it is; "": it isn't, or it doesn't say
// what it was made with.
func (s Seen) edited(slot Slot) string {
	if s.Set == nil || slot.Pod == nil || slot.Pod.DeletionTimestamp != nil || slot.static() {
		return ""
	}
	was, is := slot.Pod.Annotations[kube.AskedAnnotation], s.Set.Spec.Template.Annotations[kube.AskedAnnotation]
	if was == "" || is == "" || was == is {
		return ""
	}
	return "its resources, or where it may run, were edited"
}

// rolls are the slots whose members are to restart for an edit of the spec, and why.
func (s Seen) rolls() map[string]string {
	all := map[string]string{}
	for _, slot := range s.Slots {
		if why := s.edited(slot); why != "" {
			all[slot.Name] = why
		}
	}
	return all
}

// ending reports whether the slot's pod is being deleted, by whomever.
func (s Slot) ending() bool { return s.Pod != nil && s.Pod.DeletionTimestamp != nil }

// stuck reports whether a pod runs nothing, and never has: no node takes it, or its image or
// its volume isn't to be had.
func (s Slot) stuck() bool { return s.Pod.Status.Phase == corev1.PodPending }
