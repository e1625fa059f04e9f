// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimereconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
	simkube "github.com/ringproof/ringproof/sim/kube"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// still is a host of the API server whose time stands.
type still struct{ drawn uint64 }

func (s *still) Elapsed() time.Duration { return 0 }
func (s *still) Log(string)             {}
func (s *still) Draw(string) uint64     { s.drawn++; return s.drawn }

// cluster is an API server with the cluster's own controllers, and a controller of rings.
// Its kubelet is the test.
type cluster struct {
	t      *testing.T
	server *simkube.Server
	client.Client
	reconciler *Reconciler
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	scheme := simkube.Scheme()
	require.NoError(t, errors.Join(v1alpha1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)))
	kinds := []simkube.Kind{
		simkube.Custom(v1alpha1.GroupVersion.WithKind("EtcdRing"), "etcdrings"),
		{GroupVersionKind: v1alpha1.GroupVersion.WithKind("RingDefaults"), Resource: "ringdefaults", Global: true, Custom: true},
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), Resource: "serviceaccounts"},
		{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("Role"), Resource: "roles"},
		{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), Resource: "rolebindings"},
	}
	c := &cluster{t: t, server: simkube.New(&still{}, scheme, epoch, kinds...)}
	c.Client = c.server.Client()
	c.restart()
	return c
}

// restart has a controller that knows nothing.
func (c *cluster) restart() {
	h := host.NewReal("controller", c.t.TempDir(), c.t.TempDir(), nil)
	c.reconciler = New(Config{Client: c.Client, Live: c.Client, Host: h, Image: "ringadm:test", ReplaceAfter: time.Minute, Next: ring.Next, Do: do})
}

func do(ctx context.Context, r *admin.Ring, a ring.Action, f admin.Fence) error {
	return r.Do(ctx, a, f)
}

// withoutLaunchers are defaults by which a ring that doesn't say has none.
func withoutLaunchers() *v1alpha1.RingDefaults {
	return &v1alpha1.RingDefaults{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: v1alpha1.RingDefaultsSpec{FeatureGates: v1alpha1.FeatureGates{EtcdLauncher: ptr.To(false)}}}
}

func newRing(size int32) *v1alpha1.EtcdRing {
	return &v1alpha1.EtcdRing{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}, Spec: v1alpha1.EtcdRingSpec{
		ClusterSize: size, Version: "3.6.16", Image: "etcd", Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")}}}
}

func (c *cluster) reconcile() *v1alpha1.EtcdRing {
	c.t.Helper()
	_, err := c.reconciler.Reconcile(c.t.Context(), request())
	require.NoError(c.t, err)
	for {
		wrote, err := c.server.Reconcile()
		require.NoError(c.t, err)
		if !wrote {
			break
		}
	}
	r := &v1alpha1.EtcdRing{}
	require.NoError(c.t, c.Get(c.t.Context(), request().NamespacedName, r))
	return r
}

func request() runtimereconcile.Request {
	return runtimereconcile.Request{NamespacedName: types.NamespacedName{Namespace: "n", Name: "r"}}
}

// place puts pods on a node, where they take their time to end.
func (c *cluster) place(pods ...string) {
	c.t.Helper()
	require.NoError(c.t, c.Create(c.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}))
	for _, name := range pods {
		pod := &corev1.Pod{}
		require.NoError(c.t, c.Get(c.t.Context(), client.ObjectKey{Namespace: "n", Name: name}, pod))
		pod.Spec.NodeName = "node"
		require.NoError(c.t, c.Update(c.t.Context(), pod))
	}
}

// initEnds is a pod's init container that has told of its disk.
func (c *cluster) initEnds(slot, message string) {
	c.t.Helper()
	pod := &corev1.Pod{}
	require.NoError(c.t, c.Get(c.t.Context(), client.ObjectKey{Namespace: "n", Name: slot}, pod))
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: kube.InitContainer,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message, FinishedAt: metav1.NewTime(epoch)}}}}
	require.NoError(c.t, c.Status().Update(c.t.Context(), pod))
}

