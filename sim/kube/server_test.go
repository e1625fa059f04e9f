// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kube

import (
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// clock is a host whose time goes when the test says so.
type clock struct {
	elapsed time.Duration
	drawn   map[string]int
	lines   []string
}

func (c *clock) Elapsed() time.Duration { return c.elapsed }
func (c *clock) Log(line string)        { c.lines = append(c.lines, line) }
func (c *clock) Draw(stream string) uint64 {
	c.drawn[stream]++
	h := fnv.New64a()
	fmt.Fprint(h, stream, c.drawn[stream])
	return h.Sum64()
}

var (
	pods       = corev1.SchemeGroupVersion.WithKind("Pod")
	configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	sets       = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
)

func server() (*Server, *clock) {
	host := &clock{drawn: map[string]int{}}
	return New(host, Scheme(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), host
}

func at(name string) Key                  { return Key{Namespace: "n", Name: name} }
func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "n", Name: name} }
func pointer[T any](v T) *T               { return &v }
func must[T any](t *testing.T, o Object, err error) T {
	t.Helper()
	require.NoError(t, err)
	return o.(any).(T)
}

func create[T Object](t *testing.T, s *Server, o T) T {
	t.Helper()
	made, err := s.Create(o)
	return must[T](t, made, err)
}

func onNode(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: named(name), Spec: corev1.PodSpec{NodeName: "node-1"}}
}

func TestStaleUpdateIsRefused(t *testing.T) {
	s, _ := server()
	first := create(t, s, &corev1.ConfigMap{ObjectMeta: named("m")})
	newer := first.DeepCopy()
	newer.Data = map[string]string{"a": "1"}
	_, err := s.Update(newer)
	require.NoError(t, err)

	_, err = s.Update(newer)
	assert.True(t, apierrors.IsConflict(err))
	assert.EqualError(t, err, `Operation cannot be fulfilled on configmaps "m": the object has been modified; please apply your changes to the latest version and try again`)

	newer.ResourceVersion, newer.Data = "", map[string]string{"a": "2"}
	_, err = s.Update(newer)
	assert.NoError(t, err, "a config map may be updated without a version")
}

func TestLeaseNeedsAVersion(t *testing.T) {
	s, _ := server()
	lease := create(t, s, &coordinationv1.Lease{ObjectMeta: named("l")})
	lease.ResourceVersion = ""
	_, err := s.Update(lease)
	assert.EqualError(t, err, `leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`)
}

func TestUpdateOfAnotherObjectOfThatName(t *testing.T) {
	s, _ := server()
	first := create(t, s, &corev1.ConfigMap{ObjectMeta: named("m")})
	_, err := s.Delete(configMaps, at("m"), metav1.DeleteOptions{})
	require.NoError(t, err)
	second := create(t, s, &corev1.ConfigMap{ObjectMeta: named("m")})
	require.NotEqual(t, first.UID, second.UID)
	first.ResourceVersion = ""
	_, err = s.Update(first)
	assert.True(t, apierrors.IsConflict(err))
	assert.ErrorContains(t, err, fmt.Sprintf("Key: /registry/configmaps/n/m, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s", first.UID, second.UID))
}

func TestNotFoundAndCreatedTwice(t *testing.T) {
	s, _ := server()
	_, err := s.Get(pods, at("p"))
	assert.EqualError(t, err, `pods "p" not found`)
	set := create(t, s, &appsv1.StatefulSet{ObjectMeta: named("r")})
	_, err = s.Create(&appsv1.StatefulSet{ObjectMeta: named("r")})
	assert.EqualError(t, err, `statefulsets.apps "r" already exists`)
	_, err = s.Create(set)
	assert.ErrorContains(t, err, "resourceVersion should not be set on objects to be created")
	_, err = s.Create(&corev1.ConfigMap{ObjectMeta: named("Not A Name")})
	assert.True(t, apierrors.IsInvalid(err))
}

func TestStatusIsApart(t *testing.T) {
	s, _ := server()
	set := create(t, s, &appsv1.StatefulSet{ObjectMeta: named("r"), Status: appsv1.StatefulSetStatus{Replicas: 9}})
	assert.Zero(t, set.Status.Replicas, "a new object has no status")
	assert.EqualValues(t, 1, set.Generation)

	set.Status.Replicas, set.Spec.Replicas = 3, pointer(int32(5))
	updated, err := s.UpdateStatus(set)
	set = must[*appsv1.StatefulSet](t, updated, err)
	assert.EqualValues(t, 3, set.Status.Replicas)
	assert.EqualValues(t, 1, *set.Spec.Replicas, "status is written without spec, which has its default")
	assert.EqualValues(t, 1, set.Generation)

	set.Status.Replicas, set.Spec.Replicas = 7, pointer(int32(5))
	updated, err = s.Update(set)
	set = must[*appsv1.StatefulSet](t, updated, err)
	assert.EqualValues(t, 3, set.Status.Replicas, "spec is written without status")
	assert.EqualValues(t, 2, set.Generation)

	set.Labels = map[string]string{"a": "b"}
	updated, err = s.Update(set)
	set = must[*appsv1.StatefulSet](t, updated, err)
	assert.EqualValues(t, 2, set.Generation, "labels ask for nothing")

	again, err := s.Update(set)
	require.NoError(t, err)
	assert.Equal(t, set.ResourceVersion, again.GetResourceVersion(), "an update that changes nothing is no event")
}

