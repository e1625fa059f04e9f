// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
)

// Metrics are what alerts on rings are made of, beside those of controller-runtime. They say
// what the rings' statuses say. A nil one keeps none.
type Metrics struct {
	condition, voters, asked *prometheus.GaugeVec
	actions                  *prometheus.CounterVec
}

// NewMetrics returns the metrics, which r serves.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ringadm_ring_" + name, Help: help}, append([]string{"namespace", "ring"}, labels...))
	}
	m := &Metrics{
		condition: gauge("condition", "Whether the condition of the EtcdRing is True (1), False (0) or Unknown (-1).", "type"),
		voters:    gauge("voters", "How many members vote, as the ring said last."),
		asked:     gauge("voters_asked", "How many are asked for."),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ringadm_ring_actions_total", Help: "Changes of the ring and its objects, by how they ended: done or failed."},
			[]string{"namespace", "ring", "action", "ended"}),
	}
	return m, errors.Join(r.Register(m.condition), r.Register(m.voters), r.Register(m.asked), r.Register(m.actions))
}

var degrees = map[metav1.ConditionStatus]float64{metav1.ConditionTrue: 1, metav1.ConditionFalse: 0, metav1.ConditionUnknown: -1}

// show has the gauges say what the ring's status says.
func (m *Metrics) show(r *v1alpha1.EtcdRing) {
	if m == nil {
		return
	}
	for _, c := range r.Status.Conditions {
		m.condition.WithLabelValues(r.Namespace, r.Name, c.Type).Set(degrees[c.Status])
	}
	m.voters.WithLabelValues(r.Namespace, r.Name).Set(float64(r.Status.Voters))
	m.asked.WithLabelValues(r.Namespace, r.Name).Set(float64(r.Spec.ClusterSize))
}

// endings are how the lines of the log that are counted say that an action ended.
var endings = map[host.Event]string{host.EventActionDone: "done", host.EventActionFailed: "failed"}

// count counts the line if it tells how an action ended.
func (m *Metrics) count(r *v1alpha1.EtcdRing, l host.Line) {
	if ended := endings[l.Event]; m != nil && ended != "" {
		m.actions.WithLabelValues(r.Namespace, r.Name, l.Action, ended).Inc()
	}
}

// forget keeps nothing of a ring that is gone.
func (m *Metrics) forget(ring types.NamespacedName) {
	if m == nil {
		return
	}
	of := prometheus.Labels{"namespace": ring.Namespace, "ring": ring.Name}
	for _, v := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.condition, m.voters, m.asked, m.actions} {
		v.DeletePartialMatch(of)
	}
}