func (c *cluster) identity() (store.Identity, bool) {
	c.t.Helper()
	records := kube.Records{Live: c.Client, Writer: c.Client, Namespace: "n", Ring: "r"}
	i, there, err := store.Log[store.Identity]{Store: records, Prefix: kube.IdentityPrefix}.First(c.t.Context())
	require.NoError(c.t, err)
	return i, there
}

func conditionOf(t *testing.T, r *v1alpha1.EtcdRing, kind string) metav1.Condition {
	t.Helper()
	for _, c := range r.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	require.Fail(t, "no condition "+kind)
	return metav1.Condition{}
}

// TestFounding: the pods are made, and the ring is bootstrapped once every disk has told that
// it is empty, on those very disks.
func TestFounding(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	r := c.reconcile()
	assert.Contains(t, conditionOf(t, r, v1alpha1.Available).Message, "r-0 has not told of its disk yet")
	for i := range 3 {
		secret := &corev1.Secret{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: fmt.Sprintf("r-%d-tls", i)}, secret))
		for _, file := range certificateFiles {
			assert.NotEmpty(t, secret.Data[file], file)
		}
	}
	c.initEnds("r-0", `{"disk":"d0"}`)
	c.initEnds("r-2", `{"disk":"d2"}`)
	r = c.reconcile()
	assert.Contains(t, conditionOf(t, r, v1alpha1.Available).Message, "r-1 has not told")
	_, there := c.identity()
	require.False(t, there, "a ring was bootstrapped before every disk had told")

	c.initEnds("r-1", `{"disk":"d1"}`)
	c.reconcile()
	identity, there := c.identity()
	require.True(t, there)
	require.Len(t, identity.Members, 3)
	assert.Equal(t, store.InitialMember{Name: "r-1", Machine: "r-1", Disk: "d1", PeerURL: "https://r-1.r.n.svc:2380", ClientURL: "https://r-1.r.n.svc:2379"}, identity.Members[1])
}