func TestFinalizersHoldADeletion(t *testing.T) {
	s, _ := server()
	create(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", Finalizers: []string{"x.dev/a"}}})
	deleted, err := s.Delete(configMaps, at("m"), metav1.DeleteOptions{})
	m := must[*corev1.ConfigMap](t, deleted, err)
	require.NotNil(t, m.DeletionTimestamp)
	again, err := s.Delete(configMaps, at("m"), metav1.DeleteOptions{})
	require.NoError(t, err)
	assert.Equal(t, m.ResourceVersion, again.GetResourceVersion(), "a second deletion changes nothing")

	m.Finalizers = []string{"x.dev/a", "x.dev/b"}
	_, err = s.Update(m)
	assert.ErrorContains(t, err, "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted")
	m.Finalizers = nil
	_, err = s.Update(m)
	require.NoError(t, err)
	_, err = s.Get(configMaps, at("m"))
	assert.True(t, apierrors.IsNotFound(err))
}

func TestDeletePreconditions(t *testing.T) {
	s, _ := server()
	pod := create(t, s, onNode("p"))
	wrong := types.UID("another")
	_, err := s.Delete(pods, at("p"), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	assert.EqualError(t, err, fmt.Sprintf(`Operation cannot be fulfilled on Pod "p": the UID in the precondition (another) does not match the UID in record (%s). The object might have been deleted and then recreated`, pod.UID))
	_, err = s.Delete(pods, at("p"), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: pointer("999")}})
	assert.True(t, apierrors.IsConflict(err))
	_, err = s.Delete(pods, at("p"), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}})
	assert.NoError(t, err)
	_, err = s.Delete(pods, at("p"), metav1.DeleteOptions{PropagationPolicy: pointer(metav1.DeletePropagationForeground)})
	assert.ErrorContains(t, err, "isn't modelled")
}

func TestPodsEndGracefully(t *testing.T) {
	s, host := server()
	create(t, s, onNode("p"))
	deleted, err := s.Delete(pods, at("p"), metav1.DeleteOptions{})
	pod := must[*corev1.Pod](t, deleted, err)
	assert.EqualValues(t, 30, *pod.DeletionGracePeriodSeconds)
	assert.Equal(t, "2026-01-01T00:00:30Z", pod.DeletionTimestamp.UTC().Format(time.RFC3339))

	longer, err := s.Delete(pods, at("p"), metav1.DeleteOptions{GracePeriodSeconds: pointer(int64(60))})
	require.NoError(t, err)
	assert.EqualValues(t, 30, *longer.GetDeletionGracePeriodSeconds(), "grace is only shortened")
	host.elapsed = 20 * time.Second
	shorter, err := s.Delete(pods, at("p"), metav1.DeleteOptions{GracePeriodSeconds: pointer(int64(5))})
	require.NoError(t, err)
	assert.EqualValues(t, 1, *shorter.GetDeletionGracePeriodSeconds(), "that time is over: a last second")

	_, err = s.Get(pods, at("p"))
	require.NoError(t, err, "a pod on a dead node is Terminating until somebody says 0")
	_, err = s.Delete(pods, at("p"), metav1.DeleteOptions{GracePeriodSeconds: pointer(int64(0))})
	require.NoError(t, err)
	_, err = s.Get(pods, at("p"))
	assert.True(t, apierrors.IsNotFound(err))

	create(t, s, &corev1.Pod{ObjectMeta: named("pending")})
	_, err = s.Delete(pods, at("pending"), metav1.DeleteOptions{})
	require.NoError(t, err)
	_, err = s.Get(pods, at("pending"))
	assert.True(t, apierrors.IsNotFound(err), "nobody has to end a pod that is on no node")
}

func TestImmutableConfigMap(t *testing.T) {
	s, _ := server()
	m := create(t, s, &corev1.ConfigMap{ObjectMeta: named("m"), Immutable: pointer(true), Data: map[string]string{"a": "1"}})
	m.Data, m.Immutable = map[string]string{"a": "2"}, nil
	_, err := s.Update(m)
	assert.True(t, apierrors.IsInvalid(err))
	assert.EqualError(t, err, "ConfigMap \"m\" is invalid: [immutable: Forbidden: field is immutable when `immutable` is set, data: Forbidden: field is immutable when `immutable` is set]")
}

