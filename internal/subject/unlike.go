// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/pki"
)

var _ trial.Comparing = (*Pods)(nil)

// unlikeWithin is how long the objects may be seen at the end to be other than was asked for: the
// endpoints of Services follow late. A controller manager that lost its Lease while the API server was
// away starts anew after a back-off of 20 s, and waits 15 s for that Lease to end.
const unlikeWithin = time.Minute

// mostSkew is how far the clock of whoever issues certificates may be ahead.
const mostSkew = 10 * time.Minute

// Unlike names what of the ring's objects is otherwise than its EtcdRing asks for, and what of the
// EtcdRing is otherwise than it was asked to be. Nothing is owed by a ring that is paused.
func (p *Pods) Unlike(ctx context.Context) (wrong []string, err error) {
	for began := time.Now(); ; time.Sleep(time.Second) {
		wrong, err = p.unlike(ctx)
		if err == nil && len(wrong) == 0 || time.Since(began) > unlikeWithin || ctx.Err() != nil {
			return wrong, err
		}
	}
}

func (p *Pods) unlike(ctx context.Context) (wrong []string, err error) {
	o, r := p.object(), &v1alpha1.EtcdRing{}
	key := kubeclient.ObjectKeyFromObject(o)
	if err := p.api.Get(ctx, key, o); err != nil {
		return nil, err
	}
	if wrong, err = p.edited.otherwise(o); err != nil {
		return nil, err
	}
	if err := p.api.Get(ctx, key, r); err != nil || r.Spec.Paused {
		return wrong, err
	}
	pods := &corev1.PodList{}
	if err := p.api.List(ctx, pods, kubeclient.InNamespace(p.ring.Namespace), kubeclient.MatchingLabels(p.ring.Labels(kube.MemberPart))); err != nil {
		return wrong, err
	}
	runs := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !serves(pod) })
	wrong = append(wrong, unlikePods(r, runs)...)
	for _, compare := range []func(context.Context, *v1alpha1.EtcdRing, []corev1.Pod) ([]string, error){p.unlikeClaims, p.unlikeCertificates, p.unlikeService} {
		more, err := compare(ctx, r, runs)
		if wrong = append(wrong, more...); err != nil {
			return wrong, err
		}
	}
	return wrong, nil
}

// serves reports whether a pod is ready, and is to stay. What others are is not judged here.
func serves(pod corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// unlikePods compares pods with what is asked for of them. Those of a ring without launchers are
// made anew by nobody, so that they are as they were made.
func unlikePods(r *v1alpha1.EtcdRing, pods []corev1.Pod) (wrong []string) {
	on := map[string]string{}
	for _, pod := range pods {
		if other := on[pod.Spec.NodeName]; other != "" {
			wrong = append(wrong, fmt.Sprintf("pods %s and %s on one node, %s", other, pod.Name, pod.Spec.NodeName))
		}
		on[pod.Spec.NodeName] = pod.Name
		if !ptr.Deref(r.Spec.Features.EtcdLauncher, true) {
			continue
		}
		for _, what := range unlikePod(r, pod) {
			wrong = append(wrong, "pod "+pod.Name+" without "+what)
		}
	}
	return wrong
}

// unlikePod is what is asked of a pod and it hasn't got. What nobody asked for it may have: the API
// server gives each pod some tolerations, and a webhook whatever it likes.
func unlikePod(r *v1alpha1.EtcdRing, pod corev1.Pod) (lacks []string) {
	for _, c := range pod.Spec.Containers {
		if c.Name != kube.MemberContainer {
			continue
		}
		lacks = append(lacks, lacking("requests", r.Spec.Resources.Requests, c.Resources.Requests)...)
		lacks = append(lacks, lacking("limits", r.Spec.Resources.Limits, c.Resources.Limits)...)
	}
	asked := r.Spec.Scheduling
	for _, key := range slices.Sorted(maps.Keys(asked.NodeSelector)) {
		if pod.Spec.NodeSelector[key] != asked.NodeSelector[key] {
			lacks = append(lacks, "nodeSelector "+key+"="+asked.NodeSelector[key])
		}
	}
	for _, t := range asked.Tolerations {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(has corev1.Toleration) bool { return has.MatchToleration(&t) }) {
			lacks = append(lacks, "the toleration of "+t.Key)
		}
	}
	if asked.PriorityClassName != "" && pod.Spec.PriorityClassName != asked.PriorityClassName {
		lacks = append(lacks, "priorityClassName "+asked.PriorityClassName)
	}
	return lacks
}

func lacking(what string, asked, has corev1.ResourceList) (lacks []string) {
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if of, want := has[name], asked[name]; of.Cmp(want) != 0 {
			lacks = append(lacks, fmt.Sprintf("%s of %s of %s", what, want.String(), name))
		}
	}
	return lacks
}

