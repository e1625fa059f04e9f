// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package foreign

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/scenarios"
)

// Pods is an operator on Kubernetes: deployed by its manifests, asked by its object.
type Pods struct {
	*Promise
	operator scenarios.Operator
	tells    []telling

	plan  ringproof.Plan
	api   kubeclient.Client
	runs  *appsv1.Deployment         // of the operator
	ring  *unstructured.Unstructured // as it was asked for
	proxy proxy

	withdrawn trial.Withdrawn
}

var _ trial.Subject = (*Pods)(nil)
var _ trial.Controlled = (*Pods)(nil)
var _ trial.Reporting = (*Pods)(nil)
var _ trial.Asked = (*Pods)(nil)
var _ trial.Shipped = (*Pods)(nil)
var _ trial.Selecting = (*Pods)(nil)
var _ trial.Proxying = (*Pods)(nil)

// The ring of a plan, and the class of its volumes, which the cluster has.
const (
	ringNamespace = "rings"
	ringName      = "r"
	ringClass     = "ringproof"
)

// NewPods returns the operator that the file describes.
func NewPods(s *scenarios.Subject) *Pods {
	return &Pods{Promise: &Promise{s}, operator: *s.Spec.Operator, tells: tellings(s), proxy: proxy{turns: seam.Counters{}}}
}

// Image is that of its Deployment.
func (p *Pods) Image() (name, program string) { return operatorImage, manager }

// EtcdImage is the image of a release, as the operator's pods ask for it.
func (p *Pods) EtcdImage(version string) string {
	return scenarios.FillText(p.operator.Pods.Image, map[string]string{"Version": version, "Release": strings.TrimPrefix(version, "v"), "Name": ringName, "Namespace": ringNamespace})
}

// Selector is which pods run a member.
func (p *Pods) Selector() string { return p.operator.Pods.Selector }

// Etcd is where the file says that it is, and what its container prints.
func (p *Pods) Etcd() trial.Etcd {
	place := p.subject.Spec.Etcd
	e := trial.UsualEtcd()
	e.Program, e.Dir, e.Client, e.Peer = place.Program, place.DataDir, place.Ports.Client, place.Ports.Peer
	e.Output = func(run string) string {
		return filepath.Join(run, trial.MemberDir, "output", p.operator.Pods.Container)
	}
	return e
}

// Stop is what a kubelet does.
func (p *Pods) Stop() trial.Stop { return trial.UsualStop() }