// TestNoRingIsFoundedOnALog: the records of a ring are lost, and its disks are not.
func TestNoRingIsFoundedOnALog(t *testing.T) {
	for name, message := range map[string]string{
		"log":      `{"disk":"d2","member":"1f","cluster":"2e","last":7}`,
		"launched": `{"disk":"d2","launched":true}`,
		"damaged":  `{"disk":"d2","damaged":"crc"}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			require.NoError(t, c.Create(t.Context(), newRing(3)))
			c.reconcile()
			c.initEnds("r-0", `{"disk":"d0"}`)
			c.initEnds("r-1", `{"disk":"d1"}`)
			c.initEnds("r-2", message)
			r := c.reconcile()
			_, there := c.identity()
			assert.False(t, there)
			assert.Equal(t, metav1.ConditionTrue, conditionOf(t, r, v1alpha1.Halted).Status)
			assert.Contains(t, conditionOf(t, r, v1alpha1.Halted).Message, "a member ran on the disk d2 of r-2")
		})
	}
}

// TestNoSecondRingIsFounded: somebody deletes the bootstrap record of a ring whose pods
// still show what their init containers said before it.
func TestNoSecondRingIsFounded(t *testing.T) {
	c := bootstrapped(t)
	records := kube.Records{Namespace: "n", Ring: "r"}
	first := records.NameOf(store.Log[store.Identity]{Prefix: kube.IdentityPrefix}.FirstKey())
	require.NoError(t, c.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: first}}))
	c.restart()
	r := c.reconcile()
	_, there := c.identity()
	assert.False(t, there)
	assert.Contains(t, conditionOf(t, r, v1alpha1.Halted).Message, "its bootstrap record is gone: restore it")
}

// TestStatusDecidesNothing: a status that is lost is written again, and nothing else.
func TestStatusDecidesNothing(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	c.reconcile()
	before := c.reconcile()
	lost := before.DeepCopy()
	lost.Status = v1alpha1.EtcdRingStatus{}
	require.NoError(t, c.Status().Update(t.Context(), lost))
	c.restart()
	after := c.reconcile()
	assert.Len(t, after.Status.Conditions, 4)
	assert.Equal(t, conditionOf(t, before, v1alpha1.Available).Message, conditionOf(t, after, v1alpha1.Available).Message)
}

// TestVersionEdit: before the ring is bootstrapped its pods are made anew with what is asked
// for; afterwards what can't come about is said, and the pods keep what they run.
func TestVersionEdit(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	edit := func(r *v1alpha1.EtcdRing, version string) *v1alpha1.EtcdRing {
		r.Spec.Version = version
		require.NoError(t, c.Update(t.Context(), r))
		c.reconcile()
		return c.reconcile()
	}
	edit(c.reconcile(), "3.6.11")
	for i := range 3 {
		pod := &corev1.Pod{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: fmt.Sprintf("r-%d", i)}, pod))
		assert.Equal(t, "etcd:v3.6.11", pod.Spec.Containers[0].Image)
		c.initEnds(pod.Name, fmt.Sprintf(`{"disk":"d%d"}`, i))
	}
	c.reconcile()
	_, there := c.identity()
	require.True(t, there)
	degraded := conditionOf(t, edit(c.reconcile(), "3.5.35"), v1alpha1.Degraded)
	assert.Equal(t, metav1.ConditionTrue, degraded.Status)
	assert.Contains(t, degraded.Message, "v3.5.35 is asked for, and the pods run v3.6.11")
	set := &appsv1.StatefulSet{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "r"}, set))
	assert.Equal(t, "etcd:v3.6.11", set.Spec.Template.Spec.Containers[0].Image)
}

// set is the ring's.
func (c *cluster) set() *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{}
	require.NoError(c.t, c.Get(c.t.Context(), client.ObjectKey{Namespace: "n", Name: "r"}, s))
	return s
}

// TestLauncherStays: who has it keeps it, whatever is asked for and whatever the defaults
// become.
func TestLauncherStays(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	r := c.reconcile()
	require.Equal(t, ptr.To(true), r.Spec.Features.EtcdLauncher, "what the defaults were is not written down")
	r.Spec.Features.EtcdLauncher = ptr.To(false)
	require.NoError(t, c.Update(t.Context(), r))
	r = c.reconcile()
	assert.Contains(t, conditionOf(t, r, v1alpha1.Degraded).Message, "can't be disabled once it is on")
	assert.Equal(t, metav1.ConditionFalse, conditionOf(t, r, v1alpha1.Halted).Status)
}

func TestDefaults(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), withoutLaunchers()))
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	c.reconcile()
	r := c.reconcile()
	assert.Nil(t, r.Spec.Features.EtcdLauncher)
	assert.False(t, hasLauncher(c.set().Spec.Template.Spec))
	gate := func(on *bool) {
		d := &v1alpha1.RingDefaults{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "default"}, d))
		d.Spec.FeatureGates.EtcdLauncher = on
		require.NoError(t, c.Update(t.Context(), d))
	}
	gate(nil) // it is on if nobody says otherwise
	require.Equal(t, ptr.To(true), c.reconcile().Spec.Features.EtcdLauncher)
	gate(ptr.To(false))
	require.Equal(t, ptr.To(true), c.reconcile().Spec.Features.EtcdLauncher, "turned off it reverts nobody")
}

// TestDefaultsThatAreReplaced: they are gone for a moment, in which a ring without launchers stays as it
// is; and a cache that has not heard of them yet makes no launchers for a ring that is new.
func TestDefaultsThatAreReplaced(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), withoutLaunchers()))
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	c.reconciler.Config.Client = &uncached{c.Client}
	c.reconcile()
	require.Nil(t, c.reconcile().Spec.Features.EtcdLauncher, "the cache has no defaults, and the API server has")
	require.NoError(t, c.Delete(t.Context(), withoutLaunchers()))
	require.Nil(t, c.reconcile().Spec.Features.EtcdLauncher)
	require.NoError(t, c.Create(t.Context(), withoutLaunchers()))
	require.Nil(t, c.reconcile().Spec.Features.EtcdLauncher)
}

// TestAFoundedRingIsNotNew: without its set, and with nobody to say otherwise, it is begun with
// again as it was bootstrapped.
func TestAFoundedRingIsNotNew(t *testing.T) {
	static := store.Identity{Token: "t", Epoch: 1, Static: true}
	for i := range 3 {
		name := fmt.Sprintf("r-%d", i)
		static.Members = append(static.Members, store.InitialMember{Name: name, Machine: name, PeerURL: "http://" + name + ":2380", ClientURL: "http://" + name + ":2379"})
	}
	fresh, c := newCluster(t), newCluster(t)
	records := kube.Records{Live: c.Client, Writer: c.Client, Namespace: "n", Ring: "r"}
	_, err := store.Log[store.Identity]{Store: records, Prefix: kube.IdentityPrefix}.Append(t.Context(), 0, static)
	require.NoError(t, err)
	launched := bootstrapped(t)
	require.NoError(t, launched.Delete(t.Context(), launched.set()))
	for of, want := range map[*cluster]bool{fresh: true, c: false, launched: true} {
		on, err := of.reconciler.launches(t.Context(), newRing(3))
		require.NoError(t, err)
		assert.Equal(t, want, on)
	}
	require.NoError(t, launched.Create(t.Context(), withoutLaunchers()))
	on, err := launched.reconciler.launches(t.Context(), newRing(3))
	require.NoError(t, err)
	assert.True(t, on, "turned off it reverts nobody")
}

// uncached is a client whose cache has heard of no defaults.
type uncached struct{ client.Client }

func (u *uncached) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, is := o.(*v1alpha1.RingDefaults); is {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "ringdefaults"}, key.Name)
	}
	return u.Client.Get(ctx, key, o, options...)
}

// TestWhatIsUnsetStaysOn: a manifest that doesn't say it is applied once more.
func TestWhatIsUnsetStaysOn(t *testing.T) {
	c := bootstrapped(t)
	c.edit(func(r *v1alpha1.EtcdRing) { r.Spec.Features.EtcdLauncher = nil })
	require.NoError(t, c.Create(t.Context(), withoutLaunchers()))
	require.Equal(t, ptr.To(true), c.reconcile().Spec.Features.EtcdLauncher)
}

// TestExplicitFalse: whoever says that a ring has no launcher is believed, whatever the
// defaults are or become.
func TestExplicitFalse(t *testing.T) {
	c := newCluster(t)
	asked := newRing(3)
	asked.Spec.Features.EtcdLauncher = ptr.To(false)
	require.NoError(t, c.Create(t.Context(), asked))
	for range 3 {
		require.Equal(t, ptr.To(false), c.reconcile().Spec.Features.EtcdLauncher)
	}
	assert.False(t, hasLauncher(c.set().Spec.Template.Spec))
}

// TestStaticRing: a ring without launchers is bootstrapped by the flags of its pods, which are
// those of the bootstrap record, and nothing of it is asked for that needs launchers. Its
// pods are made with launchers once it is read, and not before.
func TestStaticRing(t *testing.T) {
	c := newCluster(t)
	asked := newRing(3)
	asked.Spec.Features.EtcdLauncher = ptr.To(false)
	require.NoError(t, c.Create(t.Context(), asked))
	c.reconcile()
	r := c.reconcile()
	identity, there := c.identity()
	require.True(t, there)
	require.True(t, identity.Static)
	words := c.set().Spec.Template.Spec.Containers[0].Command
	assert.Equal(t, kube.Etcd, words[0])
	assert.Contains(t, words, "--initial-cluster-token="+identity.Token)
	assert.Contains(t, words, "--initial-cluster=r-0=http://r-0.r.n.svc:2380,r-1=http://r-1.r.n.svc:2380,r-2=http://r-2.r.n.svc:2380")
	assert.Empty(t, c.set().Spec.Template.Spec.InitContainers)
	assert.Equal(t, v1alpha1.Plain, r.Status.TLSPhase)

	r.Spec.Version = "3.6.17"
	require.NoError(t, c.Update(t.Context(), r))
	r = c.reconcile()
	assert.Contains(t, conditionOf(t, r, v1alpha1.Degraded).Message, "a ring without the launcher isn't upgraded")

	r.Spec.Features.EtcdLauncher = ptr.To(true)
	require.NoError(t, c.Update(t.Context(), r))
	r = c.reconcile()
	assert.Equal(t, words, c.set().Spec.Template.Spec.Containers[0].Command, "the ring was not read")
	assert.Equal(t, v1alpha1.Plain, r.Status.TLSPhase)
}

func TestOtherStorage(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	r := c.reconcile()
	r.Spec.Storage.Size = resource.MustParse("2Gi")
	require.NoError(t, c.Update(t.Context(), r))
	assert.Contains(t, conditionOf(t, c.reconcile(), v1alpha1.Degraded).Message, "other storage is asked for")
}

// TestPodsStay on a node that nobody hears of: after five minutes the control plane would have
// them end, those of two such nodes at the same moment, as both are heard of again. The ring
// decides who is replaced. What a person asks for holds as well: the shorter time counts.
func TestPodsStay(t *testing.T) {
	c := newCluster(t)
	r, own := newRing(3), corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "etcd"}
	r.Spec.Scheduling.Tolerations = []corev1.Toleration{own}
	require.NoError(t, c.Create(t.Context(), r))
	c.reconcile()
	pod := c.set().Spec.Template.Spec
	assert.Contains(t, pod.Tolerations, own)
	for _, taint := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		assert.Contains(t, pod.Tolerations, corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	}
}

// TestAnEditThatNoPodCanHave: all else that is asked for comes about, and the edit is told of
// and not tried again with each look.
func TestAnEditThatNoPodCanHave(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	r, api := c.reconcile(), picky(c.Client)
	c.reconciler.Client = api
	r.Spec.ClusterSize, r.Spec.Resources.Requests = 5, corev1.ResourceList{"nonsense": resource.MustParse("1")}
	require.NoError(t, c.Update(t.Context(), r))
	r = c.reconcile()
	assert.Contains(t, conditionOf(t, r, v1alpha1.Degraded).Message, "what is asked for is refused by the API server")
	assert.EqualValues(t, 5, *c.set().Spec.Replicas)
	assert.NotContains(t, c.set().Spec.Template.Spec.Containers[0].Resources.Requests, corev1.ResourceName("nonsense"))
	c.reconcile()
	assert.Equal(t, 1, api.refused)

	r = c.reconcile()
	r.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	require.NoError(t, c.Update(t.Context(), r))
	assert.NotContains(t, conditionOf(t, c.reconcile(), v1alpha1.Degraded).Message, "refused")
	assert.Contains(t, c.set().Spec.Template.Spec.Containers[0].Resources.Requests, corev1.ResourceCPU)
}

// TestASetIsMadeAnewBesideSuchAnEdit: a bootstrapped ring has its pods as they were, or, where nobody has
// seen how that was, such as any node can have.
func TestASetIsMadeAnewBesideSuchAnEdit(t *testing.T) {
	for _, seen := range []bool{true, false} {
		c := bootstrapped(t)
		c.edit(func(r *v1alpha1.EtcdRing) {
			r.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
		})
		c.reconcile()
		require.Contains(t, c.set().Spec.Template.Spec.Containers[0].Resources.Requests, corev1.ResourceCPU)
		c.reconciler.Client = picky(c.Client)
		c.edit(func(r *v1alpha1.EtcdRing) {
			r.Spec.Resources.Requests = corev1.ResourceList{"nonsense": resource.MustParse("1")}
		})
		c.reconcile()
		require.NoError(t, c.Delete(t.Context(), c.set()))
		if !seen {
			c.reconciler.forget(client.ObjectKey{Namespace: "n", Name: "r"})
		}
		assert.Contains(t, conditionOf(t, c.reconcile(), v1alpha1.Degraded).Message, "what is asked for is refused by the API server")
		pod := c.set().Spec.Template.Spec
		if _, cpu := pod.Containers[0].Resources.Requests[corev1.ResourceCPU]; cpu != seen {
			t.Errorf("seen %v, CPU asked for %v", seen, cpu)
		}
		assert.NotContains(t, pod.Containers[0].Resources.Requests, corev1.ResourceName("nonsense"))
	}
}

// held keeps whoever asks for the set of one ring waiting.
type held struct {
	client.Client
	first      *sync.Once
	asked, let chan struct{}
}

func (h held) Get(ctx context.Context, key client.ObjectKey, o client.Object, how ...client.GetOption) error {
	if _, is := o.(*appsv1.StatefulSet); is && key.Name == "other" {
		h.first.Do(func() { close(h.asked) })
		<-h.let
	}
	return h.Client.Get(ctx, key, o, how...)
}

// TestARingKeepsNoOtherWaiting, that can't be read to its end.
func TestARingKeepsNoOtherWaiting(t *testing.T) {
	c := newCluster(t)
	other := newRing(3)
	other.Name = "other"
	require.NoError(t, errors.Join(c.Create(t.Context(), newRing(3)), c.Create(t.Context(), other)))
	h := held{c.Client, new(sync.Once), make(chan struct{}), make(chan struct{})}
	c.reconciler.Client = h
	done := make(chan error)
	go func() {
		_, err := c.reconciler.Reconcile(t.Context(), runtimereconcile.Request{NamespacedName: client.ObjectKeyFromObject(other)})
		done <- err
	}()
	<-h.asked
	c.reconcile()
	close(h.let)
	require.NoError(t, <-done)
}

// A ring without the launcher keeps its first authorities, and says so.
func TestAuthoritiesOfAStaticRing(t *testing.T) {
	c := newCluster(t)
	ring := newRing(3)
	ring.Spec.Features.EtcdLauncher = ptr.To(false)
	require.NoError(t, c.Create(t.Context(), ring))
	r := c.reconcile()
	r.Spec.Certificates.Authority = 2
	require.NoError(t, c.Update(t.Context(), r))
	assert.Contains(t, conditionOf(t, c.reconcile(), v1alpha1.Degraded).Message, "a ring without the launcher keeps its first")
}

func TestRefusals(t *testing.T) {
	for why, change := range map[string]func(*v1alpha1.EtcdRing){
		"4 members are asked for":  func(r *v1alpha1.EtcdRing) { r.Spec.ClusterSize = 4 },
		"11 members are asked for": func(r *v1alpha1.EtcdRing) { r.Spec.ClusterSize = 11 },
		"without the launcher": func(r *v1alpha1.EtcdRing) {
			r.Spec.Features.EtcdLauncher, r.Spec.ClusterSize = new(bool), 5
		},
	} {
		c := newCluster(t)
		r := newRing(3)
		change(r)
		require.NoError(t, c.Create(t.Context(), r))
		r = c.reconcile()
		halted := conditionOf(t, r, v1alpha1.Halted)
		assert.Equal(t, metav1.ConditionTrue, halted.Status)
		assert.Contains(t, halted.Message, why)
		sets := &appsv1.StatefulSetList{}
		require.NoError(t, c.List(t.Context(), sets))
		assert.Empty(t, sets.Items)
	}
}

// TestNamesThatNoObjectCanHave are refused by the controller, too, of a ring that is new; one that was
// bootstrapped under such a name, where the API server takes it, is looked after.
func TestNamesThatNoObjectCanHave(t *testing.T) {
	for name, why := range map[string]string{
		"r":                           "",
		"r-2":                         "",
		"r.2":                         "a letter first",
		"2nd":                         "a letter first",
		"r-client":                    "may not end with -client",
		"r" + strings.Repeat("0", 40): "40 characters at most",
	} {
		r := newRing(3)
		r.Name = name
		if why == "" {
			assert.Empty(t, refused(r, Seen{Ring: r}), name)
			continue
		}
		assert.Contains(t, refused(r, Seen{Ring: r}), "metadata.name: "+why, name)
		assert.Empty(t, refused(r, Seen{Ring: r, Identity: &store.Identity{Token: "t"}}), name)
	}
}

// TestDeletion: a ring that is deleted takes its claims and its records along, in that
// order and once its pods have ended, unless it retains them.
func TestDeletion(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	c.reconcile()
	c.place("r-0", "r-1", "r-2")
	require.NoError(t, c.Delete(t.Context(), newRing(3)))
	r := c.reconcile()
	require.NotNil(t, r.DeletionTimestamp)
	c.reconcile()
	pods, claims, records := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ConfigMapList{}
	require.NoError(t, c.List(t.Context(), pods))
	require.Len(t, pods.Items, 3)
	for _, pod := range pods.Items {
		require.NoError(t, c.List(t.Context(), claims))
		require.Len(t, claims.Items, 3, "a pod runs")
		require.NotNil(t, pod.DeletionTimestamp)
		require.NoError(t, c.Delete(t.Context(), &pod, client.GracePeriodSeconds(0)))
	}
	c.reconcile()
	require.NoError(t, errors.Join(c.List(t.Context(), claims), c.List(t.Context(), records)))
	require.Empty(t, claims.Items)
	require.NotEmpty(t, records.Items, "the records went before the claims")
	for range 2 {
		_, err := c.reconciler.Reconcile(t.Context(), request())
		require.NoError(t, err)
	}
	secrets := &corev1.SecretList{}
	require.NoError(t, errors.Join(c.List(t.Context(), records), c.List(t.Context(), secrets, client.MatchingLabels{"etcd.ringproof.dev/part": "record"})))
	assert.Empty(t, records.Items)
	assert.Empty(t, secrets.Items)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), request().NamespacedName, r)), "the ring is held")
}

func TestRetained(t *testing.T) {
	c := newCluster(t)
	asked := newRing(3)
	asked.Spec.Storage.Retain = true
	require.NoError(t, c.Create(t.Context(), asked))
	c.reconcile()
	require.NoError(t, c.Delete(t.Context(), asked))
	_, err := c.reconciler.Reconcile(t.Context(), request())
	require.NoError(t, err)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), request().NamespacedName, asked)), "the ring is held")
	claims, records := &corev1.PersistentVolumeClaimList{}, &corev1.ConfigMapList{}
	require.NoError(t, errors.Join(c.List(t.Context(), claims), c.List(t.Context(), records)))
	assert.Len(t, claims.Items, 3)
	assert.NotEmpty(t, records.Items)
}

// TestPhaseThatIsNotSeen: a step that could not look doesn't make peers that speak plain
// text, or are on the way to TLS, speak that alone.
func TestPhaseThatIsNotSeen(t *testing.T) {
	for _, before := range []v1alpha1.TLSPhase{"", v1alpha1.Plain, v1alpha1.Mixed, v1alpha1.Strict} {
		assert.Equal(t, before, phaseOf(before, outcome{trouble: errors.New("the API server is away")}))
	}
}

// TestARingThatWasNotCountedIsNotWhole: a ring that was just bootstrapped answers, and its
// members are bound to their disks before anybody asks each of them.
func TestARingThatWasNotCountedIsNotWhole(t *testing.T) {
	answers := outcome{seen: Seen{Ring: newRing(3), View: &admin.View{}}}
	require.Equal(t, metav1.ConditionUnknown, degraded(answers).Status)
	answers.observed = ring.Observed{Listed: true}
	require.Equal(t, metav1.ConditionTrue, degraded(answers).Status, "none of three votes")
}

// TestAStaticRingThatIsAskedForMore is looked after as it is, and says that it has three.
func TestAStaticRingThatIsAskedForMore(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), withoutLaunchers()))
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	c.reconcile()
	c.reconcile()
	require.EqualValues(t, 3, *c.set().Spec.Replicas)
	c.edit(func(r *v1alpha1.EtcdRing) { r.Spec.ClusterSize = 5 })
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}}
	require.NoError(t, c.Delete(t.Context(), service))
	r := c.reconcile()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(service), service), "what members find each other by is made by nobody")
	require.EqualValues(t, 3, *c.set().Spec.Replicas)
	assert.Contains(t, conditionOf(t, r, v1alpha1.Degraded).Message, "5 members are asked for, and a ring without the launcher has 3")
	assert.NotEqual(t, "NotFounded", conditionOf(t, r, v1alpha1.Available).Reason)
	assert.Equal(t, metav1.ConditionFalse, conditionOf(t, r, v1alpha1.Halted).Status)
}
