// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package kubelet

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ringproof/ringproof/internal/lockstep"
)

// The kubelet's own times.
const (
	statusPeriod = 10 * time.Second // how often it looks whether the node's status is true
	reportPeriod = 5 * time.Minute  // how often it tells a status that is
	leasePeriod  = 10 * time.Second
	leaseSeconds = 40
)

// register makes the Node, or takes it over.
func (k *kubelet) register(ctx context.Context) error {
	_, err := k.api.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.Node, Labels: map[string]string{corev1.LabelHostname: k.Node, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// tellNode says that the node is ready, where the API server has something else, as after a
// while in which it heard nothing, and now and then.
func (k *kubelet) tellNode(ctx context.Context) error {
	n, err := k.api.CoreV1().Nodes().Get(ctx, k.Node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	next := nodeConditions(n.Status.Conditions)
	if known(n.Status.Conditions, next) && time.Since(k.reported) < reportPeriod {
		return nil
	}
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi")}
	n.Status.Capacity, n.Status.Allocatable = room, room
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: lockstep.Address(k.Machine).String()}, {Type: corev1.NodeHostName, Address: k.Node}}
	n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OperatingSystem, n.Status.NodeInfo.Architecture = "v1.36.3", "linux", "amd64"
	n.Status.Conditions = next
	if _, err = k.api.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err == nil {
		k.reported = time.Now()
	}
	return err
}

// known reports whether conditions say what others say already.
func known(before, next []corev1.NodeCondition) bool {
	return each(next, func(c corev1.NodeCondition) bool {
		return slices.ContainsFunc(before, func(b corev1.NodeCondition) bool { return b.Type == c.Type && b.Status == c.Status })
	})
}

// nodeConditions say that all is well.
func nodeConditions(before []corev1.NodeCondition) (all []corev1.NodeCondition) {
	now := metav1.Now()
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		c := corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficient", LastHeartbeatTime: now, LastTransitionTime: now}
		if kind == corev1.NodeReady {
			c.Status, c.Reason = corev1.ConditionTrue, "KubeletReady"
		}
		for _, b := range before {
			if b.Type == kind && b.Status == c.Status {
				c.LastTransitionTime = b.LastTransitionTime
			}
		}
		all = append(all, c)
	}
	return all
}

// renew renews the node's lease, by which the control plane knows that it is there. A
// Node that was deleted is made again by a kubelet that starts, and not by one that runs.
func (k *kubelet) renew(ctx context.Context) error {
	leases, now := k.api.CoordinationV1().Leases(corev1.NamespaceNodeLease), metav1.NewMicroTime(time.Now())
	l, err := leases.Get(ctx, k.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: k.Node},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &k.Node, LeaseDurationSeconds: ptr.To[int32](leaseSeconds), RenewTime: &now}}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	l.Spec.RenewTime = &now
	_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
	return err
}