// Seed deploys the operator and asks for the ring.
func (p *Pods) Seed(ctx context.Context, site trial.Site, _ trial.Run) (err error) {
	p.plan = site.Plan
	p.arm()
	if err := p.open(site.Kubeconfig); err != nil {
		return err
	}
	all, of, err := deployed(p.operator)
	if err != nil {
		return err
	}
	p.runs = of
	if p.ring, err = p.asked(); err != nil {
		return err
	}
	space, err := typed(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: p.ring.GetNamespace()}})
	if err != nil {
		return err
	}
	for _, o := range slices.Concat(all, space, []*unstructured.Unstructured{p.ring.DeepCopy()}) {
		if err := p.create(ctx, o); err != nil {
			return fmt.Errorf("creating %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// open makes a client of the API server. What kinds there are it looks up when it needs to.
func (p *Pods) open(kubeconfig string) error {
	reached, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	known := runtime.NewScheme()
	if err := kubescheme.AddToScheme(known); err != nil {
		return err
	}
	p.api, err = kubeclient.New(reached, kubeclient.Options{Scheme: known})
	return err
}

// values are the variables of the ring's object.
func (p *Pods) values() map[string]string {
	ring := p.plan.Ring
	return map[string]string{"Name": ringName, "Namespace": ringNamespace, "Size": strconv.Itoa(ring.Size), "Version": ring.Version, "Release": strings.TrimPrefix(ring.Version, "v"),
		"StorageClass": ringClass, "Storage": strconv.FormatInt(ring.Volume, 10)}
}

// asked is the object by which the ring is asked for. What of its name it leaves out is filled in.
func (p *Pods) asked() (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(scenarios.FillText(p.operator.Resource, p.values())), &o.Object); err != nil {
		return nil, fmt.Errorf("the ring's object (operator.resource): %w", err)
	}
	if o.GetName() == "" {
		o.SetName(ringName)
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(ringNamespace)
	}
	return o, nil
}

// settling is how long a cluster that has just come up may refuse what it will take.
const settling = time.Minute

// create creates an object, once its kind is known and its namespace has what pods need.
func (p *Pods) create(ctx context.Context, o kubeclient.Object) (err error) {
	for began := time.Now(); time.Since(began) < settling; time.Sleep(200 * time.Millisecond) {
		if err = p.api.Create(ctx, o); err == nil || apierrors.IsAlreadyExists(err) || ctx.Err() != nil {
			return kubeclient.IgnoreAlreadyExists(err)
		}
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return err
		}
	}
	return err
}

// Controller is the pod of the operator that acts: who holds a Lease beside it, by the pod's
// name and what client-go adds to it; or the only one.
func (p *Pods) Controller(ctx context.Context) (namespace, name string, err error) {
	pod, _, err := p.acts(ctx)
	return p.runs.Namespace, pod, err
}

// acts is the pod that acts, and when it showed last that it lives: by its Lease, or where
// there is one pod and no Lease by that of its node.
func (p *Pods) acts(ctx context.Context) (pod string, alive *metav1.MicroTime, err error) {
	var pods corev1.PodList
	if err := p.api.List(ctx, &pods, kubeclient.InNamespace(p.runs.Namespace), kubeclient.MatchingLabels(p.runs.Spec.Selector.MatchLabels)); err != nil {
		return "", nil, fmt.Errorf("which pods the operator has: %w", err)
	}
	var leases coordinationv1.LeaseList
	if err := p.api.List(ctx, &leases, kubeclient.InNamespace(p.runs.Namespace)); err != nil {
		return "", nil, fmt.Errorf("which of them acts: %w", err)
	}
	for _, l := range leases.Items {
		holder, _, _ := strings.Cut(ptr.Deref(l.Spec.HolderIdentity, ""), "_")
		if slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Name == holder }) {
			return holder, l.Spec.RenewTime, nil
		}
	}
	if len(pods.Items) != 1 {
		return "", nil, fmt.Errorf("none of the operator's %d pods holds a Lease in %s just now", len(pods.Items), p.runs.Namespace)
	}
	only := pods.Items[0]
	return only.Name, p.ready(ctx, only), nil
}

// ready is when the node of a pod that is ready showed last that it lives; nil: the pod isn't.
func (p *Pods) ready(ctx context.Context, pod corev1.Pod) *metav1.MicroTime {
	if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
		return nil
	}
	lease := &coordinationv1.Lease{}
	if err := p.api.Get(ctx, kubeclient.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: pod.Spec.NodeName}, lease); err != nil {
		return nil
	}
	return lease.Spec.RenewTime
}

// Status is what the ring's object says, where the file tells.
func (p *Pods) Status(ctx context.Context) (s ringproof.Status, err error) {
	if p.operator.Status == (scenarios.OperatorStatus{}) {
		return s, fmt.Errorf("the status of its object (operator.status): %w", errors.ErrUnsupported)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(p.ring.GroupVersionKind())
	if err := p.api.Get(ctx, kubeclient.ObjectKeyFromObject(p.ring), o); err != nil {
		return s, err
	}
	s = statusOf(o, p.operator.Status)
	if _, alive, err := p.acts(ctx); err == nil && alive != nil {
		s.Alive = alive.String()
	}
	return s, nil
}

// Empty drops the status of the ring's object.
func (p *Pods) Empty(ctx context.Context) (before string, err error) {
	return trial.EmptyStatus(ctx, p.api, p.ring.DeepCopy())
}

// Withdraw deletes the ring's object.
func (p *Pods) Withdraw(ctx context.Context, how string) (object string, err error) {
	return p.withdrawn.Withdraw(ctx, p.api, p.ring.DeepCopy(), how)
}

// Renew makes it anew.
func (p *Pods) Renew(ctx context.Context) error { return p.withdrawn.Renew(ctx, p.api) }

// Deployment is that of the operator.
func (p *Pods) Deployment() types.NamespacedName {
	return kubeclient.ObjectKeyFromObject(p.runs)
}

// statusOf reads an object's status. A condition may say itself of which spec it is.
func statusOf(o *unstructured.Unstructured, where scenarios.OperatorStatus) ringproof.Status {
	s := ringproof.Status{Voters: -1, Object: o.GetResourceVersion()}
	observed, says, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if of, is := c.(map[string]any); is && where.Available != "" && of["type"] == where.Available {
			s.Available, _ = of["status"].(string)
			if generation, own := of["observedGeneration"].(int64); own {
				observed, says = generation, true
			}
		}
	}
	if where.Voters != "" {
		if n, found, _ := unstructured.NestedInt64(o.Object, append([]string{"status"}, strings.Split(where.Voters, ".")...)...); found {
			s.Voters = int(n)
		}
	}
	s.Current = !says || observed == o.GetGeneration()
	return s
}