func TestGeneratedNames(t *testing.T) {
	s, _ := server()
	meta := metav1.ObjectMeta{Namespace: "n", GenerateName: "job-"}
	a, b := create(t, s, &corev1.ConfigMap{ObjectMeta: meta}), create(t, s, &corev1.ConfigMap{ObjectMeta: meta})
	assert.Regexp(t, `^job-[bcdfghjklmnpqrstvwxz2456789]{5}$`, a.Name)
	assert.NotEqual(t, a.Name, b.Name)
	assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, string(a.UID))
}

func TestWatch(t *testing.T) {
	s, _ := server()
	m := create(t, s, &corev1.ConfigMap{ObjectMeta: named("m")})
	create(t, s, onNode("p"))
	m.Data = map[string]string{"a": "1"}
	_, err := s.Update(m)
	require.NoError(t, err)
	_, err = s.Delete(configMaps, at("m"), metav1.DeleteOptions{})
	require.NoError(t, err)

	tell := func(since int64) (told []string) {
		events, err := s.Since(configMaps, since)
		require.NoError(t, err)
		for _, e := range events {
			told = append(told, fmt.Sprintf("%d %s %s", e.Version, e.Type, e.Object.GetName()))
		}
		return told
	}
	assert.Equal(t, []string{"1 ADDED m", "3 MODIFIED m", "4 DELETED m"}, tell(0), "pods are another kind")
	assert.Equal(t, []string{"4 DELETED m"}, tell(3))
	s.Compact(3)
	_, err = s.Since(configMaps, 1)
	assert.EqualError(t, err, "too old resource version: 1 (3)")
	assert.True(t, apierrors.IsResourceExpired(err))
	assert.Equal(t, []string{"4 DELETED m"}, tell(3))
}

func TestNobodyChangesWhatIsStored(t *testing.T) {
	s, _ := server()
	asked := &corev1.ConfigMap{ObjectMeta: named("m"), Data: map[string]string{"a": "1"}}
	made := create(t, s, asked)
	create(t, s, &corev1.ConfigMap{ObjectMeta: named("l")})
	list, version, err := s.List(configMaps, "n")
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.EqualValues(t, 2, version)
	assert.Equal(t, "l", list[0].GetName(), "lists are by name")
	got, err := s.Get(configMaps, at("m"))
	for _, copied := range []*corev1.ConfigMap{asked, made, list[1].(*corev1.ConfigMap), must[*corev1.ConfigMap](t, got, err)} {
		copied.Data["a"] = "changed"
	}
	stored, err := s.Get(configMaps, at("m"))
	assert.Equal(t, "1", must[*corev1.ConfigMap](t, stored, err).Data["a"])
	none, _, err := s.List(configMaps, "elsewhere")
	require.NoError(t, err)
	assert.Empty(t, none)
}

func TestCustomKinds(t *testing.T) {
	gvk := sets.GroupVersion().WithKind("Deployment")
	host := &clock{drawn: map[string]int{}}
	s := New(host, Scheme(), time.Time{}.AddDate(2025, 0, 0), Custom(gvk, "deployments"))
	made := create(t, s, &appsv1.Deployment{ObjectMeta: named("d")})
	made.ResourceVersion = ""
	_, err := s.Update(made)
	assert.True(t, apierrors.IsInvalid(err), "custom objects are never updated without a version")
	_, err = s.Create(&corev1.Event{ObjectMeta: named("e")})
	assert.True(t, apierrors.IsNotFound(err), "a kind that nobody registered")
}

// BenchmarkServer measures requests of one small pod among five, without hops.
func BenchmarkServer(b *testing.B) {
	s, _ := server()
	for n := range 5 {
		_, err := s.Create(onNode(fmt.Sprintf("p-%d", n)))
		require.NoError(b, err)
	}
	found, err := s.Get(pods, at("p-0"))
	require.NoError(b, err)
	pod, n := found.(*corev1.Pod), 0
	for _, c := range []struct {
		name string
		ask  func() error
	}{
		{"get", func() error { _, err := s.Get(pods, at("p-0")); return err }},
		{"list", func() error { _, _, err := s.List(pods, "n"); return err }},
		{"update", func() error {
			n++
			pod.ResourceVersion, pod.Labels = "", map[string]string{"n": fmt.Sprint(n)}
			_, err := s.Update(pod)
			return err
		}},
		{"status", func() error {
			n++
			pod.ResourceVersion, pod.Status.Message = "", fmt.Sprint(n)
			_, err := s.UpdateStatus(pod)
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.ask(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
