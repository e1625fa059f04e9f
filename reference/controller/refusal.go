// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// refusal is of a change that the API server doesn't take, or a webhook, a quota or a policy of its.
type refusal struct {
	of    string // what was asked for
	err   error
	began time.Duration // when it was refused first, by the monotonic clock
	again time.Duration // when it is asked for next
	pause time.Duration
}

// How soon a change that was refused is asked for again: twice as long after each time.
const (
	firstPause = 5 * time.Second
	mostPause  = time.Minute
)

// refusals are those that stand, by the objects that they are of.
type refusals map[string]refusal

// standing is why a change was refused, if it isn't to be asked for again yet; nil: it is.
func (r refusals) standing(c Change, now time.Duration) error {
	if before, is := r[c.about()]; is && before.of == c.content() && now < before.again {
		return before.err
	}
	return nil
}

// note notes how the change has ended.
func (r refusals) note(c Change, err error, now time.Duration) {
	if !refusedBy(err) {
		delete(r, c.about())
		return
	}
	next, of := refusal{began: now, pause: firstPause}, c.content()
	if before, is := r[c.about()]; is { // a budget is to say something else with each member that comes and goes
		next.began = before.began
		if before.of == of {
			next.pause = min(2*before.pause, mostPause)
		}
	}
	next.of, next.err, next.again = of, err, now+next.pause
	r[c.about()] = next
	maps.DeleteFunc(r, func(_ string, other refusal) bool { return now > other.again+mostPause }) // nobody asks for it any more
}

// lasts is for how long the change has been refused.
func (r refusals) lasts(c Change, now time.Duration) time.Duration {
	if before, is := r[c.about()]; is {
		return now - before.began
	}
	return 0
}

// passing are the reasons of answers that are none to what was asked for: the next may be another.
var passing = []metav1.StatusReason{metav1.StatusReasonConflict, metav1.StatusReasonTooManyRequests, metav1.StatusReasonServiceUnavailable,
	metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout}

// refusedBy reports whether the API server has answered, and not to try again. A webhook that can't be
// asked is told of as an internal error, and may be so for days.
func refusedBy(err error) bool {
	return errors.As(err, new(apierrors.APIStatus)) && !slices.Contains(passing, apierrors.ReasonForError(err))
}

// about is the object that the change is of, and which pods it makes.
func (c Change) about() string {
	words := []string{string(c.Verb), c.Kind, c.Object.GetName(), c.template()}
	return strings.Join(words, " ")
}

// content tells apart what is asked for. A certificate that was refused is another each time, and a set
// may say when it was changed.
func (c Change) content() string {
	switch o := c.Object.(type) {
	case *corev1.Secret:
		return ""
	case *appsv1.StatefulSet:
		return fmt.Sprint(ptr.Deref(o.Spec.Replicas, 0))
	}
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.Object)
	if err != nil {
		panic(err) // a type of the API always has its JSON
	}
	delete(o, "status")
	if about, is := o["metadata"].(map[string]any); is {
		for _, of := range []string{"resourceVersion", "generation", "managedFields"} {
			delete(about, of)
		}
	}
	return digest(o)
}
