// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// clock is a host that has a clock.
type clock struct {
	host.Host
	now time.Duration
}

func (c *clock) Monotonic() time.Duration { return c.now }

// ready has pods be so, by their status.
func (c *cluster) ready(pods ...string) {
	c.t.Helper()
	for _, name := range pods {
		pod := &corev1.Pod{}
		require.NoError(c.t, c.Get(c.t.Context(), client.ObjectKey{Namespace: "n", Name: name}, pod))
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		require.NoError(c.t, c.Status().Update(c.t.Context(), pod))
	}
}

// network is a host from which a ring is reached that lists its members, and takes no write, or
// none is.
type network struct {
	host.Host
	cluster uint64
	voters  int // 0: it is cut off
	dialled []string
}

func (n *network) Dial(endpoint string, _ *tls.Config) (host.Etcd, error) {
	n.dialled = append(n.dialled, endpoint)
	return lists{of: n}, nil
}

// lists is a client of it.
type lists struct {
	host.Etcd
	of *network
}

func (lists) Close() error { return nil }

func (l lists) MemberList(context.Context, ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	if l.of.voters == 0 {
		return nil, errors.New("nobody answers")
	}
	list := &clientv3.MemberListResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: l.of.cluster, MemberId: 1}}
	for i := range l.of.voters {
		name := fmt.Sprintf("r-%d", i)
		list.Members = append(list.Members, &etcdserverpb.Member{ID: uint64(i) + 1, Name: name, PeerURLs: []string{"https://" + name + ".r.n.svc:2380"}})
	}
	return list, nil
}

func (l lists) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: l.of.cluster, MemberId: 1}}, nil
}

func (lists) Grant(context.Context, int64) (*clientv3.LeaseGrantResponse, error) {
	return nil, errors.New("no lease is given")
}

// through has a controller that knows nothing reach its ring by a network.
func (c *cluster) through(n *network, api client.Client) {
	c.t.Helper()
	identity, there := c.identity()
	require.True(c.t, there)
	n.Host, n.cluster = host.NewReal("controller", c.t.TempDir(), c.t.TempDir(), nil), identity.ClusterID()
	c.reconciler = New(Config{Client: api, Live: api, Host: n, Image: "ringadm:test", ReplaceAfter: time.Minute, Next: ring.Next, Do: do})
}

// TestWhetherARingStandsItsVotersSay, and not what is asked for: of three two are a quorum, whether
// nine are asked for by now or not, and of five that are to become three they are none.
func TestWhetherARingStandsItsVotersSay(t *testing.T) {
	for name, test := range map[string]struct {
		voters int
		asked  int32
		want   metav1.ConditionStatus
	}{
		"two of three, and it is to have nine":   {3, 9, metav1.ConditionUnknown},
		"two of three":                           {3, 3, metav1.ConditionUnknown},
		"two of five, and it is to have three":   {5, 3, metav1.ConditionFalse},
		"two of three, which are to become five": {3, 5, metav1.ConditionUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			c, n := bootstrapped(t), &network{voters: test.voters}
			c.through(n, c.Client)
			require.Equal(t, metav1.ConditionTrue, conditionOf(t, c.reconcile(), v1alpha1.Available).Status)
			c.ready("r-0", "r-1")
			c.edit(func(r *v1alpha1.EtcdRing) { r.Spec.ClusterSize = test.asked })
			n.voters = 0
			is := conditionOf(t, c.reconcile(), v1alpha1.Available)
			assert.Equal(t, test.want, is.Status, is.Message)
		})
	}
}

// TestEverySlotIsAsked: a ring was bootstrapped with three and has nine members. The nodes of the initial members
// are off, and so was the one of the controller before: six of nine serve.
func TestEverySlotIsAsked(t *testing.T) {
	c := bootstrapped(t)
	c.edit(func(r *v1alpha1.EtcdRing) { r.Spec.ClusterSize = 9 })
	c.reconcile()
	require.EqualValues(t, 9, *c.set().Spec.Replicas)
	n := &network{}
	c.through(n, c.Client)
	c.reconcile()
	assert.Contains(t, n.dialled, "https://r-8.r.n.svc:2379")
}

