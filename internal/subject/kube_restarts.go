// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

// Whoever drains nodes asks the API server, which counts; it counts nothing that is deleted.
var kubeDeletesToRestart = Mutant{
	Name:     "kube-deletes-to-restart",
	Hazard:   "A pod is deleted for its member to restart, as of a look that said all others serve: a node was drained since.",
	Source:   "Kubernetes: a disruption budget binds evictions alone, and no deletion; ringadm's own controller did so at first",
	Check:    "available",
	Scenario: "kube-drain-unseen",
	Undrawn:  offKubernetes,
	layer:    only(writing(deleting)),
}

// Without a precondition a deletion is of a name.
var kubeNameNotUID = Mutant{
	Name:     "kube-name-not-uid",
	Hazard:   "What is deleted or evicted is whatever has the name by then: a request that comes late hits the pod that was made since.",
	Source:   "Kubernetes: metav1.Preconditions; StatefulSets give every pod of a slot one name",
	Check:    "work-bounded",
	Scenario: "kube-restart-late",
	Undrawn:  offKubernetes,
	layer: only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client {
		return byName{evicts{c, h, func(ctx context.Context, e evicts, pod kubeclient.Object, asked *policyv1.Eviction) error {
			asked.DeleteOptions.Preconditions = nil
			return e.Client.SubResource(eviction).Create(ctx, pod, asked)
		}}}
	})),
}

type byName struct{ evicts }

func (b byName) Delete(ctx context.Context, o kubeclient.Object, how ...kubeclient.DeleteOption) error {
	return b.evicts.Delete(ctx, o, unconditional(how)...)
}

// unconditional leaves out which object of the name is meant.
func unconditional(how []kubeclient.DeleteOption) []kubeclient.DeleteOption {
	return slices.DeleteFunc(slices.Clone(how), func(of kubeclient.DeleteOption) bool { _, is := of.(kubeclient.Preconditions); return is })
}

// Nobody notices, for as long as the pod is not restarted.
var kubeClaimByName = Mutant{
	Name:     "kube-claim-by-name",
	Hazard:   "What is deleted for a lost volume is whichever claim has the name by then: a request that comes late is for that of the new member, whose data goes with its pod.",
	Source:   "Kubernetes: storage object in use protection, and metav1.Preconditions",
	Check:    "no-doomed-claim",
	Scenario: "kube-controller-cut[object=persistentvolumeclaim,phase=late]",
	Undrawn:  offKubernetes,
	layer:    only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client { return claimsByName{c, h} })),
}

type claimsByName struct {
	kubeclient.Client
	host host.Host
}

func (c claimsByName) Delete(ctx context.Context, o kubeclient.Object, how ...kubeclient.DeleteOption) error {
	if _, is := o.(*corev1.PersistentVolumeClaim); is {
		reached(c.host)
		how = unconditional(how)
	}
	return c.Client.Delete(ctx, o, how...)
}

// It ends as its peers refuse it, and is started again until they don't.
var kubeStartsUnnamed = Mutant{
	Name:     "kube-starts-unnamed",
	Hazard:   "A new member's etcd is started before its name leads to its pod: its peers take no connection from there, and it ends, again and again.",
	Source:   "etcd's listener_tls.go (a certificate's DNS names are looked up); endpoints of a new pod come late once an API server was away; ringadm's own launcher did so at first",
	Check:    "work-bounded",
	Scenario: "kube-names-away",
	Undrawn:  offKubernetes,
	layer: only(booting(func(h host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		if e.Unnamed != "" {
			reached(h)
		}
		e.Unnamed = ""
		return inner(e)
	})),
}

// Whoever comes first makes a ring of its own; the others join it.
var kubeSeedStaysNew = Mutant{
	Name:     "kube-seed-stays-new",
	Hazard:   "The first member is started to begin a ring whenever its disk is empty: once its volume is lost there is a second ring under the name of the first.",
	Source:   "cozystack's etcd-operator#355: the seed's initial-cluster-state is new for life",
	Check:    "one-cluster-identity",
	Scenario: "kube-volume-deleted",
	Undrawn:  offKubernetes,
	layer: only(booting(func(h host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		if e.Identity == nil || e.WAL != nil || e.Identity.Members[0].Machine != e.Machine {
			return inner(e)
		}
		seed := e.Identity.Members[0]
		if seed.Disk == e.Disk {
			return inner(e) // as it began
		}
		reached(h)
		return launcher.Boot{Do: launcher.Start, State: launcher.New, Member: ring.ID(e.Identity.MemberID(seed)), Cluster: []string{seed.Name + "=" + seed.PeerURL},
			Token: e.Identity.Token, Why: "it is the seed"}
	})),
}

// evicts is the client of a mutant that evicts otherwise.
type evicts struct {
	kubeclient.Client
	host    host.Host
	instead func(context.Context, evicts, kubeclient.Object, *policyv1.Eviction) error
}

const eviction = "eviction"

func (e evicts) SubResource(name string) kubeclient.SubResourceClient {
	inner := e.Client.SubResource(name)
	if name != eviction {
		return inner
	}
	return evictions{inner, e}
}

type evictions struct {
	kubeclient.SubResourceClient
	of evicts
}

func (e evictions) Create(ctx context.Context, pod, asked kubeclient.Object, _ ...kubeclient.SubResourceCreateOption) error {
	reached(e.of.host)
	return e.of.instead(ctx, e.of, pod, asked.(*policyv1.Eviction))
}

// deleting is the client of a mutant that deletes pods where it was to evict them, and looks
// at no budget.
func deleting(h host.Host, c kubeclient.Client) kubeclient.Client {
	return deletes{evicts{c, h, func(ctx context.Context, e evicts, pod kubeclient.Object, asked *policyv1.Eviction) error {
		return e.Delete(ctx, pod, kubeclient.Preconditions{UID: asked.DeleteOptions.Preconditions.UID})
	}}}
}

type deletes struct{ evicts }

func (d deletes) Get(ctx context.Context, key kubeclient.ObjectKey, o kubeclient.Object, how ...kubeclient.GetOption) error {
	err := d.evicts.Get(ctx, key, o, how...)
	if budget, is := o.(*policyv1.PodDisruptionBudget); is {
		budget.Status.ObservedGeneration, budget.Status.DisruptionsAllowed = budget.Generation, max(1, budget.Status.DisruptionsAllowed)
	}
	return err
}
