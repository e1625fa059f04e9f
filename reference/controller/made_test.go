// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// bootstrapped is a cluster with a ring of three that was bootstrapped.
func bootstrapped(t *testing.T) *cluster {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	c.reconcile()
	c.tellOfDisks()
	c.reconcile()
	c.reconcile()
	return c
}

// tellOfDisks has the init containers of three pods end, each on an empty disk.
func (c *cluster) tellOfDisks() {
	c.t.Helper()
	for i := range 3 {
		c.initEnds(fmt.Sprintf("r-%d", i), fmt.Sprintf(`{"disk":"d%d"}`, i))
	}
}

// edit changes the EtcdRing.
func (c *cluster) edit(change func(*v1alpha1.EtcdRing)) {
	c.t.Helper()
	r := &v1alpha1.EtcdRing{}
	require.NoError(c.t, c.Get(c.t.Context(), request().NamespacedName, r))
	change(r)
	require.NoError(c.t, c.Update(c.t.Context(), r))
}

// TestASetIsMadeAnewAsItWas: whatever is asked for by then, and whoever acts.
func TestASetIsMadeAnewAsItWas(t *testing.T) {
	c := bootstrapped(t)
	require.NoError(t, c.Delete(t.Context(), c.set()))
	c.edit(func(r *v1alpha1.EtcdRing) {
		r.Spec.Version, r.Spec.Features.EtcdLauncher = "3.7.3", ptr.To(false)
	})
	c.restart()
	c.reconcile()
	set := c.set()
	assert.Equal(t, "v3.6.16", set.Annotations[kube.VersionAnnotation], "no node has tried the release that is asked for")
	assert.True(t, hasLauncher(set.Spec.Template.Spec), "its members are listed with TLS, and would listen for plain text")
}

// unheard is a client whose request to make an object of a name is carried out, and never answered.
type unheard struct {
	client.Client
	name string
}

func (u *unheard) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	err := u.Client.Create(ctx, o, options...)
	if err == nil && o.GetName() == u.name {
		return apierrors.NewTimeoutError("the request was carried out, and nobody hears of it", 1)
	}
	return err
}

// TestANoteThatNobodyHearsOfIsReadAnew: by a number that was taken nothing could be noted any more,
// and nobody looked after the ring.
func TestANoteThatNobodyHearsOfIsReadAnew(t *testing.T) {
	c := bootstrapped(t)
	x := c.reconciler.automation(c.reconcile())
	require.Equal(t, 1, x.made.n)
	second := kube.Records{Namespace: "n", Ring: "r"}.NameOf(kube.MadePrefix + "/00000002.json")
	x.records.Unmarked = kube.Records{Live: c.Client, Writer: &unheard{c.Client, second}, Namespace: "n", Ring: "r"}

	set := c.set()
	set.Annotations[kube.FromAnnotation] = "v3.5.35"
	require.Error(t, x.noteMade(t.Context(), set))
	require.NoError(t, x.learnMade(t.Context()))
	require.NoError(t, x.noteMade(t.Context(), set))
	assert.Equal(t, 2, x.made.n)
	assert.EqualValues(t, "v3.5.35", x.made.last.From)
}

// strict is an API server that takes no other StatefulSet, as a policy has it.
type strict struct {
	client.Client
	asked int
}

func (s *strict) Update(ctx context.Context, o client.Object, how ...client.UpdateOption) error {
	if _, is := o.(*appsv1.StatefulSet); is {
		s.asked++
		return apierrors.NewForbidden(schema.GroupResource{Resource: "statefulsets"}, o.GetName(), errors.New("by a policy of the images that pods may have"))
	}
	return s.Client.Update(ctx, o, how...)
}

