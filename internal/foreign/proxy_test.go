// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package foreign

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/scenarios"
)

// proxied is an API server that takes every write, behind a proxy, and who asks it.
type proxied struct {
	proxy
	taken atomic.Int32 // writes
	body  atomic.Value // of the last: a string
	heard chan string  // what was told of pods
	hung  func()       // hangs up on whoever asks, as the kernel does for who was killed
	dead  bool         // who asks was killed before
}

func (f *proxied) Kill(netip.Addr) error {
	if f.dead {
		return errors.New("no pod is there")
	}
	f.hung()
	return nil
}

func (f *proxied) Tell(_ netip.Addr, line string) { f.heard <- line }

func newProxied(t *testing.T) (f *proxied, ask func(method, path, kind string) (code int, err error)) {
	f = &proxied{heard: make(chan string, 10)}
	f.turns = seam.Counters{}
	f.pods, f.kind = f, func(r schema.GroupVersionResource) string { return strings.TrimSuffix(r.Resource, "s") }
	f.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "{}")
			return
		}
		if strings.Contains(r.URL.Path, "refused") {
			w.WriteHeader(http.StatusConflict)
			return
		}
		text, _ := io.ReadAll(r.Body)
		f.body.Store(string(text))
		f.taken.Add(1)
		w.WriteHeader(http.StatusCreated)
	})
	s := httptest.NewUnstartedServer(f)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	f.hung = s.CloseClientConnections
	return f, func(method, path, kind string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header.Set("Content-Type", kind)
		answer, err := s.Client().Do(r)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		_, err = io.ReadAll(answer.Body)
		return answer.StatusCode, err
	}
}

const pods = "/api/v1/namespaces/rings/pods"

// TestProxyCuts: where a fault is set the operator dies, or is answered nothing or another
// thing, and the API server has done what the phase says.
func TestProxyCuts(t *testing.T) {
	for phase, want := range map[string]struct {
		taken int32 // of two writes, the second of which is cut
		code  int   // of the answer; 0: there is none
	}{
		"before":     {1, 0},
		"after":      {2, 0},
		"reply-lost": {2, 0},
		"refused":    {1, http.StatusServiceUnavailable},
		"unseen":     {2, http.StatusCreated},
	} {
		t.Run(phase, func(t *testing.T) {
			f, ask := newProxied(t)
			f.inject(ringproof.Step{Name: "cut", Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Scope: "controller", Effect: "kube create pod", Phase: phase, Nth: 2}}.At())
			code, err := ask(http.MethodPost, pods, "application/json")
			require.NoError(t, err)
			assert.Equal(t, http.StatusCreated, code, "the first")
			_, err = ask(http.MethodPost, "/api/v1/namespaces/rings/services", "application/json")
			require.NoError(t, err, "another effect")
			f.taken.Add(-1)
			code, err = ask(http.MethodPost, pods, "application/json")
			assert.Equal(t, want.code == 0, err != nil, "%v", err)
			assert.Equal(t, want.code, code)
			assert.Equal(t, want.taken, f.taken.Load())
			e, ok := hearProxy(<-f.heard)
			assert.True(t, ok)
			assert.Equal(t, ringproof.EventFaultLanded, e.Kind)
			assert.Equal(t, "cut", e.Step)
			code, err = ask(http.MethodPost, pods, "application/json")
			assert.NoError(t, err, "it is cut once")
			assert.Equal(t, http.StatusCreated, code)
			assert.Empty(t, f.heard)
			f.inject(ringproof.Step{Name: "cut"}.At())
			assert.Empty(t, f.set.Set, "it is healed")
		})
	}
}

// TestProxyIsLate: the write comes, whole, when whoever asked has given up.
func TestProxyIsLate(t *testing.T) {
	f, ask := newProxied(t)
	fault := ringproof.Fault{Kind: ringproof.FaultAgentCrash, Scope: "controller", Effect: "kube create pod", Phase: "late", For: ringproof.Duration(200 * time.Millisecond)}
	f.inject(ringproof.Step{Name: "cut", Fault: &fault}.At())
	_, err := ask(http.MethodPost, pods, "application/json")
	require.Error(t, err)
	assert.Contains(t, <-f.heard, "time ran out")
	require.Eventually(t, func() bool { return f.taken.Load() == 1 }, time.Minute, 10*time.Millisecond)
	assert.Equal(t, "{}", f.body.Load())
}

// TestProxySparesTheFailed: a write that failed by itself has no reply to lose, and is not counted
// by the phases that need it done; nor is one counted as cut whose process is gone already.
func TestProxySparesTheFailed(t *testing.T) {
	f, ask := newProxied(t)
	fault := ringproof.Fault{Kind: ringproof.FaultAgentCrash, Scope: "controller", Effect: "kube create pod", Phase: "after"}
	f.inject(ringproof.Step{Name: "cut", Fault: &fault}.At())
	code, err := ask(http.MethodPost, "/api/v1/namespaces/refused/pods", "application/json")
	require.NoError(t, err)
	assert.Equal(t, http.StatusConflict, code)
	f.dead = true
	code, err = ask(http.MethodPost, pods, "application/json")
	require.NoError(t, err)
	assert.Equal(t, http.StatusCreated, code)
	assert.Empty(t, f.heard)
}

