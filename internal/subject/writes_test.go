// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/seam"
	simkube "github.com/ringproof/ringproof/sim/kube"
)

// gatedAPI is an API server that holds a pod, and a client of it with these faults.
func gatedAPI(t *testing.T, set ...seam.Setting) (gated, real kubeclient.Client, x *injector) {
	t.Helper()
	real = simkube.New(&still{}, simkube.Scheme(), time.Unix(0, 0)).Client()
	require.NoError(t, real.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "there"}}))
	x = newInjector(func() (seam.Faults, error) { return seam.Faults{Set: set}, nil }, seam.Counters{}, func() {})
	x.host, x.journal = newHost(), &seam.Journal{}
	return seams(x.layers(nil)).Kube(x.host, real), real, x
}

func TestEveryWriteToTheAPIServerIsAnEffect(t *testing.T) {
	pod := func(t *testing.T, c kubeclient.Client) *corev1.Pod {
		p := &corev1.Pod{}
		require.NoError(t, c.Get(t.Context(), kubeclient.ObjectKey{Namespace: "n", Name: "there"}, p))
		p.Labels, p.Status.Message = map[string]string{"a": "b"}, "changed"
		return p
	}
	for effect, write := range map[string]func(t *testing.T, c kubeclient.Client) error{
		"kube create configmap": func(t *testing.T, c kubeclient.Client) error {
			return c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "made"}})
		},
		"kube update pod": func(t *testing.T, c kubeclient.Client) error { return c.Update(t.Context(), pod(t, c)) },
		"kube status pod": func(t *testing.T, c kubeclient.Client) error { return c.Status().Update(t.Context(), pod(t, c)) },
		"kube delete pod": func(t *testing.T, c kubeclient.Client) error { return c.Delete(t.Context(), pod(t, c)) },
		"kube create eviction": func(t *testing.T, c kubeclient.Client) error {
			return c.SubResource("eviction").Create(t.Context(), pod(t, c), &policyv1.Eviction{})
		},
	} {
		assert.True(t, faults.IsEffect(effect), effect)
		c, _, x := gatedAPI(t)
		require.NoError(t, write(t, c), effect)
		assert.Equal(t, []ringproof.Effect{{Name: effect, Nth: 1, Done: 1, State: "0"}}, x.journal.(*seam.Journal).Effects, "a read is none")
		for phase, want := range map[string]func(error) bool{
			seam.Before:    func(err error) bool { return err == errKilled },
			seam.After:     func(err error) bool { return err == errKilled },
			seam.ReplyLost: func(err error) bool { return assert.ErrorIs(t, err, context.DeadlineExceeded) },
			seam.Refused:   apierrors.IsServiceUnavailable,
		} {
			c, real, _ := gatedAPI(t, cutAtEffect(effect, phase, 1))
			before := shown(t, real)
			assert.True(t, want(write(t, c)), "%s %s", effect, phase)
			done := shown(t, real) != before
			assert.Equal(t, phase == seam.After || phase == seam.ReplyLost, done, "%s %s", effect, phase)
		}
	}
}

// TestALateWriteIsOfWhatWasAsked: whoever asked goes on with the object that it sent.
func TestALateWriteIsOfWhatWasAsked(t *testing.T) {
	c, real, x := gatedAPI(t, cutAtEffect("kube create configmap", seam.Late, 1))
	var due func(context.Context)
	x.later = func(_ time.Duration, do func(context.Context)) { due = do }
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "made"}, Data: map[string]string{"a": "asked"}}
	before := shown(t, real)
	require.ErrorIs(t, c.Create(t.Context(), made), context.DeadlineExceeded)
	assert.Equal(t, before, shown(t, real), "it is on its way")
	made.Data["a"] = "changed since"
	due(t.Context())
	stored := &corev1.ConfigMap{}
	require.NoError(t, real.Get(t.Context(), kubeclient.ObjectKeyFromObject(made), stored))
	assert.Equal(t, "asked", stored.Data["a"])
}

// shown is what the API server holds, by name and version.
func shown(t *testing.T, c kubeclient.Client) (all string) {
	t.Helper()
	pods, maps := &corev1.PodList{}, &corev1.ConfigMapList{}
	require.NoError(t, c.List(t.Context(), pods))
	require.NoError(t, c.List(t.Context(), maps))
	for _, p := range pods.Items {
		all += p.Name + "@" + p.ResourceVersion + " "
	}
	for _, m := range maps.Items {
		all += m.Name + "@" + m.ResourceVersion + " "
	}
	return all
}

// A fault of the controller's hits no launcher, though both read of it on their node.
func TestOfTheController(t *testing.T) {
	cut := cutAtEffect("etcd put", seam.Refused, 1)
	cut.Fault.Scope = ringproof.ScopeController
	ask := func(scope string) error {
		x := newInjector(func() (seam.Faults, error) { return seam.Faults{Set: []seam.Setting{cut}}, nil }, seam.Counters{}, func() {})
		x.host, x.scope = newHost(), scope
		return x.around(t.Context(), point{effect: "etcd put"}, func(context.Context) error { return nil })
	}
	assert.NoError(t, ask(""))
	assert.Error(t, ask(ringproof.ScopeController))
	assert.Equal(t, ringproof.ScopeController, scopeOf([]string{"controller", "--replace-after=1s"}))
	assert.Empty(t, scopeOf([]string{"launch", "--ring=controller"}))
}

// What was done is hidden from the cache for a while: from single reads and lists, and by the
// labels that are asked for. All else is read as it is.
func TestUnseen(t *testing.T) {
	cut := cutAtEffect("kube create pod", seam.Unseen, 1)
	cut.Fault.For = ringproof.Duration(3 * time.Second)
	c, real, x := gatedAPI(t, cut)
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "made", Labels: map[string]string{"a": "b"}}}
	listed := func(c kubeclient.Client, how ...kubeclient.ListOption) int {
		pods := &corev1.PodList{}
		require.NoError(t, c.List(t.Context(), pods, append(how, kubeclient.InNamespace("n"))...))
		return len(pods.Items)
	}
	get := func(c kubeclient.Client, name string) error {
		return c.Get(t.Context(), kubeclient.ObjectKey{Namespace: "n", Name: name}, &corev1.Pod{})
	}
	require.NoError(t, c.Create(t.Context(), made), "it is done, and its reply comes")
	assert.Len(t, x.host.(*fakeHost).events(EventFaultLanded), 1)
	assert.True(t, apierrors.IsNotFound(get(c, "made")))
	assert.NoError(t, get(c, "there"))
	assert.Equal(t, 1, listed(c))
	assert.Zero(t, listed(c, kubeclient.MatchingLabels{"a": "b"}))
	assert.NoError(t, get(real, "made"))
	require.NoError(t, c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "made"}}))

	x.host.(*fakeHost).now = x.host.Now().Add(3 * time.Second)
	assert.NoError(t, get(c, "made"))
	assert.Equal(t, 1, listed(c, kubeclient.MatchingLabels{"a": "b"}))
}