// speechless is an API server that doesn't tell of one kind.
type speechless struct {
	client.Client
	of client.Object
}

func (s *speechless) Get(ctx context.Context, key client.ObjectKey, o client.Object, how ...client.GetOption) error {
	if s.of != nil && reflect.TypeOf(o) == reflect.TypeOf(s.of) {
		return apierrors.NewTooManyRequestsError("not now")
	}
	return s.Client.Get(ctx, key, o, how...)
}

// TestWhatWasNotSeenIsNotSaid: the API server doesn't answer for a moment, and that says nothing of
// whether a ring was bootstrapped, or serves.
func TestWhatWasNotSeenIsNotSaid(t *testing.T) {
	for _, of := range []client.Object{&corev1.ConfigMap{}, &appsv1.StatefulSet{}, &corev1.Service{}} {
		t.Run(fmt.Sprintf("%T", of), func(t *testing.T) {
			c, n := bootstrapped(t), &network{voters: 3}
			api := &speechless{Client: c.Client}
			c.through(n, api)
			require.Equal(t, metav1.ConditionTrue, conditionOf(t, c.reconcile(), v1alpha1.Available).Status)
			api.of = of
			is := conditionOf(t, c.reconcile(), v1alpha1.Available)
			assert.NotEqual(t, metav1.ConditionFalse, is.Status, is.Message)
			assert.NotEqual(t, "NotFounded", is.Reason)
		})
	}
}

// jumpy is a host whose clock is set on, and on again, while hardly any time goes by.
type jumpy struct {
	host.Host
	now time.Time
}

func (j *jumpy) Now() time.Time           { j.now = j.now.Add(5 * time.Second); return j.now }
func (j *jumpy) Monotonic() time.Duration { return time.Second }

// TestNoClockTakesANodeForDark, by which nobody waits.
func TestNoClockTakesANodeForDark(t *testing.T) {
	c := bootstrapped(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	require.NoError(t, c.Create(t.Context(), node))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	require.NoError(t, c.Status().Update(t.Context(), node))
	n := &network{voters: 3}
	c.through(n, c.Client)
	n.Host = &jumpy{n.Host, n.Host.Now()}
	for range 5 {
		c.reconcile()
	}
	x := c.reconciler.automation(c.reconcile())
	assert.Contains(t, x.seen.Quiet, "a")
	assert.Less(t, x.seen.Quiet["a"], 10*time.Second)
}

// seenReady is a bootstrapped ring of three of whose pods so many are ready.
func seenReady(ready int) Seen {
	s := Seen{Ring: newRing(3), Identity: &store.Identity{}}
	for i := range 3 {
		is := corev1.ConditionFalse
		if i < ready {
			is = corev1.ConditionTrue
		}
		s.Slots = append(s.Slots, Slot{Pod: &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: is}}}}})
	}
	return s
}

