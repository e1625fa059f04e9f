// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	etcdv1 "example.com/etcd-operator/api/v1"
)

// change is one that is made of a membership that was just read.
type change struct {
	r     *EtcdClusterReconciler
	c     *etcdv1.EtcdCluster
	now   membership
	hosts []string
}

// grow adds a learner in the first place that is free. Its claim is made when it is seen.
func (s change) grow(ctx context.Context, etcd *clientv3.Client) error {
	return s.add(ctx, etcd, s.free())
}

// free is the first place that no member has.
func (s change) free() (ordinal int) {
	for s.now.has(ordinal) {
		ordinal++
	}
	return ordinal
}

func (s change) add(ctx context.Context, etcd *clientv3.Client, ordinal int) error {
	log.FromContext(ctx).Info("adding a learner", "member", podName(s.c, ordinal))
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := etcd.MemberAddAsLearner(ctx, []string{peerURL(s.c, ordinal)})
	return err
}

// growFromMemory is the mistake: the claim is made first, so that there are as many claims as
// members are asked for when the process that would have added the last of them has died.
func (s change) growFromMemory(ctx context.Context, etcd *clientv3.Client, claims map[int]*corev1.PersistentVolumeClaim) error {
	of := string(s.c.UID)
	if ordinal, begun := s.r.adding[of]; begun && !s.now.has(ordinal) {
		return s.add(ctx, etcd, ordinal)
	}
	if len(claims) >= int(s.c.Spec.Size) {
		return nil
	}
	ordinal := s.free()
	ordinals := []int{ordinal}
	for _, m := range s.now.members {
		ordinals = append(ordinals, m.ordinal)
	}
	if err := s.r.make(ctx, s.c, claim(s.c, ordinal, ordinals, "existing")); err != nil {
		return err
	}
	s.r.adding = map[string]int{of: ordinal}
	return s.add(ctx, etcd, ordinal)
}

// promote makes voters of learners that have caught up.
func (s change) promote(ctx context.Context, etcd *clientv3.Client) error {
	for _, m := range s.now.members {
		if !m.learner {
			continue
		}
		log.FromContext(ctx).Info("promoting", "member", podName(s.c, m.ordinal))
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		_, err := etcd.MemberPromote(ctx, m.id)
		if errors.Is(err, rpctypes.ErrMemberLearnerNotReady) {
			return nil
		}
		return err
	}
	return nil
}

// shrink removes the last member, which leads no more. Its claim goes when that is seen.
func (s change) shrink(ctx context.Context, etcd *clientv3.Client) error {
	last := s.now.members[len(s.now.members)-1]
	if err := s.r.Etcd.handOver(ctx, []string{host(s.c, last.ordinal)}, s.now, last, s.now.members[0]); err != nil {
		return err
	}
	return s.remove(ctx, etcd, last)
}

func (s change) remove(ctx context.Context, etcd *clientv3.Client, m member) error {
	log.FromContext(ctx).Info("removing", "member", podName(s.c, m.ordinal))
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := etcd.MemberRemove(ctx, m.id)
	return err
}

// shrinkFirst is the mistake: the members that are too many lose their pods and volumes
// while they vote, and are removed once those are gone.
func (s change) shrinkFirst(ctx context.Context, etcd *clientv3.Client, claims map[int]*corev1.PersistentVolumeClaim, surplus int) error {
	for _, m := range s.now.members[len(s.now.members)-surplus:] {
		if of := claims[m.ordinal]; of != nil {
			if err := s.r.discard(ctx, of); err != nil {
				return err
			}
		}
		key := client.ObjectKey{Namespace: s.c.Namespace, Name: podName(s.c, m.ordinal)}
		if err := s.r.Get(ctx, key, &corev1.Pod{}); !apierrors.IsNotFound(err) {
			return err // it still ends
		}
	}
	return s.remove(ctx, etcd, s.now.members[len(s.now.members)-1])
}
