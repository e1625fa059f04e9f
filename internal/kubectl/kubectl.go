// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package kubectl does to the objects of a member what an administrator does with kubectl:
// its pod, the claim of that, the volume that the claim is bound to, and the node.
package kubectl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/image"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/trial"
)

// Client is an administrator's.
type Client struct {
	kubernetes.Interface
	objects dynamic.Interface // of any kind
}

// Open makes a client. It asks nothing yet.
func Open(kubeconfig string) (Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return Client{}, err
	}
	config.QPS = -1 // the API server says when it is too much
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Client{}, err
	}
	objects, err := dynamic.NewForConfig(config)
	return Client{api, objects}, err
}

// Member is the pod of one, by name. It may be gone.
type Member struct{ Namespace, Name string }

// VolumePath is where on its node a volume is; "": it is of a kind that is on none.
func VolumePath(v *corev1.PersistentVolume) string {
	switch {
	case v.Spec.HostPath != nil:
		return v.Spec.HostPath.Path
	case v.Spec.Local != nil:
		return v.Spec.Local.Path
	}
	return ""
}

// insist tries once a second while the API server says nothing, until ctx ends. A pod that has
// no claim gets none later.
func insist(ctx context.Context, try func() error) error {
	for {
		err := try()
		var said apierrors.APIStatus
		if err == nil || errors.As(err, &said) || errors.Is(err, errNoClaim) || ctx.Err() != nil {
			return err
		}
		Wait(ctx, time.Second)
	}
}

