// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
)

// noted are the Events that were recorded, a line each.
type noted struct{ lines []string }

func (n *noted) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	ring := regarding.(*v1alpha1.EtcdRing)
	n.lines = append(n.lines, fmt.Sprintf("%s/%s %s %s (%s): ", ring.Namespace, ring.Name, kind, reason, action)+fmt.Sprintf(note, args...))
}

// measured are the metrics of the registry: "name{label values} value".
func measured(t *testing.T, r *prometheus.Registry) (all []string) {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			var values []string
			for _, l := range m.Label {
				values = append(values, l.GetValue())
			}
			all = append(all, fmt.Sprintf("%s{%s} %g", f.GetName(), strings.Join(values, " "), m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return all
}

// TestARingTellsOfItself: what is done for a ring its Events tell, and what it is its metrics,
// until it is gone.
func TestARingTellsOfItself(t *testing.T) {
	c, told, registry := newCluster(t), &noted{}, prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	require.NoError(t, err)
	c.reconciler.Events, c.reconciler.Metrics = told, metrics
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	c.reconcile()
	assert.Contains(t, told.lines, "n/r Normal CreateStatefulset (kube create statefulset r): the ring needs it")
	assert.Contains(t, measured(t, registry), "ringadm_ring_condition{n r Available} 0")
	assert.Contains(t, measured(t, registry), "ringadm_ring_voters_asked{n r} 3")
	c.reconciler.forget(request().NamespacedName)
	assert.Empty(t, measured(t, registry), "the ring is gone")
}

func TestWhatAnEventSays(t *testing.T) {
	ring := newRing(3)
	for _, test := range []struct {
		name string
		line host.Line
		want string
	}{
		{"a change of the membership", host.Line{Event: host.EventActionDone, Action: "add-learner", Target: "r-3", Text: "5 are asked for", Command: "etcdctl member add"},
			"n/r Normal AddLearner (add-learner r-3): 5 are asked for"},
		{"one that failed", host.Line{Event: host.EventActionFailed, Action: "kube delete pod", Target: "r-1", Text: "conflict"}, "n/r Warning DeletePodFailed (kube delete pod r-1): conflict"},
		{"a person is called", host.Line{Event: host.EventHalted, Text: "no quorum is left", Command: "ringadm restore"}, "n/r Warning Halted (ringadm restore): no quorum is left; consider: ringadm restore"},
		{"percent signs are text", host.Line{Event: host.EventHalted, Text: "100%d"}, "n/r Warning Halted (none): 100%d"},
		{"what begins is no news", host.Line{Event: host.EventActionBegun, Action: "promote"}, ""},
		{"nor is what it waits for", host.Line{Event: host.EventWaiting, Text: "for r-1"}, ""},
	} {
		told := &noted{}
		e := &eventful{Host: host.NewReal("controller", t.TempDir(), t.TempDir(), nil), to: told, ring: ring}
		e.Log(test.line)
		assert.Equal(t, test.want, strings.Join(told.lines, "\n"), test.name)
	}
}

// TestNoEventIsTooLong: the API server refuses one that is.
func TestNoEventIsTooLong(t *testing.T) {
	assert.Equal(t, "short", cut("short", 5))
	long := cut(strings.Repeat("ä", longestNote), longestNote)
	assert.LessOrEqual(t, len(long), longestNote)
	assert.True(t, strings.HasSuffix(long, "ä…"), "no half of a letter is left")
}
