// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

// While a ring shrinks there are more voters than are asked for.
var kubeBudgetFromSpec = Mutant{
	Name:     "kube-budget-from-spec",
	Hazard:   "The disruption budget is of the size that is asked for, whoever votes: a ring that shrinks is drained below its quorum.",
	Source:   "kubermatic etcd-launcher B18; cozystack's etcd-operator#351",
	Check:    "available",
	Scenario: "kube-drain-shrinking",
	Undrawn:  offKubernetes,
	layer: func() layer {
		shown := map[string]*intstr.IntOrString{}
		return writing(func(h host.Host, c kubeclient.Client) kubeclient.Client { return budgetsFromSpec{c, h, shown} })
	},
}

// budgetsFromSpec shows budgets as they were to be.
type budgetsFromSpec struct {
	kubeclient.Client
	host  host.Host
	shown map[string]*intstr.IntOrString // by name
}

func (b budgetsFromSpec) Get(ctx context.Context, key kubeclient.ObjectKey, o kubeclient.Object, how ...kubeclient.GetOption) error {
	err := b.Client.Get(ctx, key, o, how...)
	if budget, is := o.(*policyv1.PodDisruptionBudget); is && err == nil && b.shown[budget.Name] != nil {
		budget.Spec.MinAvailable = b.shown[budget.Name]
	}
	return err
}

func (b budgetsFromSpec) Update(ctx context.Context, o kubeclient.Object, how ...kubeclient.UpdateOption) error {
	budget, is := o.(*policyv1.PodDisruptionBudget)
	if !is {
		return b.Client.Update(ctx, o, how...)
	}
	of := &v1alpha1.EtcdRing{}
	if err := b.Client.Get(ctx, kubeclient.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetLabels()[kube.RingLabel]}, of); err != nil {
		return err
	}
	reached(b.host)
	b.shown[budget.Name] = budget.Spec.MinAvailable
	budget.Spec.MinAvailable = ptr.To(intstr.FromInt(ring.Quorum(int(of.Spec.ClusterSize))))
	return b.Client.Update(ctx, budget, how...)
}

// A claim is held while a pod has it mounted, and the pod goes once its member has left.
var kubeClaimBeforeShrink = Mutant{
	Name:     "kube-claim-before-shrink",
	Hazard:   "A ring is shrunk by deleting the claim first, which waits for the pod, which waits for the member.",
	Source:   "etcd-druid#1426: a deadlock with the finalizer kubernetes.io/pvc-protection",
	Check:    "converges",
	Scenario: "kube-scale",
	Undrawn:  offKubernetes,
	layer: func() layer {
		l := &claimsFirst{leaving: map[string]bool{}}
		return layer{brain: l.brain, kube: listing(l.delete)}
	},
}

// claimsFirst are the machines whose claims are to go before their members.
type claimsFirst struct{ leaving map[string]bool }

func (l *claimsFirst) brain(_ host.Host, b auto.Brain) auto.Brain {
	inner := b.Next
	b.Next = func(spec ring.Spec, o ring.Observed) ring.Decision {
		d := inner(spec, o)
		if !is(d, ring.Remove) || len(o.Voters()) <= spec.Nodes {
			return d
		}
		if m, in := memberOf(o, d.Action.Member); !in || !m.Serving {
			return d // it leaves as it is lost
		}
		l.leaving[d.Action.Machine] = true
		return wait("the claim of " + d.Action.Machine + " is to go first")
	}
	return b
}

// delete deletes the claims of those.
func (l *claimsFirst) delete(ctx context.Context, c lists, list kubeclient.ObjectList) error {
	claims, is := list.(*corev1.PersistentVolumeClaimList)
	if !is {
		return nil
	}
	for i := range claims.Items {
		o := &claims.Items[i]
		if slot := strings.TrimPrefix(o.Name, kube.DiskVolume+"-"); l.leaving[slot] && o.DeletionTimestamp == nil {
			reached(c.host)
			if err := kubeclient.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Each turn makes its conditions anew, and each write wakes the controller.
var kubeHotStatus = Mutant{
	Name:     "kube-hot-status",
	Hazard:   "The status is written in every turn, with the time of that turn.",
	Source:   "kubermatic#10650: conditions that are replaced and not merged",
	Check:    "quiescent",
	Scenario: "kube-quorum-stopped",
	Undrawn:  offKubernetes,
	layer:    only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client { return forgetsConditions{c, h} })),
}

type forgetsConditions struct {
	kubeclient.Client
	host host.Host
}

func (f forgetsConditions) Get(ctx context.Context, key kubeclient.ObjectKey, o kubeclient.Object, how ...kubeclient.GetOption) error {
	err := f.Client.Get(ctx, key, o, how...)
	if r, is := o.(*v1alpha1.EtcdRing); is && len(r.Status.Conditions) > 0 {
		reached(f.host)
		r.Status.Conditions = nil
	}
	return err
}

// That a node can run another release is what a pod says which has ended.
var kubeTerminalPods = Mutant{
	Name:     "kube-terminal-pods",
	Hazard:   "Pods that have ended are left out of what is seen, also those that end when they have done what they are for.",
	Source:   "cozystack's etcd-operator#368 and #370",
	Check:    "converges",
	Scenario: "kube-upgrade[size=3]",
	Undrawn:  offKubernetes,
	layer: only(writing(listing(func(_ context.Context, c lists, list kubeclient.ObjectList) error {
		pods, is := list.(*corev1.PodList)
		if !is {
			return nil
		}
		there := len(pods.Items)
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
			return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		})
		if len(pods.Items) < there {
			reached(c.host)
		}
		return nil
	}))),
}

