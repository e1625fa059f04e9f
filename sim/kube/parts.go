// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resourceKind is the resource where a kind should be: so a real server prints it.
func (k Kind) resourceKind() schema.GroupKind {
	return schema.GroupKind{Group: k.Group, Kind: k.Resource}
}

func part(o Object, name string) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName(name) }

func zero(o Object) { reflect.ValueOf(o).Elem().SetZero() }

func clearStatus(o Object) {
	if status := part(o, "Status"); status.IsValid() { // a CRD's kind may have none
		status.SetZero()
	}
}

// takeStatus gives o the status of old; both are pointers into copies that nobody
// changes any more.
func takeStatus(o, old Object) { part(o, "Status").Set(part(clone(old), "Status")) }

// keepAllButStatus makes o what old is, but for the status.
func keepAllButStatus(o, old Object) {
	status := reflect.ValueOf(o).Elem().FieldByName("Status")
	wanted := reflect.New(status.Type()).Elem()
	wanted.Set(status)
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(clone(old)).Elem())
	status.Set(wanted)
}

// keepSystem restores what no client may change.
func keepSystem(o, old Object) {
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as typed clients see it
	o.SetUID(old.GetUID())
	o.SetResourceVersion(old.GetResourceVersion())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetGeneration(old.GetGeneration())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	o.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	o.SetGenerateName(old.GetGenerateName())
}

func same(a, b Object) bool { return equality.Semantic.DeepEqual(a, b) }

// sameRequest reports whether two versions ask for the same: all but metadata and
// status.
func sameRequest(a, b Object) bool {
	bare := func(o Object) Object {
		o = clone(o)
		part(o, "ObjectMeta").SetZero()
		clearStatus(o)
		return o
	}
	return same(bare(a), bare(b))
}

// released reports whether nothing holds an object any more that is being deleted.
func released(o Object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// plainFinalizers are those of Kubernetes itself, which have no domain.
var plainFinalizers = []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, string(corev1.FinalizerKubernetes)}

// finalizerProblems is what is wrong with the names of finalizers. Of a custom object
// a real server only warns.
func finalizerProblems(o Object) (problems field.ErrorList) {
	for n, name := range o.GetFinalizers() {
		path := field.NewPath("metadata", "finalizers").Index(n)
		problems = append(problems, validation.ValidateFinalizerName(name, path)...)
		if !strings.Contains(name, "/") && !slices.Contains(plainFinalizers, name) {
			problems = append(problems, field.Invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return problems
}

// changeProblems is what is wrong with an update, in a real server's words.
func changeProblems(o, old Object) field.ErrorList {
	problems := validation.ValidateObjectMetaAccessorUpdate(o, old, field.NewPath("metadata"))
	switch old := old.(type) {
	case *corev1.ConfigMap:
		next := o.(*corev1.ConfigMap)
		problems = append(problems, frozen(old.Immutable, next.Immutable,
			content{"data", old.Data, next.Data}, content{"binaryData", old.BinaryData, next.BinaryData})...)
	case *corev1.Secret:
		next := o.(*corev1.Secret)
		problems = append(problems, frozen(old.Immutable, next.Immutable, content{"data", old.Data, next.Data})...)
	}
	return problems
}

// content is one field of an object that may be immutable, before and after.
type content struct {
	field       string
	before, now any
}

func frozen(before, now *bool, contents ...content) (problems field.ErrorList) {
	const text = "field is immutable when `immutable` is set"
	if before == nil || !*before {
		return nil
	}
	if now == nil || !*now {
		problems = append(problems, field.Forbidden(field.NewPath("immutable"), text))
	}
	for _, c := range contents {
		if !equality.Semantic.DeepEqual(c.before, c.now) {
			problems = append(problems, field.Forbidden(field.NewPath(c.field), text))
		}
	}
	return problems
}

// beginPod sets what the server says of a new pod.
func beginPod(o Object) {
	pod, seconds := o.(*corev1.Pod), int64(corev1.DefaultTerminationGracePeriodSeconds)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		pod.Spec.TerminationGracePeriodSeconds = &seconds
	}
}
