// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// record is how a revision holds a template: as a patch that would restore it.
type record struct {
	Spec struct {
		Template template `json:"template"`
	} `json:"spec"`
}

type template struct {
	corev1.PodTemplateSpec `json:",inline"`

	Patch string `json:"$patch"`
}

func recorded(of corev1.PodTemplateSpec) []byte {
	var r record
	r.Spec.Template = template{of, "replace"}
	text, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("a pod template can't be written as JSON: %v", err))
	}
	return text
}

// templateOf is the template that a revision holds.
func templateOf(revision *appsv1.ControllerRevision) corev1.PodTemplateSpec {
	var r record
	if err := json.Unmarshal(revision.Data.Raw, &r); err != nil {
		panic(fmt.Sprintf("the revision %s holds no pod template: %v", revision.Name, err))
	}
	return r.Spec.Template.PodTemplateSpec
}

// findRevisions finds, or makes, the revision of the template that is asked for, and
// finds the one that pods had before.
func (y *setSync) findRevisions() {
	slices.SortStableFunc(y.Revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	y.update = y.newest()
	y.current = y.update
	for _, r := range y.Revisions {
		if r.Name == y.Object.Status.CurrentRevision {
			y.current = r
		}
	}
}

// newest is the revision of the template that is asked for. One that was in force
// before becomes the newest again.
func (y *setSync) newest() *appsv1.ControllerRevision {
	data, next := recorded(y.Object.Spec.Template), int64(1)
	if n := len(y.Revisions); n > 0 {
		next = y.Revisions[n-1].Revision + 1
	}
	for n, known := range slices.Backward(y.Revisions) {
		switch {
		case !bytes.Equal(known.Data.Raw, data):
		case n == len(y.Revisions)-1:
			return known
		default:
			again := known.DeepCopy()
			again.Revision = next
			y.write(Replace, again)
			return again
		}
	}
	made := y.newRevision(data, next)
	y.write(Create, made)
	return made
}

func (y *setSync) newRevision(data []byte, number int64) *appsv1.ControllerRevision {
	h := fnv.New32a()
	h.Write(data)
	hash := fmt.Sprintf("%x", h.Sum32())
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: y.Object.Namespace, Name: y.Object.Name + "-" + hash,
			Labels:          labelled(y.Object.Spec.Template.Labels, map[string]string{appsv1.ControllerRevisionHashLabelKey: hash}),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(y.Object, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Revision: number,
		Data:     runtime.RawExtension{Raw: data},
	}
}

// forgetRevisions deletes the oldest of those that no pod has, beyond as many as are
// to be kept.
func (y *setSync) forgetRevisions() {
	live := map[string]bool{y.current.Name: true, y.update.Name: true}
	for _, pod := range y.Pods {
		live[revisionOf(pod)] = true
	}
	old := slices.DeleteFunc(slices.Clone(y.Revisions), func(r *appsv1.ControllerRevision) bool { return live[r.Name] })
	for _, r := range old[:max(0, len(old)-int(*y.Object.Spec.RevisionHistoryLimit))] {
		y.write(Remove, r)
	}
}