// What is wrong with one member is what the turn was for.
var kubeAnySickStopsAll = Mutant{
	Name:     "kube-any-sick-stops-all",
	Hazard:   "A member that does not answer ends the turn: what is to be done about it is never decided.",
	Source:   "etcd-operator#358, #456; kubermatic etcd-launcher B10",
	Check:    "converges",
	Scenario: "kube-node-lost[victim=follower]",
	Undrawn:  offKubernetes,
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		for _, m := range o.Voters() {
			if !m.Serving && m.Started() && !spec.Paused {
				return wait("member " + m.String() + " is not healthy")
			}
		}
		return inner(spec, o)
	})),
}

// Whoever comes later is in nobody's list of those who were there first.
var kubeFrozenCluster = Mutant{
	Name:     "kube-frozen-cluster",
	Hazard:   "A member joins with the list of those that were there when the pods' template was made.",
	Source:   "cozystack's etcd-operator#352, #336; Bitnami's chart: ETCD_INITIAL_CLUSTER is of the template",
	Check:    "converges",
	Scenario: "kube-grow-node-lost[victim=follower]",
	Undrawn:  offKubernetes,
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		b := inner(e)
		if b.Do != launcher.Start || b.State != launcher.Existing || e.Identity == nil {
			return b
		}
		b.Cluster = nil
		for _, f := range e.Identity.Members {
			b.Cluster = append(b.Cluster, f.Name+"="+f.PeerURL)
		}
		return b
	})),
}

// A node that hangs for a while takes its pods' readiness, and not their data.
var kubeReplaceByReadiness = Mutant{
	Name:     "kube-replace-by-readiness",
	Hazard:   "A pod that has not been ready for a while is replaced with its volume, whoever else is not.",
	Source:   "cozystack's etcd-operator#336 before its gate; etcd-operator's reconcileReplacing, by reading",
	Check:    "converges",
	Scenario: "kube-quorum-stopped",
	Undrawn:  offKubernetes,
	layer:    only(writing(listing(replacesUnready))),
}

const unreadyFor = 15 * time.Second

func replacesUnready(ctx context.Context, c lists, list kubeclient.ObjectList) error {
	pods, is := list.(*corev1.PodList)
	if !is {
		return nil
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp != nil || kube.PartOf(p.Labels) != kube.MemberPart || !unready(p, c.host.Now()) {
			continue
		}
		reached(c.host)
		claim := &corev1.PersistentVolumeClaim{}
		claim.Namespace, claim.Name = p.Namespace, kube.DiskVolume+"-"+p.Name
		for _, o := range []kubeclient.Object{claim, p} {
			if err := kubeclient.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
				return err
			}
		}
	}
	return nil
}

func unready(p *corev1.Pod, now time.Time) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && now.Sub(c.LastTransitionTime.Time) > unreadyFor
	})
}

// A list that is being changed has members at one address and at two, and all of them are
// members.
var kubeURLNotHost = Mutant{
	Name:     "kube-url-not-host",
	Hazard:   "Members are told apart by their URLs: one whose URL is another than it is to be is nobody's, and is removed.",
	Source:   "kubermatic#5873",
	Check:    "quorum-margin",
	Scenario: "kube-enable",
	Undrawn:  offKubernetes,
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		moved := slices.ContainsFunc(o.Members, func(m ring.Member) bool { return !m.ListedPlain() })
		for _, m := range o.Voters() {
			if spec.Encrypt && moved && m.ListedPlain() && !m.Leader {
				return act(ring.Action{Kind: ring.Remove, Member: m.ID, Machine: m.Machine, Why: "its URL is nobody's"})
			}
		}
		return inner(spec, o)
	})),
}
