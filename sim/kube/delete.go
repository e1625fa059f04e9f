// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Delete asks for an object's end and returns what it is then. It is gone at once
// only if neither a finalizer nor a pod's grace holds it.
func (s *Server) Delete(gvk schema.GroupVersionKind, at Key, options metav1.DeleteOptions) (Object, error) {
	sh, err := s.shelf(gvk)
	if err != nil {
		return nil, err
	}
	if policy := options.PropagationPolicy; policy != nil && *policy != metav1.DeletePropagationBackground {
		return nil, fmt.Errorf("delete %s %s: propagation policy %s isn't modelled: delete in the background", sh.kind.Resource, at, *policy)
	}
	old, err := sh.find(at)
	if err != nil {
		return nil, err
	}
	if err := sh.meant(old, options.Preconditions); err != nil {
		return nil, err
	}
	o := clone(old)
	if !sh.kind.Graceful && len(o.GetFinalizers()) == 0 {
		return s.commit(sh, watch.Deleted, o), nil // it is never seen to be going
	}
	s.mark(sh, o, options.GracePeriodSeconds)
	switch {
	case released(o) && !same(o, old): // first its end is written down
		s.commit(sh, watch.Modified, clone(o))
		return s.commit(sh, watch.Deleted, o), nil
	case released(o):
		return s.commit(sh, watch.Deleted, o), nil
	case same(o, old):
		return o, nil
	}
	return s.commit(sh, watch.Modified, o), nil
}

// meant returns why a deletion isn't one of old.
func (sh *shelf) meant(old Object, p *metav1.Preconditions) error {
	// A real server prints the kind where a resource should be.
	who := schema.GroupResource{Group: sh.kind.Group, Resource: sh.kind.Kind}
	switch {
	case p == nil:
	case p.UID != nil && *p.UID != old.GetUID():
		return apierrors.NewConflict(who, old.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, old.GetUID()))
	case p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion():
		return apierrors.NewConflict(who, old.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, old.GetResourceVersion()))
	}
	return nil
}

// mark says on o that it is being deleted, or that it is so sooner: a grace period
// is only ever shortened.
func (s *Server) mark(sh *shelf, o Object, asked *int64) {
	if o.GetDeletionTimestamp() != nil {
		s.shorten(o, asked)
		return
	}
	grace := int64(0)
	if sh.kind.Graceful {
		grace = podGrace(o.(*corev1.Pod), asked)
	}
	end := metav1.NewTime(s.now().Add(time.Duration(grace) * time.Second))
	o.SetDeletionTimestamp(&end)
	o.SetDeletionGracePeriodSeconds(&grace)
	if o.GetGeneration() > 0 {
		o.SetGeneration(o.GetGeneration() + 1)
	}
}

func (s *Server) shorten(o Object, asked *int64) {
	grace := o.GetDeletionGracePeriodSeconds()
	if asked == nil || grace == nil {
		return
	}
	period := nonNegative(*asked)
	if period >= *grace {
		return
	}
	end, now := metav1.NewTime(o.GetDeletionTimestamp().Add(time.Duration(period-*grace)*time.Second)), s.now()
	if end.Before(&now) {
		end = now
		if period != 0 {
			period = 1 // the time is over, but whoever runs it still has the last word
		}
	}
	o.SetDeletionTimestamp(&end)
	o.SetDeletionGracePeriodSeconds(&period)
}

// podGrace is for how long a pod's kubelet may take to end it; nobody has to end
// one that runs nowhere, or no more.
func podGrace(pod *corev1.Pod, asked *int64) int64 {
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return 0
	}
	if asked != nil {
		return nonNegative(*asked)
	}
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return nonNegative(*seconds)
	}
	return 0
}

// nonNegative is a grace period as a real server takes it: less than 0 means 1.
func nonNegative(seconds int64) int64 {
	if seconds < 0 {
		return 1
	}
	return seconds
}
