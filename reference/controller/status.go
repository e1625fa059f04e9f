// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
)

// tell writes what was seen into the ring's status, if it is news. Nothing reads it to
// decide.
func (r *Reconciler) tell(ctx context.Context, asked *v1alpha1.EtcdRing, o outcome) error {
	next := asked.DeepCopy()
	statusOf(&next.Status, asked.Generation, o, metav1.NewTime(r.Host.Now()).Rfc3339Copy())
	r.Metrics.show(next)
	if equality.Semantic.DeepEqual(asked.Status, next.Status) {
		return nil
	}
	return r.Client.Status().Update(ctx, next)
}

// statusOf changes a status to what a step has seen. What it has not seen stays: that
// the ring can't be read makes its members' list no other.
func statusOf(s *v1alpha1.EtcdRingStatus, generation int64, o outcome, now metav1.Time) {
	s.ObservedGeneration = generation
	s.TLSPhase = phaseOf(s.TLSPhase, o)
	if view := o.seen.View; view != nil {
		s.ClusterID = fmt.Sprintf("%x", view.ClusterID)
	}
	if o.observed.Listed {
		s.Voters, s.Members = int32(len(o.observed.Voters())), membersOf(o.observed)
	}
	for _, c := range conditions(o) {
		set := slices.IndexFunc(s.Conditions, func(was metav1.Condition) bool { return was.Type == c.Type })
		c.ObservedGeneration, c.LastTransitionTime = generation, now
		switch {
		case set < 0:
			s.Conditions = append(s.Conditions, c)
		default:
			if s.Conditions[set].Status == c.Status {
				c.LastTransitionTime = s.Conditions[set].LastTransitionTime
			}
			s.Conditions[set] = c
		}
	}
}

// phaseOf is how far the peers have come to TLS: Plain while none takes it, Strict once
// all do, and are listed so, and listen no other way. A step that has seen nothing of the
// ring's objects says nothing new.
func phaseOf(before v1alpha1.TLSPhase, o outcome) v1alpha1.TLSPhase {
	voters := o.observed.Voters()
	all := func(is func(ring.Member) bool) bool {
		return !slices.ContainsFunc(voters, func(m ring.Member) bool { return !is(m) })
	}
	switch {
	case o.seen.Ring == nil:
		return before
	case kube.Began(o.seen.Identity) == ring.TLS && !o.seen.static():
		return v1alpha1.Strict
	case len(voters) == 0:
		return cmp.Or(before, v1alpha1.Plain)
	case all(func(m ring.Member) bool { return m.Peers == ring.TLS && !m.ListedPlain() }):
		return v1alpha1.Strict
	case all(func(m ring.Member) bool { return !m.Peers.Secure() || m.Peers == "" && m.ListedPlain() }):
		return v1alpha1.Plain
	}
	return v1alpha1.Mixed
}

func membersOf(o ring.Observed) (all []v1alpha1.Member) {
	for _, m := range o.Members {
		role := "Follower"
		switch {
		case m.Learner:
			role = "Learner"
		case m.Leader:
			role = "Leader"
		case !m.Serving:
			role = "Unknown"
		}
		all = append(all, v1alpha1.Member{ID: m.ID.String(), Pod: m.Machine, Role: role, Version: strings.TrimPrefix(string(m.Version), "v"), Disk: m.Disk, Healthy: m.Serving})
	}
	return all
}

func conditions(o outcome) []metav1.Condition {
	return []metav1.Condition{available(o), progressing(o), degraded(o), halted(o)}
}

func condition(kind string, is bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	// Of an error of many endpoints the first line: the others change with each try, and a
	// status that changes each second is written each second.
	message, _, _ = strings.Cut(message, "\n")
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func available(o outcome) metav1.Condition {
	switch {
	case o.ends:
		return condition(v1alpha1.Available, false, "Ending", o.why())
	case o.seen.View != nil:
		return condition(v1alpha1.Available, true, "Serves", "a quorum answers")
	case o.blind: // it may serve, and may not have been bootstrapped
		unknown := condition(v1alpha1.Available, false, "NotLookedAt", o.why())
		unknown.Status = metav1.ConditionUnknown
		return unknown
	case o.seen.Identity == nil:
		return condition(v1alpha1.Available, false, "NotFounded", o.why())
	}
	without := condition(v1alpha1.Available, false, "NoQuorum", o.why())
	if o.unheard() { // by this process, and perhaps by no other
		without.Status, without.Reason = metav1.ConditionUnknown, "NotReached"
	}
	return without
}

func progressing(o outcome) metav1.Condition {
	switch {
	case o.halt != "":
		return condition(v1alpha1.Progressing, false, "Halted", o.halt)
	case o.wait == ring.Steady:
		return condition(v1alpha1.Progressing, false, "Steady", "the ring is what is asked for")
	}
	return condition(v1alpha1.Progressing, true, "Waits", o.why())
}

func degraded(o outcome) metav1.Condition {
	quiet := slices.DeleteFunc(slices.Clone(o.observed.Voters()), func(m ring.Member) bool { return m.Serving })
	switch {
	case o.refused != "":
		return condition(v1alpha1.Degraded, true, "NotSupported", o.refused)
	case o.trouble != nil:
		return condition(v1alpha1.Degraded, true, "Trouble", o.trouble.Error())
	case len(quiet) > 0:
		return condition(v1alpha1.Degraded, true, "MemberSilent", fmt.Sprintf("member %s does not answer", quiet[0]))
	case o.observed.Listed && len(o.observed.Voters()) < int(o.seen.Ring.Spec.ClusterSize):
		return condition(v1alpha1.Degraded, true, "MemberMissing", fmt.Sprintf("%d of %d members vote", len(o.observed.Voters()), o.seen.Ring.Spec.ClusterSize))
	case o.seen.View == nil:
		return condition(v1alpha1.Degraded, true, "NotRead", o.why())
	case !o.observed.Listed:
		unknown := condition(v1alpha1.Degraded, false, "NotCounted", "the ring answers, and its members have not been counted yet")
		unknown.Status = metav1.ConditionUnknown
		return unknown
	}
	return condition(v1alpha1.Degraded, false, "AsAsked", "every member votes and answers")
}

func halted(o outcome) metav1.Condition {
	if o.halt == "" {
		return condition(v1alpha1.Halted, false, "NoNeed", "nothing waits for a person")
	}
	message := o.halt
	if len(o.commands) > 0 {
		message += "; consider: " + strings.Join(o.commands, "; ")
	}
	return condition(v1alpha1.Halted, true, "Halted", message)
}

// why says why nothing more is done.
func (o outcome) why() string {
	all := slices.Concat(o.waits, slices.DeleteFunc([]string{o.halt, o.wait}, func(s string) bool { return s == "" }))
	return strings.Join(all, "; ")
}