// TestWhatIsRefusedIsNotNoted: two records were, each time that it was asked for.
func TestWhatIsRefusedIsNotNoted(t *testing.T) {
	c := bootstrapped(t)
	x := c.reconciler.automation(c.reconcile())
	x.Config.Client = &strict{Client: c.Client}
	next := c.set()
	next.Annotations[kube.FromAnnotation], next.Annotations[kube.VersionAnnotation] = "v3.6.16", "v3.6.17"
	for range 3 {
		x.refusals = refusals{}
		_, why, err := x.make(t.Context(), update(next.DeepCopy(), "an upgrade begins"))
		require.NoError(t, err)
		require.Contains(t, why, "by a policy of the images")
		require.NoError(t, x.noteMade(t.Context(), c.set()))
	}
	n, made, err := x.makings().Latest(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.EqualValues(t, "v3.6.16", made.Version)

	x.Config.Client, x.refusals = c.Client, refusals{}
	_, _, err = x.make(t.Context(), update(next.DeepCopy(), "an upgrade begins"))
	require.NoError(t, err)
	n, made, err = x.makings().Latest(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.EqualValues(t, "v3.6.17", made.Version)
}

// TestASetMadeAnewHasASlotForEachClaim: of seven members three are no quorum. Where the list was
// read, whose claims are left over has no slot.
func TestASetMadeAnewHasASlotForEachClaim(t *testing.T) {
	s := Seen{Ring: newRing(3), Identity: &store.Identity{Token: "t"}, Made: store.Made{Version: "v3.6.16", From: "v3.5.35", Launchers: true}}
	for i := range kube.MostSlots {
		slot := Slot{Name: fmt.Sprintf("r-%d", i), Ordinal: i}
		if i < 7 {
			slot.Claim = &corev1.PersistentVolumeClaim{}
		}
		s.Slots = append(s.Slots, slot)
	}
	set := s.set(s.version())
	assert.EqualValues(t, 7, *set.Spec.Replicas)
	assert.Equal(t, "v3.5.35", set.Annotations[kube.FromAnnotation], "which upgrade was under way")
	s.Set = set.DeepCopy()
	s.Set.Spec.Replicas = ptr.To[int32](0)
	assert.EqualValues(t, 7, s.replicas(), "somebody has scaled it to none")
	s.Set.Spec.Replicas = ptr.To[int32](3)
	assert.EqualValues(t, 7, s.replicas(), "somebody has scaled it to what is asked for, of seven members")
	s.Set.Annotations[kube.SlotsAnnotation] = "3"
	assert.EqualValues(t, 3, s.replicas(), "the other claims are those of members that were removed")
	s.Set.Spec.Replicas = ptr.To[int32](5)
	assert.EqualValues(t, 5, s.replicas())
	delete(s.Set.Annotations, kube.SlotsAnnotation)
	assert.EqualValues(t, 5, s.replicas())
	s.Set.Spec.Replicas = ptr.To[int32](0)
	assert.EqualValues(t, 7, s.replicas(), "a set of before, scaled to none")
	s.Set.Spec.Replicas = ptr.To[int32](1 << 30)
	assert.EqualValues(t, kube.MostSlots, s.replicas(), "somebody has scaled it to what no ring has")
	s.Identity = nil
	s.Set = nil
	assert.EqualValues(t, 3, s.replicas(), "no member was ever on those claims")
	s.View = &admin.View{Members: []*etcdserverpb.Member{{ID: 1}, {ID: 2}, {ID: 3}}, Bindings: map[ring.ID]admin.Binding{1: {Machine: "r-1000000000"}, 2: {Machine: "r--1"}, 3: {Machine: "r-4"}}}
	assert.EqualValues(t, 5, s.replicas(), "by a record that somebody has written")
	_, why := (&automation{observed: ring.Observed{Members: s.View.RingMembers()}}).due(s, 2)
	assert.Empty(t, why)
}

// TestRecordsAreRestored: by whoever knows them still; who doesn't makes no authorities that no member
// trusts.
func TestRecordsAreRestored(t *testing.T) {
	for name, knows := range map[string]bool{"who knows them": true, "who does not": false} {
		t.Run(name, func(t *testing.T) {
			c := bootstrapped(t)
			before, there := c.identity()
			require.True(t, there)
			records := kube.Records{Live: c.Client, Writer: c.Client, Namespace: "n", Ring: "r"}
			deleted, err := records.Objects(t.Context())
			require.NoError(t, err)
			require.NotEmpty(t, deleted)
			for _, o := range deleted {
				if name := o.GetAnnotations()[kube.KeyAnnotation]; knows || name == "authority/00000001.json" {
					require.NoError(t, c.Delete(t.Context(), o))
				}
			}
			if !knows {
				c.restart()
			} else {
				r := &v1alpha1.EtcdRing{}
				require.NoError(t, c.Get(t.Context(), request().NamespacedName, r))
				c.reconciler.automation(r).restored = time.Time{} // a minute is over
			}
			r := c.reconcile()
			authorities, err := store.Log[store.Authority]{Store: records, Prefix: kube.AuthorityPrefix}.All(t.Context())
			require.NoError(t, err)
			if !knows {
				assert.Empty(t, authorities)
				assert.Contains(t, conditionOf(t, r, v1alpha1.Degraded).Message, "authorities are gone: restore")
				return
			}
			assert.Len(t, authorities, 1, conditionOf(t, r, v1alpha1.Degraded).Message)
			after, there := c.identity()
			require.True(t, there)
			assert.Equal(t, before, after)
		})
	}
}

// TestFoundersWithoutLaunchersBeginWithoutThem: launchers were asked for when the ring was bootstrapped,
// and its set wasn't made yet. They would wait for disks that its initial members don't have.
func TestFoundersWithoutLaunchersBeginWithoutThem(t *testing.T) {
	s := Seen{Ring: newRing(3), Identity: &store.Identity{Token: "t", Static: true}}
	s.Ring.Spec.Features.EtcdLauncher = ptr.To(true)
	assert.True(t, s.withoutLauncher())
	assert.False(t, hasLauncher(s.set("v3.6.16").Spec.Template.Spec))
	s.Made = store.Made{Version: "v3.6.16", Launchers: true}
	assert.False(t, s.withoutLauncher(), "it was given launchers since, and its set is gone")
}

// TestAnEditThatRestartsNobodyIsTold: members without launchers have it when their pods are made anew.
func TestAnEditThatRestartsNobodyIsTold(t *testing.T) {
	s := Seen{Ring: newRing(3), Identity: &store.Identity{Token: "t", Static: true}}
	s.Ring.Spec.Features.EtcdLauncher = ptr.To(false)
	s.Set = s.set("v3.6.16")
	s.Slots = []Slot{{Name: "r-0", Pod: &corev1.Pod{ObjectMeta: s.Set.Spec.Template.ObjectMeta}}}
	assert.Empty(t, Ground{}.unsupported(s))
	s.Ring.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	s.Set = s.set("v3.6.16")
	assert.Contains(t, Ground{}.unsupported(s), "delete one pod after the other")
}

// TestAStrangerIsTold: once a ring runs, what is somebody else's stops nothing, and is said.
func TestAStrangerIsTold(t *testing.T) {
	s := Seen{Ring: newRing(3), Identity: &store.Identity{Token: "t"}, Strange: []string{"service r-client"}}
	s.Set = s.set("v3.6.16")
	assert.Empty(t, s.strange())
	assert.Contains(t, ground(s, epoch, time.Minute).Waits, "service r-client there is, and is not of this ring: delete it")
	s.Set = nil
	assert.Contains(t, s.strange(), "service r-client there is")
}

// TestStrangersAreLeft: what has a name that the ring's would have is neither taken nor deleted with
// the ring.
func TestStrangersAreLeft(t *testing.T) {
	c := newCluster(t)
	labels := map[string]string{"app": "web"}
	require.NoError(t, c.Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}}}))
	for i := range 3 { // of that set's pods: they are called as those of the ring would be
		require.NoError(t, c.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("data-r-%d", i), Labels: labels}}))
	}
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	before := c.set()
	r := c.reconcile()
	assert.Contains(t, conditionOf(t, r, v1alpha1.Halted).Message, "statefulset r there is, and is not of this ring")
	require.NoError(t, c.Delete(t.Context(), r))
	for range 5 {
		_, err := c.reconciler.Reconcile(t.Context(), request())
		require.NoError(t, err)
	}
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), request().NamespacedName, r)), "the ring is held")
	claims := &corev1.PersistentVolumeClaimList{}
	require.NoError(t, c.List(t.Context(), claims))
	require.Len(t, claims.Items, 3, "somebody else's data went with a ring that never began")
	for _, claim := range claims.Items {
		assert.Nil(t, claim.DeletionTimestamp)
	}
	assert.Equal(t, before.UID, c.set().UID)
	assert.Equal(t, before.Generation, c.set().Generation)
}