// TestProxyHides: watches of what was written show it late, and no other watch does.
func TestProxyHides(t *testing.T) {
	f, ask := newProxied(t)
	hidden, shown := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "services"}
	began := time.Now()
	f.inject(ringproof.Step{Name: "cut", Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Effect: "kube create pod", Phase: "unseen", For: ringproof.Duration(200 * time.Millisecond)}}.At())
	_, err := ask(http.MethodPost, pods, "application/json")
	require.NoError(t, err)
	f.mu.Lock()
	until := f.hiding(hidden).until
	assert.Zero(t, f.hiding(hidden).writes)
	assert.Zero(t, f.hiding(shown).until)
	f.mu.Unlock()
	assert.Greater(t, until.Sub(began), 200*time.Millisecond-time.Microsecond)
	_, err = ask(http.MethodGet, "/api/v1/namespaces/rings/services?watch=true", "")
	require.NoError(t, err)
	_, err = ask(http.MethodGet, pods+"?watch=true", "")
	require.NoError(t, err)
	assert.False(t, time.Now().Before(until), "the watch was told before")
}

// TestEffectsOfRequests: requests are called as package faults calls effects.
func TestEffectsOfRequests(t *testing.T) {
	for request, want := range map[string]string{
		"POST " + pods:                                                "kube create pod",
		"PUT " + pods + "/r-0":                                        "kube update pod",
		"PATCH " + pods + "/r-0":                                      "kube patch pod",
		"APPLY " + pods + "/r-0":                                      "kube apply pod",
		"DELETE " + pods + "/r-0":                                     "kube delete pod",
		"DELETE " + pods:                                              "kube delete pod",
		"POST " + pods + "/r-0/eviction":                              "kube create eviction",
		"PATCH " + pods + "/r-0/status":                               "kube status pod",
		"POST /api/v1/namespaces":                                     "kube create namespace",
		"PUT /api/v1/namespaces/a/finalize":                           "kube update finalize",
		"POST /apis/apps/v1/namespaces/a/things":                      "kube create thing",
		"GET " + pods:                                                 "",
		"POST " + pods + "?dryRun=All":                                "",
		"POST /api/v1/namespaces/a/events":                            "",
		"PUT /apis/coordination.k8s.io/v1/namespaces/a/leases/b":      "",
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews":     "",
		"POST /apis/authentication.k8s.io/v1/namespaces/a/tokenviews": "",
		"POST /version":                                               "",
	} {
		f, ask := newProxied(t)
		f.inject(ringproof.Step{Name: "probe", Fault: new((*Pods)(nil).Begin())}.At())
		method, path, _ := strings.Cut(request, " ")
		kind := "application/json"
		if method == "APPLY" {
			method, kind = http.MethodPatch, "application/apply-patch+yaml"
		}
		_, err := ask(method, path, kind)
		require.NoError(t, err)
		if want == "" {
			assert.Empty(t, f.kept.Effects, request)
			continue
		}
		assert.Equal(t, []ringproof.Effect{wrote(want, 1, 1, "0")}, f.kept.Effects, request)
		assert.True(t, faults.IsEffect(want), want)
	}
}

// wrote is an operator's write.
func wrote(name string, nth, done int, state string) ringproof.Effect {
	return ringproof.Effect{Scope: "controller", Name: name, Nth: nth, Done: done, State: state}
}

// TestJournalOfAnOperator: while a probe is set each write is kept, with its turn, and what failed
// by itself as not done.
func TestJournalOfAnOperator(t *testing.T) {
	f, ask := newProxied(t)
	write := func(path string) {
		_, err := ask(http.MethodPost, path, "application/json")
		require.NoError(t, err)
	}
	write(pods)
	f.inject(ringproof.Step{Name: "probe", Fault: new((*Pods)(nil).Begin())}.At())
	write(pods)
	write(pods + "/r-0/status")
	write("/api/v1/namespaces/refused/pods")
	write(pods)
	f.inject(ringproof.Step{Name: "probe"}.At())
	write(pods)
	assert.Equal(t, []ringproof.Effect{wrote("kube create pod", 1, 1, "0"), wrote("kube status pod", 1, 1, "1"), wrote("kube create pod", 2, 0, "1"), wrote("kube create pod", 3, 2, "2")}, f.kept.Effects)
}

// TestFaultyOperators: a fault hits an operator where it writes to the API server, and nowhere else.
func TestFaultyOperators(t *testing.T) {
	p := Promised(ours(t))
	assert.Equal(t, "etcdcluster", p.Kind())
	crash := func(scope, effect string) error {
		return p.Supports(ringproof.Step{Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Scope: scope, Effect: effect, Phase: "after"}})
	}
	assert.NoError(t, crash("controller", "kube create pod"))
	for _, err := range []error{crash("controller", "etcd member-add"), crash("", "kube create pod"),
		p.Supports(ringproof.Step{Fault: &ringproof.Fault{Kind: ringproof.FaultStaleView, Scope: "controller"}}),
		Promised(&scenarios.Subject{}).Supports(ringproof.Step{Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Scope: "controller", Effect: "kube create pod"}})} {
		assert.ErrorIs(t, err, errors.ErrUnsupported)
	}
}
