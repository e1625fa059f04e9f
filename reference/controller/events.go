// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
)

// eventful is a host whose log of a ring is told in Events of the EtcdRing too, as far as it
// is of changes and of what waits for a person: who runs `kubectl describe` may have no right
// to read a controller's log.
type eventful struct {
	host.Host
	to      events.EventRecorder
	metrics *Metrics
	ring    *v1alpha1.EtcdRing // as it was asked for last
}

// What the API server refuses an Event for is longer than these.
// https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/core/validation/events.go
const (
	longestAction = 128
	longestNote   = 1024
)

// Log tells of the line.
func (e *eventful) Log(l host.Line) {
	e.Host.Log(l)
	reason, kind := titled(l.Action), corev1.EventTypeNormal
	// Two Events with all but the note alike are counted as one, so each object has its own,
	// and each command that a person is to consider.
	action := strings.TrimSpace(l.Action + " " + l.Target)
	switch l.Event {
	case host.EventActionDone:
	case host.EventActionFailed:
		reason, kind = reason+"Failed", corev1.EventTypeWarning
	case host.EventHalted:
		reason, kind, action = "Halted", corev1.EventTypeWarning, cmp.Or(l.Command, "none")
	default:
		return
	}
	e.metrics.count(e.ring, l)
	if e.to != nil {
		e.to.Eventf(e.ring, nil, kind, reason, cut(action, longestAction), "%s", cut(note(l), longestNote))
	}
}

// titled writes an action as Events have their reasons: "add-learner" is AddLearner, and
// "kube delete pod" DeletePod.
func titled(action string) (reason string) {
	words := strings.FieldsFunc(strings.TrimPrefix(action, "kube "), func(r rune) bool { return r == ' ' || r == '-' })
	for _, w := range words {
		reason += strings.ToUpper(w[:1]) + w[1:]
	}
	return reason
}

// note says why, and to a person who is called what to consider.
func note(l host.Line) string {
	if l.Event == host.EventHalted && l.Command != "" {
		return l.Text + "; consider: " + l.Command
	}
	return cmp.Or(l.Text, l.Command)
}

// cut is the text, or as much of it as fits.
func cut(text string, bytes int) string {
	const more = "…"
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes-len(more)], "") + more
}