// TestAnImageEditedByHandIsSetBack: the digest of what was asked for is as it was.
func TestAnImageEditedByHandIsSetBack(t *testing.T) {
	c := bootstrapped(t)
	set := c.set()
	set.Spec.Template.Spec.Containers[0].Image = "etcd:v3.4.0"
	require.NoError(t, c.Update(t.Context(), set))
	c.reconcile()
	assert.Equal(t, "etcd:v3.6.16", c.set().Spec.Template.Spec.Containers[0].Image)
}

// TestAPodOfAnEarlierSetBlocksNobody: it goes where its node is off and its disk is on that node, as
// no other pod can have the disk.
func TestAPodOfAnEarlierSetBlocksNobody(t *testing.T) {
	off := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}}
	local := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}}}}
	for name, test := range map[string]struct {
		change func(*Seen, *Slot)
		blocks bool
	}{
		"its node is off":      {func(*Seen, *Slot) {}, true},
		"its node is on":       {func(s *Seen, _ *Slot) { s.Nodes[0].Status.Conditions = nil }, false},
		"its disk may move":    {func(_ *Seen, slot *Slot) { slot.Volume = &corev1.PersistentVolume{} }, false},
		"it is not ending":     {func(_ *Seen, slot *Slot) { slot.Pod.DeletionTimestamp = nil }, false},
		"it is of this set":    {func(s *Seen, _ *Slot) { s.Set.UID = "before" }, false},
		"the set goes as well": {func(s *Seen, _ *Slot) { s.Set.DeletionTimestamp = ptr.To(metav1.Now()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := Seen{Ring: newRing(3), Identity: &store.Identity{Token: "t"}, Nodes: []corev1.Node{*off.DeepCopy()}}
			s.Set = s.set("v3.6.16")
			s.Set.UID = "now"
			slot := Slot{Name: "r-0", Volume: local, Pod: &corev1.Pod{Spec: corev1.PodSpec{NodeName: "a"}, ObjectMeta: metav1.ObjectMeta{
				DeletionTimestamp: ptr.To(metav1.Now()), OwnerReferences: []metav1.OwnerReference{{UID: "before", Controller: ptr.To(true)}}}}}
			test.change(&s, &slot)
			assert.Equal(t, test.blocks, s.blocks(slot))
		})
	}
}

