// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/pki"
)

// asMade are the objects of a ring of one pod, all as was asked for.
func asMade(t *testing.T, p *Pods) map[string]kubeclient.Object {
	r := p.asked()
	r.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("101Mi")}
	r.Spec.Scheduling = v1alpha1.Scheduling{NodeSelector: map[string]string{"a": "b"}, Tolerations: []corev1.Toleration{{Key: "t", Operator: corev1.TolerationOpExists}}, PriorityClassName: "high"}
	r.Spec.Certificates = v1alpha1.Certificates{Lifetime: &metav1.Duration{Duration: time.Hour}, ExtraNames: []string{"etcd.example.com"}}
	require.NoError(t, p.edited.begin(r))
	authority, err := pki.NewAuthority(time.Now(), "a")
	require.NoError(t, err)
	pair, err := authority.IssueServer(time.Now(), pki.Subject{CommonName: "s", Hosts: []string{"etcd.example.com"}}, time.Hour)
	require.NoError(t, err)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: p.ring.Namespace, Name: name, Labels: p.ring.Labels(kube.MemberPart)}
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: meta("s"), Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](kube.ClientPort)}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: p.ring.Client()}
	return map[string]kubeclient.Object{
		"ring": r,
		"pod": &corev1.Pod{ObjectMeta: meta(p.ring.Slot(0)),
			Spec: corev1.PodSpec{NodeName: "n1", NodeSelector: r.Spec.Scheduling.NodeSelector, Tolerations: r.Spec.Scheduling.Tolerations, PriorityClassName: "high",
				Containers: []corev1.Container{{Name: kube.MemberContainer, Resources: r.Spec.Resources.Requirements()}}},
			Status: corev1.PodStatus{PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}},
		"claim": &corev1.PersistentVolumeClaim{ObjectMeta: meta(p.ring.Claim(0)), Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: r.Spec.Storage.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: r.Spec.Storage.Size}}}},
		"secret":  &corev1.Secret{ObjectMeta: meta(p.ring.Certificates(0)), Data: map[string][]byte{"server.crt": pair.CertPEM}},
		"service": &corev1.Service{ObjectMeta: meta(p.ring.Client())},
		"slice":   slice,
	}
}

