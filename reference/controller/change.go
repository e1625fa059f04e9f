// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
)

// Verb is what a change does with its object.
type Verb string

// The verbs.
const (
	Create Verb = "create"
	Update Verb = "replace"
	// Annotate is of a set that is to look again what it owes: nothing else of it changes.
	Annotate Verb = "annotate"
	Delete   Verb = "delete"
	Evict    Verb = "evict" // of a pod: it is deleted if its disruption budget lets it go
)

// Change is one write. It prints as the kubectl command that does it by hand.
type Change struct {
	Verb   Verb
	Kind   string // as kubectl names it: "pod"
	Object client.Object
	// UID is the object's in the look that this was decided on: a deletion is of that one
	// and of no other that has its name by now. An update is made on the object's
	// resourceVersion, which is of that look too.
	UID   types.UID
	Force bool // a pod's object goes at once, whether its containers have ended or not
	Why   string
	// Without is made in the place of a set's change whose pods the API server takes for
	// invalid: an update of all but the pods, or a set with pods as they were; nil: nothing else
	// is to change.
	Without *Change
}

// template tells apart what pods the change would have a set make; "": it changes none.
func (c Change) template() string {
	set, is := c.Object.(*appsv1.StatefulSet)
	if !is {
		return ""
	}
	return set.Annotations[kube.TemplateAnnotation]
}

// aside reports whether all else goes on where the change is refused: a pod, that tries a release or
// is to be made anew, or a claim. With a quota of pods that was used up no release was tried, and no
// lost member was replaced either.
func (c Change) aside() bool {
	switch c.Object.(type) {
	case *corev1.Pod, *corev1.PersistentVolumeClaim:
		return true
	}
	return false
}

// String prints "kubectl -n prod delete pod ring-1".
func (c Change) String() string {
	words := []string{"kubectl", "-n", c.Object.GetNamespace(), string(c.Verb)}
	switch c.Verb {
	case Delete:
		words = append(words, c.Kind, c.Object.GetName())
	case Evict: // kubectl has no verb for it
		path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/eviction", c.Object.GetNamespace(), c.Object.GetName())
		words = append(words[:3], "create", "--raw", path, "-f", "eviction-"+c.Object.GetName()+".yaml")
	case Annotate:
		words = append(words, "--overwrite", c.Kind, c.Object.GetName(), kube.NudgedAnnotation+"="+c.Object.GetAnnotations()[kube.NudgedAnnotation])
	default:
		words = append(words, "-f", fmt.Sprintf("%s-%s.yaml", c.Kind, c.Object.GetName()))
	}
	if c.Force {
		words = append(words, "--force", "--grace-period=0")
	}
	return strings.Join(words, " ")
}

// line is the change as the log tells of it.
func (c Change) line() host.Line {
	return host.Line{Action: "kube " + string(c.Verb) + " " + c.Kind, Command: c.String(), Target: c.Object.GetName(), Text: c.Why}
}

// make writes it. What is there already, or gone already, is done.
func (c Change) make(ctx context.Context, w client.Client) error {
	switch c.Verb {
	case Create:
		return ignored(w.Create(ctx, c.Object), apierrors.IsAlreadyExists)
	case Update, Annotate:
		return w.Update(ctx, c.Object)
	case Evict:
		asked := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &c.UID}}}
		asked.Namespace, asked.Name = c.Object.GetNamespace(), c.Object.GetName()
		return ignored(w.SubResource("eviction").Create(ctx, c.Object, asked), apierrors.IsNotFound)
	}
	options := []client.DeleteOption{client.Preconditions{UID: &c.UID}}
	if c.Force {
		options = append(options, client.GracePeriodSeconds(0))
	}
	return ignored(w.Delete(ctx, c.Object, options...), apierrors.IsNotFound)
}

func ignored(err error, fine func(error) bool) error {
	if fine(err) {
		return nil
	}
	return err
}

func kindOf(o client.Object) string {
	name := fmt.Sprintf("%T", o)
	return strings.ToLower(name[strings.LastIndex(name, ".")+1:])
}

func creation(o client.Object, why string) Change {
	return Change{Verb: Create, Kind: kindOf(o), Object: o, Why: why}
}

func update(o client.Object, why string) Change {
	return Change{Verb: Update, Kind: kindOf(o), Object: o, UID: o.GetUID(), Why: why}
}

// annotation is an update by which a set looks again.
func annotation(set *appsv1.StatefulSet, why string) Change {
	c := update(set, why)
	c.Verb = Annotate
	return c
}

func deletion(o client.Object, why string) Change {
	return Change{Verb: Delete, Kind: kindOf(o), Object: o, UID: o.GetUID(), Why: why}
}

func eviction(pod *corev1.Pod, why string) Change {
	return Change{Verb: Evict, Kind: kindOf(pod), Object: pod, UID: pod.UID, Why: why}
}