// TestARingThatIsNoMoreGetsNoRecords: they would be another's of its name, which has no disks of theirs.
func TestARingThatIsNoMoreGetsNoRecords(t *testing.T) {
	c := bootstrapped(t)
	r := &v1alpha1.EtcdRing{}
	require.NoError(t, c.Get(t.Context(), request().NamespacedName, r))
	x := c.reconciler.automation(r)
	records := kube.Records{Live: c.Client, Writer: c.Client, Namespace: "n", Ring: "r"}
	deleted, err := records.Objects(t.Context())
	require.NoError(t, err)
	for _, o := range deleted {
		require.NoError(t, c.Delete(t.Context(), o))
	}
	before := r.DeepCopy()
	before.UID = "before"
	x.restored = time.Time{}
	require.NoError(t, x.restore(t.Context(), before))
	left, err := records.Objects(t.Context())
	require.NoError(t, err)
	assert.Empty(t, left)
	require.NoError(t, x.restore(t.Context(), r))
	left, err = records.Objects(t.Context())
	require.NoError(t, err)
	assert.Len(t, left, len(deleted)-1, "all but what pods are made with, which is noted in the next turn")
}

// TestNobodyElseSignsForAFoundedRing: all its records were deleted, and who knew them has gone. Its
// members trust no other authorities, and showed certificates of others from the next handshake on.
func TestNobodyElseSignsForAFoundedRing(t *testing.T) {
	c := bootstrapped(t)
	deleted, err := kube.Records{Live: c.Client, Namespace: "n", Ring: "r"}.Objects(t.Context())
	require.NoError(t, err)
	for _, o := range deleted {
		require.NoError(t, c.Delete(t.Context(), o))
	}
	certificates := func() *corev1.Secret {
		s := &corev1.Secret{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "r-0-tls"}, s))
		return s
	}
	before := certificates()
	c.restart()
	var r *v1alpha1.EtcdRing
	for range 2 {
		r = c.reconcile()
	}
	for file, was := range before.Data { // order: each by itself
		assert.True(t, string(was) == string(certificates().Data[file]), file)
	}
	assert.Contains(t, conditionOf(t, r, v1alpha1.Degraded).Message, "authorities are gone: restore")
}