// Agent is nothing: kubelets keep pods running.
func (p *Pods) Agent(trial.Machine) trial.Program { return trial.Program{} }

// Inject sets what one step does where the operator asks the API server, on whatever machine.
func (p *Pods) Inject(s ringproof.Seams, _ string) error {
	if s.StoreOutage != nil || s.StoreStale || s.Fault != nil && s.Fault.Kind != ringproof.FaultAgentCrash {
		return errSeamless
	}
	p.proxy.inject(s)
	return nil
}

// Ask edits the ring's object.
func (p *Pods) Ask(ctx context.Context, op ringproof.Op, _ []string, _ trial.Run) (string, error) {
	if op.Params["object"] != "" {
		return trial.EditOther(ctx, p.api, p.ring.GroupVersionKind().GroupVersion(), p.ring.GetNamespace(), op)
	}
	values := p.values()
	values["To"] = strconv.Itoa(op.To)
	if op.Version != "" {
		values["Version"], values["Release"] = op.Version, strings.TrimPrefix(op.Version, "v")
	}
	text, patch, err := p.patch(op, values)
	if err != nil {
		return "", fmt.Errorf("the patch for %s: %w", op.Kind, err)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(p.ring.GroupVersionKind())
	o.SetNamespace(p.ring.GetNamespace())
	o.SetName(p.ring.GetName())
	if err := p.withdrawn.Await(ctx, p.api, kubeclient.ObjectKeyFromObject(p.ring), o); err != nil {
		return "", err
	}
	return text, trial.Refused(p.api.Patch(ctx, o, kubeclient.RawPatch(types.MergePatchType, patch)))
}

// patch is the edit that asks for an operation, as it is written and in JSON.
func (p *Pods) patch(op ringproof.Op, values map[string]string) (text string, patch []byte, err error) {
	if op.Kind == ringproof.OpEdit {
		patch, err = op.MergePatch()
		return string(patch), patch, err
	}
	text = scenarios.FillText(p.operator.Patches.Of(op.Kind), values)
	patch, err = yaml.YAMLToJSON([]byte(text))
	return text, patch, err
}

// Snapshot is no operation of a pod.
func (*Pods) Snapshot(context.Context, string, trial.Run) (string, error) {
	return "", fmt.Errorf("a ring on Kubernetes is not asked for a backup: %w", errors.ErrUnsupported)
}

// Reset is no operation of a pod.
func (p *Pods) Reset(context.Context, trial.Machine, string, trial.Run) (string, error) {
	return "", fmt.Errorf("a pod's disk is not reset by hand: %w", errors.ErrUnsupported)
}

// Hear finds the event that a line tells, whichever pod printed it.
func (p *Pods) Hear(line string) (ringproof.Event, bool) {
	if e, ok := hearProxy(line); ok {
		return e, true
	}
	return heard(p.tells, line)
}

// Credentials are those of the Secret that the file names, once the operator has made it.
func (p *Pods) Credentials(ctx context.Context) (*tls.Config, error) {
	if p.plan.Ring.Security != "tls" {
		return nil, nil
	}
	secret := &corev1.Secret{}
	key := kubeclient.ObjectKey{Namespace: p.ring.GetNamespace(), Name: scenarios.FillText(p.operator.Pods.Secret, p.values())}
	var err error
	for began := time.Now(); time.Since(began) < settling; time.Sleep(200 * time.Millisecond) {
		if err = p.api.Get(ctx, key, secret); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate of the ring's clients: %w", err)
	}
	return pki.ClientTLS(secret.Data["ca.crt"], pki.Pair{CertPEM: secret.Data[corev1.TLSCertKey], KeyPEM: secret.Data[corev1.TLSPrivateKeyKey]})
}