func TestUnlike(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Pods, map[string]kubeclient.Object)
		says   string // "": nothing
	}{
		{"all is as asked", func(*Pods, map[string]kubeclient.Object) {}, ""},
		{"a request is left out", func(_ *Pods, o map[string]kubeclient.Object) {
			o["pod"].(*corev1.Pod).Spec.Containers[0].Resources.Requests = nil
		}, "pod r-0 without requests of 101Mi of memory"},
		{"of a pod that isn't ready", func(_ *Pods, o map[string]kubeclient.Object) {
			o["pod"].(*corev1.Pod).Spec.Containers[0].Resources.Requests = nil
			o["pod"].(*corev1.Pod).Status.Conditions = nil
			o["slice"].(*discoveryv1.EndpointSlice).Endpoints = nil
		}, ""},
		{"of a ring without launchers", func(p *Pods, o map[string]kubeclient.Object) {
			o["pod"].(*corev1.Pod).Spec.Containers[0].Resources.Requests = nil
			o["ring"].(*v1alpha1.EtcdRing).Spec.Features.EtcdLauncher = ptr.To(false)
		}, ""},
		{"and of one that is paused", func(p *Pods, o map[string]kubeclient.Object) {
			o["pod"].(*corev1.Pod).Spec.Containers[0].Resources.Requests = nil
			o["ring"].(*v1alpha1.EtcdRing).Spec.Paused = true
		}, ""},
		{"where it may run is left out", func(_ *Pods, o map[string]kubeclient.Object) { o["pod"].(*corev1.Pod).Spec.NodeSelector = nil }, "without nodeSelector a=b"},
		{"a toleration is left out", func(_ *Pods, o map[string]kubeclient.Object) { o["pod"].(*corev1.Pod).Spec.Tolerations = nil }, "without the toleration of t"},
		{"its priority is left out", func(_ *Pods, o map[string]kubeclient.Object) { o["pod"].(*corev1.Pod).Spec.PriorityClassName = "" }, "without priorityClassName high"},
		{"two are on a node", func(_ *Pods, o map[string]kubeclient.Object) {
			other := o["pod"].DeepCopyObject().(*corev1.Pod)
			other.Name = "other"
			o["other"] = other
		}, "on one node, n1"},
		{"a claim is smaller", func(_ *Pods, o map[string]kubeclient.Object) {
			o["claim"].(*corev1.PersistentVolumeClaim).Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Mi")
		}, "claim data-r-0 of 1Mi, and not of 1Gi"},
		{"a claim is of another class", func(_ *Pods, o map[string]kubeclient.Object) {
			o["claim"].(*corev1.PersistentVolumeClaim).Spec.StorageClassName = nil
		}, "and not of ringproof"},
		{"a name is left out", func(p *Pods, o map[string]kubeclient.Object) {
			p.edited = edited{}
			o["ring"].(*v1alpha1.EtcdRing).Spec.Certificates.ExtraNames = []string{"etcd.example.org"}
			o["ring"].(*v1alpha1.EtcdRing).Spec.Certificates.Lifetime = nil
		}, "the certificate of r-0 not for etcd.example.org"},
		{"a certificate lives on", func(p *Pods, o map[string]kubeclient.Object) {
			o["ring"].(*v1alpha1.EtcdRing).Spec.Certificates.Lifetime = &metav1.Duration{Duration: 5 * time.Minute}
			p.edited = edited{}
		}, "and not for 5m0s"},
		{"the Service leads nowhere", func(_ *Pods, o map[string]kubeclient.Object) {
			o["slice"].(*discoveryv1.EndpointSlice).Endpoints = nil
		}, "leads to [], and not to the pods that are ready, [10.0.0.1]"},
		{"to another port", func(_ *Pods, o map[string]kubeclient.Object) {
			*o["slice"].(*discoveryv1.EndpointSlice).Ports[0].Port = 2380
		}, "leads to port 2380"},
		{"to whoever isn't ready", func(_ *Pods, o map[string]kubeclient.Object) {
			o["service"].(*corev1.Service).Spec.PublishNotReadyAddresses = true
		}, "that are not ready too"},
		{"a field was edited by somebody else", func(_ *Pods, o map[string]kubeclient.Object) {
			o["ring"].(*v1alpha1.EtcdRing).Spec.ClusterSize = 5
		}, "the ring's object with spec.clusterSize 5, and not 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &Pods{ring: kube.Names{Namespace: podsNamespace, Ring: podsRing}, plan: ringproof.Plan{Ring: ringproof.RingSpec{Size: 3, Version: "v3.6.16", Volume: 1 << 30}}}
			objects, known := asMade(t, p), runtime.NewScheme()
			require.NoError(t, scheme.AddToScheme(known))
			require.NoError(t, v1alpha1.AddToScheme(known))
			test.change(p, objects)
			b := fake.NewClientBuilder().WithScheme(known)
			for _, o := range objects {
				b = b.WithObjects(o)
			}
			p.api = b.Build()
			wrong, err := p.unlike(t.Context())
			require.NoError(t, err)
			if test.says == "" {
				assert.Empty(t, wrong)
				return
			}
			require.NotEmpty(t, wrong)
			assert.Contains(t, wrong[0], test.says)
		})
	}
}

func TestWhatWasEditedIsMerged(t *testing.T) {
	var e edited
	require.NoError(t, e.begin(map[string]any{"spec": map[string]any{"a": 1, "b": map[string]any{"c": "d"}}}))
	require.NoError(t, e.merge([]byte(`{"spec":{"a":2,"b":{"c":null,"e":["f"]},"g":{"h":null,"i":true}}}`)))
	assert.JSONEq(t, `{"spec": {"a": 2, "b": {"e": ["f"]}, "g": {"i": true}}}`, string(e.object))
	wrong, err := e.otherwise(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"a": 3, "g": map[string]any{"i": true, "j": 1}}}})
	require.NoError(t, err)
	assert.Equal(t, []string{"the ring's object with spec.a 3, and not 2 as it was asked to have",
		`the ring's object with spec.b null, and not {"e":["f"]} as it was asked to have`}, wrong)
}
