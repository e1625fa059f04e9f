// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"

	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

// onKubernetes is a mistake that is known of rings on machines, made by a controller, or by a
// launcher in a pod.
func onKubernetes(m Mutant, source, check, scenario string) Mutant {
	m.Name, m.Source, m.Check, m.Scenario, m.Undrawn = "kube-"+m.Name, source, check, scenario, offKubernetes
	return m
}

var (
	kubeFoundAgain         = onKubernetes(foundAgain, "coreos/etcd-operator#421: a member list that can't be read is taken for that of an empty ring", "disaster", "kube-majority-volumes-lost")
	kubeWrongVictim        = onKubernetes(wrongVictim, "coreos/etcd-operator#443, #400, #441: health in the order of URLs, pods in that of ordinals", "converges", "kube-scale")
	kubeClosesBeforeListed = onKubernetes(closesBeforeListed, "KKP B5, B6: strict once all pods are annotated, whatever the member list says", "converges", "kube-enable")
	kubeJoinsByOldURLs     = onKubernetes(joinsByOldURLs, "kubermatic#9369, #9322: the initial cluster of a pod has one URL of members that are listed with two, or with another", "converges", "kube-enable-volume-deleted[done=update,victim=follower]")
)

// kubeFirstBootStale never starts what nobody has listed yet, and nobody lists a ring before it runs.
var kubeFirstBootStale = Mutant{
	Name:     "kube-first-boot-stale",
	Hazard:   "An initial member takes itself for one that has left, as no list has it while the ring comes up.",
	Source:   "kubermatic#10931, #10932",
	Check:    "converges",
	Scenario: "kube-create",
	Undrawn:  offKubernetes,
	layer: only(booting(func(_ host.Host, inner boot, e launcher.Evidence) launcher.Boot {
		b := inner(e)
		if b.Do == launcher.Start && b.State == launcher.New {
			return launcher.Boot{Do: launcher.Wait, Why: "no list has this member: it has left"}
		}
		return b
	})),
}

// kubeGateOverRing reads a ring that has no launchers, by its own word, as one that says nothing.
var kubeGateOverRing = Mutant{
	Name:     "kube-gate-over-ring",
	Hazard:   "What is on for all rings is on for one that says it is off.",
	Source:   "KKP 2.15: a feature gate of the seed, and a key of each cluster that may say otherwise",
	Check:    "steps",
	Scenario: "kube-gate",
	Undrawn:  offKubernetes,
	layer:    only(writing(func(h host.Host, c kubeclient.Client) kubeclient.Client { return gatesOverRings{c, h} })),
}

type gatesOverRings struct {
	kubeclient.Client
	host host.Host
}

func (g gatesOverRings) Get(ctx context.Context, key kubeclient.ObjectKey, o kubeclient.Object, how ...kubeclient.GetOption) error {
	err := g.Client.Get(ctx, key, o, how...)
	ring, is := o.(*v1alpha1.EtcdRing)
	if !is || err != nil || ring.Spec.Features.EtcdLauncher == nil || *ring.Spec.Features.EtcdLauncher {
		return err
	}
	reached(g.host)
	ring.Spec.Features.EtcdLauncher = nil
	return nil
}
