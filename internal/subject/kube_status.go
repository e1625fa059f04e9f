// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
)

// What is wrong is told, and that it is mended isn't.
var kubeDegradedStays = Mutant{
	Name:     "kube-degraded-stays",
	Hazard:   "A condition is set where something is wrong, and cleared nowhere: who was paged is paged for ever.",
	Source:   "Conditions that are set on the way out of an error alone (strimzi/strimzi-kafka-operator#2496, cockroachdb/helm-charts by Acto)",
	Check:    "status-honest",
	Scenario: "kube-quorum-stopped",
	Undrawn:  offKubernetes,
	layer: func() layer {
		wrong := map[kubeclient.ObjectKey]metav1.Condition{}
		return writing(func(h host.Host, c kubeclient.Client) kubeclient.Client { return keepsConditions{c, h, wrong} })
	},
}

type keepsConditions struct {
	kubeclient.Client
	host  host.Host
	wrong map[kubeclient.ObjectKey]metav1.Condition
}

func (k keepsConditions) Status() kubeclient.SubResourceWriter {
	return conditionsKept{k.Client.Status(), k}
}

type conditionsKept struct {
	kubeclient.SubResourceWriter
	of keepsConditions
}

func (k conditionsKept) Update(ctx context.Context, o kubeclient.Object, how ...kubeclient.SubResourceUpdateOption) error {
	ring, is := o.(*v1alpha1.EtcdRing)
	if !is {
		return k.SubResourceWriter.Update(ctx, o, how...)
	}
	key := kubeclient.ObjectKeyFromObject(ring)
	switch now := meta.FindStatusCondition(ring.Status.Conditions, v1alpha1.Degraded); {
	case now == nil:
	case now.Status == metav1.ConditionTrue:
		k.of.wrong[key] = *now
	case k.of.wrong[key].Type != "":
		reached(k.of.host)
		*now = k.of.wrong[key]
	}
	return k.SubResourceWriter.Update(ctx, ring, how...)
}

// All members restart, as the edit was seen, and none of them has what it was about.
var kubeDropsResources = Mutant{
	Name:     "kube-drops-resources",
	Hazard:   "What is edited of a pod's resources is taken, has every member restart, and is in no pod.",
	Source:   "Fields of a spec that nobody carries over into the template (Acto, SOSP 2023: operators that ignore what is asked for and say that all is well)",
	Check:    "runs-as-asked",
	Scenario: "kube-edited",
	Undrawn:  offKubernetes,
	layer: only(writing(ofSets(func(set *appsv1.StatefulSet) (changed bool) {
		each(set, func(c *corev1.Container) {
			changed = changed || len(c.Resources.Requests)+len(c.Resources.Limits) > 0
			c.Resources = corev1.ResourceRequirements{}
		})
		return changed
	}))),
}

// A launcher takes its turns, whatever became of its etcd.
var kubeReadyWhileItLives = Mutant{
	Name:     "kube-ready-while-it-lives",
	Hazard:   "A pod is ready as long as its launcher lives, and a disruption budget counts on it while its etcd answers nobody.",
	Source:   "One probe for both: Kubernetes, Configure Liveness, Readiness and Startup Probes; Zalando's Patroni asked for /readiness of its own for this",
	Check:    "available",
	Scenario: "kube-drain-etcd-stopped",
	Undrawn:  offKubernetes,
	layer: only(writing(ofSets(func(set *appsv1.StatefulSet) (changed bool) {
		each(set, func(c *corev1.Container) {
			if c.LivenessProbe != nil && c.ReadinessProbe != nil {
				c.ReadinessProbe.ProbeHandler, changed = c.LivenessProbe.ProbeHandler, true
			}
		})
		return changed
	}))),
}

// As long as there are more nodes than members the scheduler spreads them by itself.
var kubeBesideAnother = Mutant{
	Name:     "kube-beside-another",
	Hazard:   "Members may run on one node: where a node is off, two of three are put on another, which then has the quorum.",
	Source:   "Charts whose anti-affinity is preferred, or left to whoever installs them (bitnami/charts: podAntiAffinityPreset is soft)",
	Check:    "runs-as-asked",
	Scenario: "kube-node-off-no-spare",
	Undrawn:  offKubernetes,
	layer: only(writing(ofSets(func(set *appsv1.StatefulSet) bool {
		asked := set.Spec.Template.Spec.Affinity != nil
		set.Spec.Template.Spec.Affinity = nil
		return asked
	}))),
}

// ofSets rewrites StatefulSets alone.
func ofSets(change func(*appsv1.StatefulSet) bool) func(host.Host, kubeclient.Client) kubeclient.Client {
	return rewriting(func(_ context.Context, _ kubeclient.Client, o kubeclient.Object) (bool, error) {
		set, is := o.(*appsv1.StatefulSet)
		return is && change(set), nil
	})
}