// unlikeClaims compares the claims of pods.
func (p *Pods) unlikeClaims(ctx context.Context, r *v1alpha1.EtcdRing, pods []corev1.Pod) (wrong []string, err error) {
	for _, pod := range pods {
		at, ok := p.ring.Ordinal(pod.Name)
		if !ok {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		if err := p.api.Get(ctx, kubeclient.ObjectKey{Namespace: pod.Namespace, Name: p.ring.Claim(at)}, claim); err != nil {
			return wrong, err
		}
		if has := claim.Spec.Resources.Requests.Storage(); has.Cmp(r.Spec.Storage.Size) != 0 {
			wrong = append(wrong, fmt.Sprintf("claim %s of %s, and not of %s", claim.Name, has, &r.Spec.Storage.Size))
		}
		if class := r.Spec.Storage.StorageClassName; class != nil && ptr.Deref(claim.Spec.StorageClassName, "") != *class {
			wrong = append(wrong, fmt.Sprintf("claim %s of the class %s, and not of %s", claim.Name, ptr.Deref(claim.Spec.StorageClassName, ""), *class))
		}
	}
	return wrong, nil
}

// unlikeCertificates compares what members show to clients.
func (p *Pods) unlikeCertificates(ctx context.Context, r *v1alpha1.EtcdRing, pods []corev1.Pod) (wrong []string, err error) {
	for _, pod := range pods {
		at, ok := p.ring.Ordinal(pod.Name)
		if !ok {
			continue
		}
		secret := &corev1.Secret{}
		if err := p.api.Get(ctx, kubeclient.ObjectKey{Namespace: pod.Namespace, Name: p.ring.Certificates(at)}, secret); err != nil {
			return wrong, err
		}
		leaf, err := pki.Parse(secret.Data["server.crt"])
		if err != nil {
			return wrong, fmt.Errorf("secret %s: %w", secret.Name, err)
		}
		for _, name := range r.Spec.Certificates.ExtraNames {
			if leaf.VerifyHostname(name) != nil {
				wrong = append(wrong, fmt.Sprintf("the certificate of %s not for %s", pod.Name, name))
			}
		}
		if asked := r.Spec.Certificates.Lifetime; asked != nil && time.Until(leaf.NotAfter) > asked.Duration+mostSkew {
			wrong = append(wrong, fmt.Sprintf("the certificate of %s for %s, and not for %s", pod.Name, time.Until(leaf.NotAfter).Round(time.Minute), asked.Duration))
		}
	}
	return wrong, nil
}

// unlikeService compares whom the Service for clients leads to with whom it is to: all pods that are
// ready, and nobody else, at the port for clients.
func (p *Pods) unlikeService(ctx context.Context, _ *v1alpha1.EtcdRing, pods []corev1.Pod) (wrong []string, err error) {
	all := &discoveryv1.EndpointSliceList{}
	if err := p.api.List(ctx, all, kubeclient.InNamespace(p.ring.Namespace), kubeclient.MatchingLabels{discoveryv1.LabelServiceName: p.ring.Client()}); err != nil {
		return nil, err
	}
	service := &corev1.Service{}
	if err := p.api.Get(ctx, kubeclient.ObjectKey{Namespace: p.ring.Namespace, Name: p.ring.Client()}, service); err != nil {
		return nil, err
	}
	if service.Spec.PublishNotReadyAddresses {
		wrong = append(wrong, fmt.Sprintf("service %s that leads to pods that are not ready too", service.Name))
	}
	var leads, to []string
	for _, s := range all.Items {
		for _, port := range s.Ports {
			if ptr.Deref(port.Port, 0) != kube.ClientPort {
				wrong = append(wrong, fmt.Sprintf("service %s that leads to port %d", p.ring.Client(), ptr.Deref(port.Port, 0)))
			}
		}
		for _, e := range s.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) {
				leads = append(leads, e.Addresses...)
			}
		}
	}
	for _, pod := range pods {
		to = append(to, pod.Status.PodIP)
	}
	slices.Sort(leads)
	slices.Sort(to)
	if !slices.Equal(slices.Compact(leads), to) {
		wrong = append(wrong, fmt.Sprintf("service %s that leads to [%s], and not to the pods that are ready, [%s]", p.ring.Client(), strings.Join(leads, " "), strings.Join(to, " ")))
	}
	return wrong, nil
}

// edited is what an object was last asked to ask for, as far as somebody said so: JSON.
type edited struct{ object []byte }

// begin takes the object as it is made.
func (e *edited) begin(o any) (err error) {
	e.object, err = json.Marshal(o)
	return err
}

// merge takes a merge patch of it.
func (e *edited) merge(patch []byte) (err error) {
	if e.object == nil {
		e.object = []byte("{}")
	}
	e.object, err = jsonpatch.MergePatch(e.object, patch)
	return err
}

// otherwise names the fields in which the object says something else.
func (e *edited) otherwise(o interface{ UnstructuredContent() map[string]any }) (wrong []string, err error) {
	var asked struct{ Spec map[string]any }
	if e.object != nil {
		err = json.Unmarshal(e.object, &asked)
	}
	spec, _ := o.UnstructuredContent()["spec"].(map[string]any)
	for _, field := range differ("spec", asked.Spec, spec) {
		wrong = append(wrong, "the ring's object with "+field)
	}
	return wrong, err
}

// differ names the fields that were asked for, and are others.
func differ(at string, asked, has map[string]any) (fields []string) {
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		inner, nested := asked[key].(map[string]any)
		of, is := has[key].(map[string]any)
		want, _ := json.Marshal(asked[key]) // both were read of JSON
		there, _ := json.Marshal(has[key])
		switch {
		case nested && is:
			fields = append(fields, differ(at+"."+key, inner, of)...)
		case string(want) == string(there), nested && len(inner) == 0 && has[key] == nil:
		default:
			fields = append(fields, fmt.Sprintf("%s.%s %s, and not %s as it was asked to have", at, key, there, want))
		}
	}
	return fields
}
