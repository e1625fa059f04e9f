// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
)

var _ local.Kept = (*node)(nil)

// api is an administrator's client.
func (c *cluster) api() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// insist tries once a second while the API server says nothing, until ctx ends.
func insist(ctx context.Context, try func() error) error {
	for {
		err := try()
		var said apierrors.APIStatus
		if err == nil || errors.As(err, &said) || ctx.Err() != nil {
			return err
		}
		wait(ctx, time.Second)
	}
}

// wait returns after so long, or when ctx has ended.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// thing is an object of a member's, whatever its kind.
type thing struct {
	kind   string // as kubectl names it
	object metav1.Object
	get    func(context.Context) (metav1.Object, error)
	delete func(context.Context, metav1.DeleteOptions) error
	patch  func(context.Context, []byte) error // a JSON merge patch
}

func (t thing) String() string {
	name := t.object.GetName()
	if ns := t.object.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return t.kind + " " + name
}

// find finds an object of the member that is on the node, or was last.
func (n *node) find(ctx context.Context, object string) (t thing, err error) {
	api, err := n.cluster.api()
	if err != nil {
		return t, err
	}
	err = insist(ctx, func() error { t, err = n.thing(ctx, api, object); return err })
	return t, err
}

func (n *node) thing(ctx context.Context, api kubernetes.Interface, object string) (thing, error) {
	n.Slot() // so that it is known whose pod is here
	n.mu.Lock()
	namespace, name := n.namespace, n.slot
	n.mu.Unlock()
	if name == "" {
		return thing{}, fmt.Errorf("no member was on node %s", n.name)
	}
	pod, err := api.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || object == ringproof.ObjectPod {
		return podThing(api, pod), err
	}
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	if i < 0 {
		return thing{}, fmt.Errorf("pod %s/%s has no claim", namespace, name)
	}
	claim, err := api.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, pod.Spec.Volumes[i].PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
	if err != nil || object == ringproof.ObjectClaim {
		return claimThing(api, claim), err
	}
	if claim.Spec.VolumeName == "" {
		return thing{}, fmt.Errorf("claim %s/%s is bound to no volume", namespace, claim.Name)
	}
	volume, err := api.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	return volumeThing(api, volume), err
}

// client is what client-go has for one kind of objects.
type client[T metav1.Object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	Patch(ctx context.Context, name string, how types.PatchType, patch []byte, o metav1.PatchOptions, subresources ...string) (T, error)
}

func thingOf[T metav1.Object](kind string, o T, of client[T]) thing {
	name := o.GetName()
	return thing{kind, o,
		func(ctx context.Context) (metav1.Object, error) { return of.Get(ctx, name, metav1.GetOptions{}) },
		func(ctx context.Context, d metav1.DeleteOptions) error { return of.Delete(ctx, name, d) },
		func(ctx context.Context, p []byte) error {
			_, err := of.Patch(ctx, name, types.MergePatchType, p, metav1.PatchOptions{})
			return err
		}}
}

func podThing(api kubernetes.Interface, o *corev1.Pod) thing {
	return thingOf("pod", o, api.CoreV1().Pods(o.Namespace))
}

func claimThing(api kubernetes.Interface, o *corev1.PersistentVolumeClaim) thing {
	return thingOf("pvc", o, api.CoreV1().PersistentVolumeClaims(o.Namespace))
}

func volumeThing(api kubernetes.Interface, o *corev1.PersistentVolume) thing {
	return thingOf("pv", o, api.CoreV1().PersistentVolumes())
}

// Delete deletes an object of the member's. A volume is protected while a claim is bound to
// it, and whoever wants it gone takes that off.
func (n *node) Delete(ctx context.Context, object string, force bool) (machines.Evidence, error) {
	t, err := n.find(ctx, object)
	if err != nil {
		return machines.Evidence{}, err
	}
	uid := t.object.GetUID()
	o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if force {
		o.GracePeriodSeconds = ptr.To[int64](0)
	}
	if err := insist(ctx, func() error { return t.delete(ctx, o) }); err != nil {
		return machines.Evidence{}, err
	}
	e := machines.Evidence{What: t.String(), Detail: fmt.Sprintf("deleted, uid %s", uid)}
	switch object {
	case ringproof.ObjectClaim:
		e.Detail += "; it is Terminating while its pod is there"
		return e, nil
	case ringproof.ObjectVolume:
		err = insist(ctx, func() error { return gone(t.patch(ctx, []byte(`{"metadata":{"finalizers":null}}`))) })
	}
	return e, errors.Join(err, t.leave(ctx))
}