// Wait returns after so long, or when ctx has ended.
func Wait(ctx context.Context, d time.Duration) {
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

// find finds an object of the member.
func (c Client) find(ctx context.Context, m Member, object string) (t thing, err error) {
	err = insist(ctx, func() error { t, err = c.thing(ctx, m, object); return err })
	return t, err
}

var errNoClaim = errors.New("has no claim")

func (c Client) thing(ctx context.Context, m Member, object string) (thing, error) {
	pod, err := c.CoreV1().Pods(m.Namespace).Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil || object == ringproof.ObjectPod {
		return podThing(c, pod), err
	}
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	if i < 0 {
		return thing{}, fmt.Errorf("pod %s/%s %w", m.Namespace, m.Name, errNoClaim)
	}
	claim, err := c.CoreV1().PersistentVolumeClaims(m.Namespace).Get(ctx, pod.Spec.Volumes[i].PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
	if err != nil || object == ringproof.ObjectClaim {
		return claimThing(c, claim), err
	}
	if claim.Spec.VolumeName == "" {
		return thing{}, fmt.Errorf("claim %s/%s is bound to no volume", m.Namespace, claim.Name)
	}
	volume, err := c.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	return volumeThing(c, volume), err
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

// Delete deletes an object of the member, how: a pod in good order, [ringproof.Forced], or
// [ringproof.Evicted]. It returns when the object is gone, but for a claim, which a pod that
// uses it keeps. A volume is protected while a claim is bound to it, and whoever wants it gone
// takes that off.
func (c Client) Delete(ctx context.Context, m Member, object, how string) (machines.Evidence, error) {
	t, err := c.find(ctx, m, object)
	if err != nil {
		return machines.Evidence{}, err
	}
	uid := t.object.GetUID()
	if how == ringproof.Evicted {
		return machines.Evidence{What: t.String(), Detail: fmt.Sprintf("evicted by its kubelet, uid %s", uid)}, c.evictNow(ctx, t)
	}
	o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if how == ringproof.Forced {
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

// evictNow has the pod's kubelet end it for good: a deadline that has passed makes it do what
// pressure on its node does, and a node can't be put under pressure for one pod alone. It
// returns when the pod is Failed, or gone.
func (c Client) evictNow(ctx context.Context, pod thing) error {
	uid := pod.object.GetUID()
	late := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"activeDeadlineSeconds":1}}`, uid)
	if err := insist(ctx, func() error { return pod.patch(ctx, late) }); gone(err) != nil {
		return err
	}
	for ctx.Err() == nil {
		now, err := c.CoreV1().Pods(pod.object.GetNamespace()).Get(ctx, pod.object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && (now.UID != uid || now.Status.Phase == corev1.PodFailed) {
			return nil
		}
		Wait(ctx, 200*time.Millisecond)
	}
	return fmt.Errorf("%s hasn't ended: %w", pod, ctx.Err())
}

// InjectRing does to what the pods of a ring have in common, one of which is a member's, what the
// fault says. It returns the objects beside their set that it came to.
func (c Client) InjectRing(ctx context.Context, m Member, f ringproof.Fault) (e machines.Evidence, objects []Beside, err error) {
	set, err := c.set(ctx, m)
	if err != nil {
		return e, nil, err
	}
	switch f.Kind {
	case ringproof.FaultSetScaled:
		e, err = c.scale(ctx, set, f.How)
	case ringproof.FaultSetDeleted:
		e, err = c.deleteSet(ctx, set, f.How)
	default:
		return c.injectBeside(ctx, set, f)
	}
	return e, nil, err
}

func (c Client) deleteSet(ctx context.Context, set *appsv1.StatefulSet, how string) (machines.Evidence, error) {
	cascade := trial.Cascade(how)
	o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &set.UID}, PropagationPolicy: &cascade}
	err := insist(ctx, func() error { return c.AppsV1().StatefulSets(set.Namespace).Delete(ctx, set.Name, o) })
	return machines.Evidence{What: named(set), Detail: fmt.Sprintf("deleted, uid %s, %s", set.UID, cascade)}, err
}

func named(set *appsv1.StatefulSet) string { return "StatefulSet " + set.Namespace + "/" + set.Name }

// set is the StatefulSet that made a member's pod.
func (c Client) set(ctx context.Context, m Member) (set *appsv1.StatefulSet, err error) {
	t, err := c.find(ctx, m, ringproof.ObjectPod)
	if err != nil {
		return nil, err
	}
	owner := metav1.GetControllerOf(t.object)
	if owner == nil || owner.Kind != "StatefulSet" {
		return nil, fmt.Errorf("%s was made by no StatefulSet", t)
	}
	err = insist(ctx, func() error {
		set, err = c.AppsV1().StatefulSets(m.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
		return err
	})
	return set, err
}

// scale has the set keep another number of pods.
func (c Client) scale(ctx context.Context, set *appsv1.StatefulSet, how string) (machines.Evidence, error) {
	before := ptr.Deref(set.Spec.Replicas, 1)
	after := map[string]int32{ringproof.ScaledToMinority: (before - 1) / 2, ringproof.ScaledFewer: before - 1, ringproof.ScaledMore: before + 1}[how]
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, after)
	err := insist(ctx, func() error {
		_, err := c.AppsV1().StatefulSets(set.Namespace).Patch(ctx, set.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	return machines.Evidence{What: named(set), Detail: fmt.Sprintf("replicas %d, before %d", after, before)}, err
}

// Upgrade gives all containers of a Deployment the later image of their own; see [image.Later].
func (c Client) Upgrade(ctx context.Context, name types.NamespacedName) (e machines.Evidence, err error) {
	of := c.AppsV1().Deployments(name.Namespace)
	err = insist(ctx, func() error {
		d, err := of.Get(ctx, name.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range d.Spec.Template.Spec.Containers {
			container := &d.Spec.Template.Spec.Containers[i]
			container.Image = image.Later(container.Image)
			e = machines.Evidence{What: "Deployment " + name.String(), Detail: "image " + container.Image}
		}
		_, err = of.Update(ctx, d, metav1.UpdateOptions{})
		return err
	})
	return e, err
}

// Upgraded reports whether a pod has the images that its Deployment asks for.
func (c Client) Upgraded(ctx context.Context, deployment types.NamespacedName, name string) bool {
	d, err := c.AppsV1().Deployments(deployment.Namespace).Get(ctx, deployment.Name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	pod, err := c.CoreV1().Pods(deployment.Namespace).Get(ctx, name, metav1.GetOptions{})
	same := func(a, b corev1.Container) bool { return a.Image == b.Image }
	return err == nil && slices.EqualFunc(pod.Spec.Containers, d.Spec.Template.Spec.Containers, same)
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
		Wait(ctx, 200*time.Millisecond)
	}
	return fmt.Errorf("%s is still there: %w", t, ctx.Err())
}

// Ending names the claim of a member, "" if it has none, and says which of it and its volume
// are being deleted: a pod that uses them keeps them, and they go with it (storage object in
// use protection).
func (c Client) Ending(ctx context.Context, m Member) (claim string, ending []ringproof.Object, err error) {
	for _, object := range []string{ringproof.ObjectClaim, ringproof.ObjectVolume} {
		t, err := c.find(ctx, m, object)
		switch {
		case errors.Is(err, errNoClaim):
			return "", nil, nil
		case err != nil:
			return claim, ending, err
		}
		claim = cmp.Or(claim, t.String())
		if t.object.GetDeletionTimestamp() != nil {
			ending = append(ending, ringproof.Object{Name: t.String(), UID: string(t.object.GetUID())})
		}
	}
	return claim, ending, nil
}

// Hold gives an object of the member a finalizer.
func (c Client) Hold(ctx context.Context, m Member, object, finalizer string) (machines.Evidence, error) {
	t, err := c.find(ctx, m, object)
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
func (c Client) Release(ctx context.Context, finalizer string) (err error) {
	var all []thing
	err = insist(ctx, func() error { all, err = c.things(ctx); return err })
	for _, t := range all {
		if before := t.object.GetFinalizers(); slices.Contains(before, finalizer) {
			after := slices.DeleteFunc(slices.Clone(before), func(f string) bool { return f == finalizer })
			err = errors.Join(err, insist(ctx, func() error { return gone(t.finalize(ctx, after)) }))
		}
	}
	return err
}

// things are all pods, claims and volumes.
func (c Client) things(ctx context.Context) (all []thing, err error) {
	pods, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	claims, err := c.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	volumes, err := c.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		all = append(all, podThing(c, &pods.Items[i]))
	}
	for i := range claims.Items {
		all = append(all, claimThing(c, &claims.Items[i]))
	}
	for i := range volumes.Items {
		all = append(all, volumeThing(c, &volumes.Items[i]))
	}
	return all, nil
}

// evictAgain is how long kubectl drain waits after an eviction that a budget refused.
const evictAgain = 5 * time.Second

// Drain cordons a node and evicts its pods, but for those of daemon sets and of the node
// itself; it returns when they are gone.
func (c Client) Drain(ctx context.Context, node string) (machines.Evidence, error) {
	if err := c.Cordon(ctx, node, true); err != nil {
		return machines.Evidence{}, err
	}
	var pods *corev1.PodList
	err := insist(ctx, func() (err error) {
		pods, err = c.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
		return err
	})
	if err != nil {
		return machines.Evidence{}, err
	}
	evicted, err := c.evict(ctx, slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return stays(&p) }))
	return machines.Evidence{What: "node " + node + " is cordoned", Detail: "evicted: " + strings.Join(evicted, "; ")}, err
}

// evict evicts pods, or whichever has the name of one by now, as kubectl drain does: each is
// asked for at once, and again while its budget refuses it. It returns when they are gone, and
// tells how often each was refused.
func (c Client) evict(ctx context.Context, pods []corev1.Pod) (said []string, err error) {
	refused := map[string]int{}
	for asked := pods; len(asked) > 0; {
		var again []corev1.Pod
		for _, p := range asked {
			err := insist(ctx, func() error {
				return c.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
			})
			switch {
			case apierrors.IsTooManyRequests(err):
				refused[podThing(c, &p).String()]++
				again = append(again, p)
			case gone(err) != nil:
				return nil, fmt.Errorf("evicting %s: %w", podThing(c, &p), err)
			}
		}
		if asked = again; len(asked) > 0 {
			Wait(ctx, evictAgain)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	for i := range pods {
		t := podThing(c, &pods[i])
		if err := t.leave(ctx); err != nil {
			return nil, err
		}
		said = append(said, fmt.Sprintf("%s, refused %d times before", t, refused[t.String()]))
	}
	return said, nil
}

// stays reports whether a pod is left on a node that is drained.
func stays(p *corev1.Pod) bool {
	_, static := p.Annotations[corev1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOf(p)
	return static || owner != nil && owner.Kind == "DaemonSet"
}

// Uncordon lets the node take pods again.
func (c Client) Uncordon(ctx context.Context, node string) error { return c.Cordon(ctx, node, false) }

// Cordon keeps pods off the node, or lets it take them.
func (c Client) Cordon(ctx context.Context, node string, is bool) error {
	return insist(ctx, func() error {
		_, err := c.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, is), metav1.PatchOptions{})
		return err
	})
}

// Forget deletes a Node, as a cloud's controller does that finds no machine for it.
func (c Client) Forget(ctx context.Context, node string) error {
	return insist(ctx, func() error { return gone(c.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})) })
}