// full is an API server that takes no more records.
type full struct{ client.Client }

func (f full) Create(ctx context.Context, o client.Object, how ...client.CreateOption) error {
	if o.GetAnnotations()[kube.KeyAnnotation] != "" {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), o.GetName(), errors.New("exceeded quota"))
	}
	return f.Client.Create(ctx, o, how...)
}

// TestARecordThatCanNotBeWrittenAgainStopsNothing else: who knows it looks after the ring.
func TestARecordThatCanNotBeWrittenAgainStopsNothing(t *testing.T) {
	c := bootstrapped(t)
	r := c.reconcile()
	records := kube.Records{Live: c.Client, Writer: full{c.Client}, Namespace: "n", Ring: "r"}
	deleted, err := records.Objects(t.Context())
	require.NoError(t, err)
	for _, o := range deleted {
		require.NoError(t, c.Delete(t.Context(), o))
	}
	x := c.reconciler.automation(r)
	x.records.Unmarked, x.restored, x.formed = records, time.Time{}, true
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}}
	require.NoError(t, c.Delete(t.Context(), service))
	r = c.reconcile()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(service), service), "what members find each other by is made by nobody")
	assert.Contains(t, conditionOf(t, r, v1alpha1.Degraded).Message, "exceeded quota")
}

// old is a client whose cache has pods as they were.
type old struct {
	client.Client
	pods *corev1.PodList
}

func (o *old) List(ctx context.Context, l client.ObjectList, how ...client.ListOption) error {
	if pods, is := l.(*corev1.PodList); is && o.pods != nil {
		o.pods.DeepCopyInto(pods)
		return nil
	}
	return o.Client.List(ctx, l, how...)
}

// TestNoRingIsFoundedOnDisksThatAreNoMore: the bootstrap record is written once, and a cache shows what
// a pod has told that was made anew since, with another disk.
func TestNoRingIsFoundedOnDisksThatAreNoMore(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	c.reconcile()
	c.tellOfDisks()
	cache := &old{Client: c.Client, pods: &corev1.PodList{}}
	require.NoError(t, c.List(t.Context(), cache.pods))
	for i := range 2 {
		name := fmt.Sprintf("r-%d", i)
		require.NoError(t, c.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}))
		require.NoError(t, c.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "data-" + name}}))
	}
	_, err := c.server.Reconcile()
	require.NoError(t, err)
	c.reconciler.Client = cache
	c.reconcile()
	_, there := c.identity()
	require.False(t, there, "two of three initial members have disks that are gone")
	c.reconciler.Client = c.Client
	for i := range 2 {
		c.initEnds(fmt.Sprintf("r-%d", i), fmt.Sprintf(`{"disk":"e%d"}`, i))
	}
	c.reconcile()
	identity, there := c.identity()
	require.True(t, there)
	assert.Equal(t, "e1", identity.Members[1].Disk)
}

// TestNoRingIsFoundedWhereOneServes: the set and the records were deleted, and the pods stayed. What
// their init containers have told is of before the ring.
func TestNoRingIsFoundedWhereOneServes(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	c.reconcile()
	c.tellOfDisks()
	c.ready("r-1")
	r := c.reconcile()
	_, there := c.identity()
	require.False(t, there)
	assert.Contains(t, conditionOf(t, r, v1alpha1.Halted).Message, "a member serves in r-1")
}