// gone takes an object that isn't there for one that was dealt with.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// leave waits until the object is no more.
func (t thing) leave(ctx context.Context) error {
	for ctx.Err() == nil {
		now, err := t.get(ctx)
		if apierrors.IsNotFound(err) || err == nil && now.GetUID() != t.object.GetUID() {
			return nil
		}
		wait(ctx, 200*time.Millisecond)
	}
	return fmt.Errorf("%s is still there: %w", t, ctx.Err())
}

// Hold gives an object of the member's a finalizer.
func (n *node) Hold(ctx context.Context, object, finalizer string) (machines.Evidence, error) {
	t, err := n.find(ctx, object)
	if err != nil {
		return machines.Evidence{}, err
	}
	err = insist(ctx, func() error { return t.finalize(ctx, append(t.object.GetFinalizers(), finalizer)) })
	return machines.Evidence{What: t.String(), Detail: "it has the finalizer " + finalizer}, err
}

// finalize says which finalizers an object has.
func (t thing) finalize(ctx context.Context, all []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": all}})
	if err != nil {
		return err
	}
	return t.patch(ctx, patch)
}

// Release takes a finalizer off whatever has it.
func (c *cluster) Release(ctx context.Context, finalizer string) error {
	api, err := c.api()
	if err != nil {
		return err
	}
	return release(ctx, api, finalizer)
}

func release(ctx context.Context, api kubernetes.Interface, finalizer string) (err error) {
	var all []thing
	err = insist(ctx, func() error { all, err = things(ctx, api); return err })
	for _, t := range all {
		if before := t.object.GetFinalizers(); slices.Contains(before, finalizer) {
			after := slices.DeleteFunc(slices.Clone(before), func(f string) bool { return f == finalizer })
			err = errors.Join(err, insist(ctx, func() error { return gone(t.finalize(ctx, after)) }))
		}
	}
	return err
}

// things are all pods, claims and volumes.
func things(ctx context.Context, api kubernetes.Interface) (all []thing, err error) {
	pods, err := api.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	claims, err := api.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	volumes, err := api.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		all = append(all, podThing(api, &pods.Items[i]))
	}
	for i := range claims.Items {
		all = append(all, claimThing(api, &claims.Items[i]))
	}
	for i := range volumes.Items {
		all = append(all, volumeThing(api, &volumes.Items[i]))
	}
	return all, nil
}

// evictAgain is how long kubectl drain waits after an eviction that a budget refused.
const evictAgain = 5 * time.Second

// Drain does what kubectl drain does, with its --ignore-daemonsets and
// --delete-emptydir-data.
func (n *node) Drain(ctx context.Context) (machines.Evidence, error) {
	api, err := n.cluster.api()
	if err != nil {
		return machines.Evidence{}, err
	}
	if err := n.cordon(ctx, api, true); err != nil {
		return machines.Evidence{}, err
	}
	var pods *corev1.PodList
	err = insist(ctx, func() error {
		pods, err = api.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.name).String()})
		return err
	})
	if err != nil {
		return machines.Evidence{}, err
	}
	var said []string
	for i := range pods.Items {
		t := podThing(api, &pods.Items[i])
		refused, err := evict(ctx, api, &pods.Items[i])
		if err != nil {
			return machines.Evidence{}, fmt.Errorf("evicting %s: %w", t, err)
		}
		if err := t.leave(ctx); err != nil {
			return machines.Evidence{}, err
		}
		said = append(said, fmt.Sprintf("%s, refused %d times before", t, refused))
	}
	return machines.Evidence{What: "node " + n.name + " is cordoned", Detail: "evicted: " + strings.Join(said, "; ")}, nil
}

// evict evicts a pod, and tells how often its budget refused it.
func evict(ctx context.Context, api kubernetes.Interface, p *corev1.Pod) (refused int, err error) {
	for ; ; refused++ {
		err = insist(ctx, func() error {
			return api.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
				DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}}})
		})
		if !apierrors.IsTooManyRequests(err) || ctx.Err() != nil {
			return refused, gone(err)
		}
		wait(ctx, evictAgain)
	}
}

// Uncordon lets the node take pods again.
func (n *node) Uncordon(ctx context.Context) error {
	api, err := n.cluster.api()
	if err != nil {
		return err
	}
	return n.cordon(ctx, api, false)
}

func (n *node) cordon(ctx context.Context, api kubernetes.Interface, is bool) error {
	return insist(ctx, func() error {
		_, err := api.CoreV1().Nodes().Patch(ctx, n.name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, is), metav1.PatchOptions{})
		return err
	})
}