// TestResign: who hears no ring of those that serve has another process act, and nobody else
// does. The rings are looked at every five seconds for so long as each story tells.
func TestResign(t *testing.T) {
	heard, cut, down, unfounded := seenReady(3), seenReady(2), seenReady(1), seenReady(0)
	heard.View, unfounded.Identity = &admin.View{}, nil
	const most = 3 * time.Minute
	for name, test := range map[string]struct {
		rings func(now time.Duration) []Seen
		after time.Duration // 0: never
	}{
		"all are heard":            {func(time.Duration) []Seen { return []Seen{heard, heard} }, 0},
		"none is":                  {func(time.Duration) []Seen { return []Seen{cut, cut} }, time.Minute},
		"none is, and one is down": {func(time.Duration) []Seen { return []Seen{cut, down, unfounded} }, time.Minute},
		"one is":                   {func(time.Duration) []Seen { return []Seen{cut, heard} }, 0},
		"all are down":             {func(time.Duration) []Seen { return []Seen{down, down} }, 0},
		"the second is from then on": {func(now time.Duration) []Seen {
			return []Seen{cut, map[bool]Seen{true: heard, false: cut}[now >= 50*time.Second]}
		}, 0},
		"it is now and then": {func(now time.Duration) []Seen {
			return []Seen{map[bool]Seen{true: heard, false: cut}[now%(55*time.Second) == 0]}
		}, 0},
		"the pods are not ready soon": {func(now time.Duration) []Seen {
			return []Seen{map[bool]Seen{true: down, false: cut}[now >= 50*time.Second]}
		}, 0},
		"the second is not for a moment": {func(now time.Duration) []Seen {
			return []Seen{cut, map[bool]Seen{true: down, false: heard}[now > time.Minute && now < 90*time.Second]}
		}, 0},
		"the second is no more": {func(now time.Duration) []Seen {
			return []Seen{cut, map[bool]Seen{true: heard, false: cut}[now < time.Minute]}
		}, 115 * time.Second},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			c := &clock{Host: host.NewReal("controller", t.TempDir(), t.TempDir(), nil)}
			var resigned time.Duration
			r := New(Config{Host: c, Resign: func(why error) {
				if resigned == 0 {
					resigned = c.now
				}
				assert.ErrorContains(t, why, "another controller may reach it")
			}})
			for ; c.now <= most; c.now += 5 * time.Second {
				for i, s := range test.rings(c.now) {
					r.listen(r.automation(&v1alpha1.EtcdRing{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: string(rune('a' + i))}}), outcome{seen: s})
				}
			}
			assert.Equal(t, test.after, resigned)
		})
	}
}

// TestATurnWithoutALookIsNoAnswer: now and then the API server refuses a request, and the ring is cut
// off all the while.
func TestATurnWithoutALookIsNoAnswer(t *testing.T) {
	c := &clock{Host: host.NewReal("controller", t.TempDir(), t.TempDir(), nil)}
	resigned := false
	r := New(Config{Host: c, Resign: func(error) { resigned = true }})
	x := r.automation(newRing(3))
	for ; c.now <= 2*time.Minute; c.now += 5 * time.Second {
		r.listen(x, outcome{seen: seenReady(3)})
		r.listen(x, outcome{blind: true})
	}
	assert.True(t, resigned)
}

// TestARingThatAnswersIsHeard, though it asks for a user's name: no other has one.
func TestARingThatAnswersIsHeard(t *testing.T) {
	assert.True(t, outcome{seen: seenReady(3)}.unheard())
	assert.False(t, outcome{seen: seenReady(3), answers: true}.unheard())
}

// TestARingThatStandsIsNotLost, whatever is heard of it here: nobody is told to restore it.
func TestARingThatStandsIsNotLost(t *testing.T) {
	for ready, says := range map[int]string{3: "3 of its pods are ready by the last word of their nodes", 2: "2 of its pods are ready by the last word of their nodes", 1: "it is lost"} {
		x := &automation{Config: &Config{Next: ring.Next}, seen: seenReady(ready)}
		d := x.next(ring.Spec{Nodes: 3}, ring.Observed{Why: "no endpoint answered", Unread: time.Minute})
		assert.Contains(t, d.Halt, says)
		restores := strings.Contains(strings.Join(d.Commands, "\n"), "snapshot restore")
		assert.Equal(t, ready == 1, restores, d.Commands)

		is := available(outcome{seen: x.seen, wait: "no endpoint answered"})
		want := metav1.ConditionUnknown
		if ready == 1 {
			want = metav1.ConditionFalse
		}
		assert.Equal(t, want, is.Status, is.Reason)
		assert.Equal(t, v1alpha1.Available, is.Type)
	}
}
