// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package config_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/controller"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
	simkube "github.com/ringproof/ringproof/sim/kube"
)

// guard is an API server that does for the controller what its role grants, and notes
// every deed.
type guard struct {
	client.Client
	scheme  *runtime.Scheme
	granted []deed
	done    *[]deed
	cached  bool // reads are of a cache, which lists and watches
}

func (g guard) may(o runtime.Object, sub string, verbs ...string) error {
	gvk, err := apiutil.GVKForObject(o, g.scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	if gvk.Kind == "RingDefaults" {
		plural.Resource = "ringdefaults" // there is one
	}
	for _, verb := range verbs {
		d := did(verb, gvk.Group, plural.Resource+sub)
		if *g.done = append(*g.done, d); !slices.Contains(g.granted, d) {
			return apierrors.NewForbidden(schema.GroupResource{Group: gvk.Group, Resource: plural.Resource}, "", fmt.Errorf("no rule grants %q", d))
		}
	}
	return nil
}

// read is what a read asks of the API server. Secrets and ConfigMaps are in no cache.
func (g guard) read(o runtime.Object, verb string) error {
	switch o.(type) {
	case *corev1.Secret, *corev1.SecretList, *corev1.ConfigMap, *corev1.ConfigMapList:
		return g.may(o, "", verb)
	}
	if g.cached {
		return g.may(o, "", "list", "watch")
	}
	return g.may(o, "", verb)
}

func (g guard) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := g.read(o, "get"); err != nil {
		return err
	}
	return g.Client.Get(ctx, key, o, opts...)
}

func (g guard) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	if err := g.read(l, "list"); err != nil {
		return err
	}
	return g.Client.List(ctx, l, opts...)
}

func (g guard) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := g.may(o, "", "create"); err != nil {
		return err
	}
	return g.Client.Create(ctx, o, opts...)
}

func (g guard) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if err := g.may(o, "", "update"); err != nil {
		return err
	}
	return g.Client.Update(ctx, o, opts...)
}

func (g guard) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if err := g.may(o, "", "patch"); err != nil {
		return err
	}
	return g.Client.Patch(ctx, o, p, opts...)
}

func (g guard) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := g.may(o, "", "delete"); err != nil {
		return err
	}
	return g.Client.Delete(ctx, o, opts...)
}

func (g guard) Status() client.SubResourceWriter { return guardedStatus{g.Client.Status(), g} }

// SubResource is nobody's here.
func (g guard) SubResource(name string) client.SubResourceClient {
	panic("nothing here asks for " + name)
}

type guardedStatus struct {
	client.SubResourceWriter
	guard guard
}

func (s guardedStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	if err := s.guard.may(o, "/status", "update"); err != nil {
		return err
	}
	return s.SubResourceWriter.Update(ctx, o, opts...)
}

// recorder notes the deed by which an Event is written.
type recorder struct{ done *[]deed }

func (r recorder) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {
	*r.done = append(*r.done, did("create", "events.k8s.io", "events"))
}

// elsewhere are the deeds that this test can't bring about, and why. On a cluster all are
// seen but those that say so.
var elsewhere = map[deed]string{
	"update etcd.ringproof.dev/etcdrings/finalizers": unusedAnywhere["update etcd.ringproof.dev/etcdrings/finalizers"],
	"update /secrets":                    unusedAnywhere["update /secrets"],
	"update policy/poddisruptionbudgets": "it follows the voters of a ring that answers",
	"patch events.k8s.io/events":         unusedAnywhere["patch events.k8s.io/events"],
	"create /pods":                       unusedAnywhere["create /pods"],
	"create /pods/eviction":              "a member restarts only while the others serve",
}

const edited = "what somebody has edited is put right, which the scenario kube-objects-emptied asks for in the virtual world"

// unusedAnywhere are the rights that no run uses, and why they are granted all the same.
var unusedAnywhere = map[deed]string{
	"update etcd.ringproof.dev/etcdrings/finalizers": "admission may ask for it of whoever owns objects for a ring",
	"update /secrets":                               "certificates are renewed after two months",
	"patch events.k8s.io/events":                    "the recorder counts what failed again and again in one Event",
	"update /services":                              edited,
	"update /serviceaccounts":                       edited,
	"update rbac.authorization.k8s.io/roles":        edited,
	"update rbac.authorization.k8s.io/rolebindings": edited,
	"create /pods":                                  "nodes try a release before an upgrade, which the scenario kube-upgrade asks for in the virtual world",
}

// still is a host of the API server whose time stands.
type still struct{ drawn uint64 }

func (*still) Elapsed() time.Duration { return 0 }
func (*still) Log(string)             {}
func (s *still) Draw(string) uint64   { s.drawn++; return s.drawn }

// stage is an API server, and a controller that may do what its role grants. Kubelets,
// volumes and everything else of the cluster are the test.
type stage struct {
	t      *testing.T
	server *simkube.Server
	client.Client
	controller *controller.Reconciler
	done       []deed
}

func newStage(t *testing.T, granted []deed) *stage {
	t.Helper()
	scheme := simkube.Scheme()
	require.NoError(t, errors.Join(v1alpha1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)))
	s := &stage{t: t, server: simkube.New(&still{}, scheme, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		simkube.Custom(v1alpha1.GroupVersion.WithKind("EtcdRing"), "etcdrings"),
		simkube.Kind{GroupVersionKind: v1alpha1.GroupVersion.WithKind("RingDefaults"), Resource: "ringdefaults"},
		simkube.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), Resource: "serviceaccounts"},
		simkube.Kind{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("Role"), Resource: "roles"},
		simkube.Kind{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), Resource: "rolebindings"})}
	s.Client = s.server.Client()
	live := guard{Client: s.Client, scheme: scheme, granted: granted, done: &s.done}
	cached := live
	cached.cached = true
	s.controller = controller.New(controller.Config{Client: cached, Live: live, Host: host.NewReal("controller", t.TempDir(), t.TempDir(), nil),
		Image: "ringadm:test", ReplaceAfter: time.Minute, Next: ring.Next, Events: recorder{&s.done},
		Do: func(ctx context.Context, r *admin.Ring, a ring.Action, f admin.Fence) error { return r.Do(ctx, a, f) }})
	return s
}

// turn has the controller reconcile the ring, and the cluster's own controllers do what follows.
func (s *stage) turn() *v1alpha1.EtcdRing {
	s.t.Helper()
	s.step()
	r := &v1alpha1.EtcdRing{}
	require.NoError(s.t, s.Get(s.t.Context(), client.ObjectKey{Namespace: "n", Name: "r"}, r))
	return r
}

func (s *stage) step() {
	s.t.Helper()
	_, err := s.controller.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "n", Name: "r"}})
	require.NoError(s.t, err)
	for wrote := true; wrote; {
		wrote, err = s.server.Reconcile()
		require.NoError(s.t, err)
	}
}

// edit takes out of what the controller has made what it says, and whose it is.
func (s *stage) edit() {
	s.t.Helper()
	service, account, role, binding := &corev1.Service{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}
	for _, o := range []client.Object{service, account, role, binding} {
		require.NoError(s.t, s.Get(s.t.Context(), client.ObjectKey{Namespace: "n", Name: "r"}, o))
	}
	service.Spec.Selector, role.Rules, binding.Subjects = map[string]string{"nobody": ""}, nil, nil
	account.OwnerReferences = nil
	for _, o := range []client.Object{service, account, role, binding} {
		require.NoError(s.t, s.Update(s.t.Context(), o))
	}
}

// end deletes the ring. Its pods end at once.
func (s *stage) end(r *v1alpha1.EtcdRing) {
	s.t.Helper()
	require.NoError(s.t, s.Delete(s.t.Context(), r))
	for range 10 {
		s.step()
		pods := &corev1.PodList{}
		require.NoError(s.t, s.List(s.t.Context(), pods))
		for i := range pods.Items {
			require.NoError(s.t, s.Delete(s.t.Context(), &pods.Items[i], client.GracePeriodSeconds(0)))
		}
	}
	require.True(s.t, apierrors.IsNotFound(s.Get(s.t.Context(), client.ObjectKeyFromObject(r), r)), "the ring is still there")
}

func (s *stage) pod(name string) *corev1.Pod {
	s.t.Helper()
	p := &corev1.Pod{}
	require.NoError(s.t, s.Get(s.t.Context(), client.ObjectKey{Namespace: "n", Name: name}, p))
	return p
}

// TestRoleIsWhatTheControllerDoes: each verb that it uses is granted, and each that is
// granted is used, or it is known where.
func TestRoleIsWhatTheControllerDoes(t *testing.T) {
	all := granted(rules(t, "ClusterRole"))
	s := newStage(t, all)
	require.NoError(t, s.Create(t.Context(), &v1alpha1.EtcdRing{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}, Spec: v1alpha1.EtcdRingSpec{
		ClusterSize: 3, Version: "3.6.16", Image: "etcd", Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")}}}))
	s.turn()

	// A container found another disk than its init container: only another pod mends it.
	misplaced := s.pod("r-1")
	ended := func(name, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message, FinishedAt: metav1.Now()}}}}
	}
	misplaced.Status.InitContainerStatuses = ended(kube.InitContainer, `{"disk":"d1"}`)
	misplaced.Status.ContainerStatuses = ended(kube.MemberContainer, kube.MisplacedMessage+"d2")
	require.NoError(t, s.Status().Update(t.Context(), misplaced))
	// A volume is gone.
	claim := &corev1.PersistentVolumeClaim{}
	require.NoError(t, s.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "data-r-2"}, claim))
	claim.Spec.VolumeName = "v"
	require.NoError(t, s.Update(t.Context(), claim))
	claim.Status.Phase = corev1.ClaimLost
	require.NoError(t, s.Status().Update(t.Context(), claim))
	s.turn()
	s.turn()
	s.edit()
	s.turn()
	// Another size is asked for.
	r := s.turn()
	r.Spec.ClusterSize = 5
	require.NoError(t, s.Update(t.Context(), r))
	r = s.turn()
	for _, c := range r.Status.Conditions {
		assert.NotContains(t, c.Message, "forbidden", c.Type)
	}
	s.end(r)

	slices.Sort(s.done)
	used := slices.Compact(s.done)
	for _, d := range used {
		assert.Contains(t, all, d, "it is done, and no rule grants it")
		assert.NotContains(t, elsewhere, d, "it is seen here after all: take it off the list")
	}
	for _, d := range all {
		if elsewhere[d] == "" {
			assert.Contains(t, used, d, "it is granted, and nothing does it")
		}
	}
}
