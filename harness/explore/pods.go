// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// Of what happens to a cluster, these are drawn: one is one of a step, as faults are rarer and
// cost more there.
const (
	mostInPods   = 4 // faults
	podsAway     = 40 * second
	podsRecovers = 240 * second // a node that is lost is waited for, and a pod that can't be scheduled
)

// inPods are the faults that rings on Kubernetes are drawn with.
var inPods = []ringproof.FaultKind{ringproof.FaultKill, ringproof.FaultPause, ringproof.FaultPartition, ringproof.FaultKubeDelete, ringproof.FaultKubeKill, ringproof.FaultKubePause,
	ringproof.FaultAPIOutage, ringproof.FaultDrain, ringproof.FaultForeignFinalizer, ringproof.FaultVolumeLoss, ringproof.FaultMachineLoss, ringproof.FaultAgentCrash, ringproof.FaultStaleView, ringproof.FaultSkippedView, ringproof.FaultStatusEmptied,
	ringproof.FaultForeignHand, ringproof.FaultKeysDamaged, ringproof.FaultSetDeleted,
	ringproof.FaultSetScaled, ringproof.FaultObjectsDeleted, ringproof.FaultObjectsEmptied, ringproof.FaultRingDeleted, ringproof.FaultUpgraded, ringproof.FaultAdmissionDenied}

// ofController are effects of the reference's controller.
var ofController = []string{"etcd member-add", "etcd member-promote", "etcd member-remove", "etcd put", "etcd txn", "kube create statefulset", "kube update statefulset",
	"kube create configmap", "kube create secret", "kube delete pod", "kube create eviction", "kube delete persistentvolumeclaim", "kube status etcdring"}

// ofOperators is what operators write in the place of those that the reference alone has, or
// has at etcd, which they reach by a way of their own.
var ofOperators = map[string]string{"etcd member-add": "kube create pod", "etcd member-promote": "kube patch statefulset", "etcd member-remove": "kube create service",
	"etcd put": "kube update configmap", "etcd txn": "kube create persistentvolumeclaim"}

// OfOperator has a drawn plan hit the writes of somebody's operator, whose rings are of
// that kind, as kubectl names it.
func OfOperator(p ringproof.Plan, kind string) ringproof.Plan {
	return edit(p, func(p *ringproof.Plan) {
		p.End = nil // what it may leave nobody here knows
		for _, s := range p.Steps {
			if s.Op != nil && s.Op.Kind == ringproof.OpEdit { // of a field that it may not have
				*s.Op = ringproof.Op{Kind: ringproof.OpRoll}
			}
			if s.Fault != nil && slices.Contains(decisionKinds, s.Fault.Kind) { // it has no seam for them; between two reads it may be stopped
				*s.Fault = ringproof.Fault{Kind: ringproof.FaultKubePause, Scope: ringproof.ScopeController, For: 10 * second}
			}
			if s.Fault == nil || s.Fault.Kind != ringproof.FaultAgentCrash {
				continue
			}
			s.Fault.Effect = cmp.Or(ofOperators[s.Fault.Effect], s.Fault.Effect)
			if verb, of, _ := strings.Cut(strings.TrimPrefix(s.Fault.Effect, "kube "), " "); of == "etcdring" {
				s.Fault.Effect = "kube " + verb + " " + kind
			}
		}
	})
}

// ComposeInPods makes a plan of draws whose ring is on Kubernetes. It is fair as those of
// [Compose] are.
func ComposeInPods(draw Draw, seed uint64) ringproof.Plan {
	c := composer{draw: draw, plan: Compose(func(string, int) int { return 0 }, seed)}
	c.plan.World, c.plan.Steps, c.plan.Invariants = "virtual", nil, nil
	size := []int{3, 5}[weighted(draw, "ring/size", 3, 1)]
	c.asked, c.fewest, c.most, c.lengths = size, size, size, []ringproof.Duration{2 * second, 10 * second, podsAway}
	c.plan.Ring = ringproof.RingSpec{On: ringproof.OnKubernetes, Size: size, Version: one(draw, "ring/version", versions...), Security: "tls", ReplaceAfter: 30 * second, Volume: 512 << 20}
	if size == 3 && c.draw("ring/peers", 3) == 2 {
		c.plan.Ring.Peers = "plain"
	}
	c.inPods()
	c.settle()
	c.plan.Ring.Machines = c.most + c.spares + c.draw("ring/spares", 2)
	c.load()
	c.plan.Workload.Profile = "kv-txn-watch"
	c.ends()
	c.judged()
	return c.plan
}

// ofEnding are the effects of deleting a ring.
var ofEnding = []string{"kube delete statefulset", "kube delete pod", "kube delete persistentvolumeclaim", "kube delete configmap", "kube delete secret"}

// ends draws whether the ring is deleted in the end, and what happens meanwhile. Of one that is deleted
// and made anew on the way the storage stays.
func (c *composer) ends() {
	if c.draw("end", 4) < 3 || c.plan.Withdraws() {
		return
	}
	c.plan.End = &ringproof.End{Within: podsRecovers}
	switch c.draw("end/harm", 5) { // by an old word, as the draw depends on it
	case 1:
		c.plan.End.Fault = &ringproof.Fault{Kind: ringproof.FaultKill, Target: one(c.draw, "end/member", "follower", "leader"), Scope: "machine", For: 600 * second}
	case 2:
		c.plan.End.Fault = &ringproof.Fault{Kind: ringproof.FaultAPIOutage, For: 20 * second}
	case 3:
		c.plan.End.Fault = &ringproof.Fault{Kind: ringproof.FaultKubePause, Scope: one(c.draw, "end/scope", "controller", "kube-controller-manager"), For: 30 * second}
	case 4:
		c.plan.End.Fault = &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Scope: ringproof.ScopeController, Effect: one(c.draw, "end/effect", ofEnding...), Nth: 1,
			Phase: one(c.draw, "end/phase", requestPhases...)}
	}
}

// inPods draws what is asked and what happens.
func (c *composer) inPods() {
	for _, e := range faults.All() {
		if slices.Contains(inPods, e.Kind) && c.draw("swarm/"+string(e.Kind), 2) == 1 {
			c.kinds = append(c.kinds, e)
		}
	}
	ops, hits := c.draw("ops/count", 3), c.draw("faults/count", mostInPods+1)
	first := 0
	if c.plan.Ring.Peers == "plain" { // nobody repairs a ring that has no launchers yet
		ops, first = max(1, ops), 1
	}
	places := make([][]int, ops+1)
	for i := range hits {
		at := max(first, c.draw(fmt.Sprintf("fault/%d/place", i+1), ops+1))
		places[at] = append(places[at], i+1)
	}
	for at, here := range places {
		var way []ringproof.Trigger
		if at > 0 {
			way = c.askedOfPods(at)
		}
		for _, n := range here {
			c.faultInPods(n, way)
			way = nil
		}
	}
}

// askedOfPods adds the nth edit of the EtcdRing, and returns what happens on its way.
func (c *composer) askedOfPods(n int) []ringproof.Trigger {
	label := func(what string) string { return fmt.Sprintf("op/%d/%s", n, what) }
	op, more := ringproof.Op{Kind: ringproof.OpScale}, 0
	release := newer[c.plan.Ring.Version]
	switch {
	case c.plan.Ring.Peers == "plain":
		op = ringproof.Op{Kind: ringproof.OpPeers, Peers: "tls"} // nothing else is asked of a ring without launchers
		c.faulty += podsAway
	case release != "" && !slices.ContainsFunc(c.plan.Steps, upgrades) && c.draw(label("kind"), 2) == 1:
		op = ringproof.Op{Kind: ringproof.OpUpgrade, Version: release}
		c.faulty += podsAway
	case c.draw(label("edits"), 4) == 3:
		op = ringproof.Op{Kind: ringproof.OpEdit, Params: map[string]string{"field": "spec.resources.requests.memory", "value": fmt.Sprintf("%dMi", 101+n)}}
		c.faulty += podsAway
	case c.suspended && c.draw(label("resumes"), 2) == 1:
		op, c.suspended = ringproof.Op{Kind: ringproof.OpResume}, false
	case c.pausable() && c.draw(label("pauses"), 5) == 4:
		op, c.suspended = ringproof.Op{Kind: ringproof.OpSuspend}, true
	case c.draw(label("backs-up"), 5) == 4:
		op = ringproof.Op{Kind: ringproof.OpSnapshot}
	default:
		op.To = one(c.draw, label("to"), 3, 5)
		more = op.To - c.asked
		c.fewest, c.asked, c.most = min(c.fewest, op.To), op.To, max(c.most, op.To)
	}
	c.add(ringproof.Step{Name: fmt.Sprintf("op-%d", n), Op: &op, After: c.soon(label), Detach: true, Timeout: 240 * second})
	if op.Kind == ringproof.OpScale {
		return milestones(op, more)
	}
	return milestones(ringproof.Op{Kind: ringproof.OpRoll}, 0)
}

// pausable reports whether the ring may be suspended: nobody repairs its records then, and no
// member that is restarted may start without its own.
func (c *composer) pausable() bool {
	return !c.suspended && !slices.ContainsFunc(c.kinds, func(e faults.Entry) bool { return e.Kind == ringproof.FaultKeysDamaged })
}

func upgrades(s ringproof.Step) bool { return s.Op != nil && s.Op.Kind == ringproof.OpUpgrade }

// faultInPods adds the nth fault; way is what happens meanwhile.
func (c *composer) faultInPods(n int, way []ringproof.Trigger) {
	if len(c.kinds) == 0 {
		return
	}
	label := func(what string) string { return fmt.Sprintf("fault/%d/%s", n, what) }
	entry := one(c.draw, label("kind"), c.kinds...)
	f := c.drawInPods(entry, label)
	step := ringproof.Step{Name: fmt.Sprintf("fault-%d", n), Fault: &f, Timeout: 120 * second}
	switch {
	case armed(f) && c.draw(label("founding"), 2) == 1:
		step.Detach, step.After = true, &ringproof.Trigger{Event: ringproof.EventRunBegins, Nth: 1, Timeout: 20 * second}
	case armed(f):
		step.Detach = true // it may never come to that
	case len(way) > 0 && c.draw(label("when"), 4) > 0:
		step.After = new(one(c.draw, label("event"), way...))
		step.After.Delay = one(c.draw, label("after"), 0, second/2, 2*second)
		step.After.Timeout = 60 * second
	default:
		step.After = c.soon(label)
	}
	if f.Permanent() {
		c.spares++
		c.faulty += podsRecovers
	}
	c.faulty += max(f.For, 10*second)
	if f.Kind == ringproof.FaultAdmissionDenied { // what asks for pods asks ever later, and again once it has waited as long
		c.faulty += f.For
	}
	c.plan.Steps = append(c.plan.Steps, step)
	if slices.Contains(flapping, f.Kind) && (f.Object == "" || f.Object == ringproof.ObjectPod) {
		c.again(step, label)
	}
}

// flapping are the faults of a cluster that come again and again: what crashes is started again,
// and what is deleted is made anew.
var flapping = []ringproof.FaultKind{ringproof.FaultKill, ringproof.FaultPause, ringproof.FaultPartition, ringproof.FaultKubeKill, ringproof.FaultKubePause,
	ringproof.FaultKubeDelete, ringproof.FaultStatusEmptied}

// drawInPods draws the fault's parameters, those that a cluster can have together.
func (c *composer) drawInPods(e faults.Entry, label func(string) string) ringproof.Fault {
	if e.Kind == ringproof.FaultAgentCrash {
		return ringproof.Fault{Kind: e.Kind, Scope: ringproof.ScopeController, Effect: one(c.draw, label("effect"), ofController...), Nth: 1 + c.draw(label("nth"), 3),
			Phase: one(c.draw, label("phase"), requestPhases...)}
	}
	f := c.drawFault(e, label)
	f.Stagger = 0
	switch {
	case e.Kind == ringproof.FaultVolumeLoss:
		f.Leave, f.For, f.By = "nothing", 0, 0
	case e.Kind == ringproof.FaultKubePause && f.Scope != ringproof.ScopeKubelet:
		f.Target = ""
	case e.Kind == ringproof.FaultKubePause:
		f.Target = one(c.draw, label("whose"), "follower", "leader")
	case e.Kind == ringproof.FaultKubeDelete && f.Object != ringproof.ObjectPod:
		f.How = ""
	case e.Kind == ringproof.FaultForeignHand:
		f.Does, f.Target = ringproof.MemberRemove, one(c.draw, label("whose"), "follower", "leader")
	case e.Kind == ringproof.FaultKill && f.Scope == "agent":
		f.For = 0
	case e.Kind == ringproof.FaultStaleView || e.Kind == ringproof.FaultSkippedView:
		f.Target, f.Decision, f.Scope = "", "next", ringproof.ScopeController
	}
	if lone := []ringproof.FaultKind{ringproof.FaultKubeDelete, ringproof.FaultDrain, ringproof.FaultForeignFinalizer, ringproof.FaultVolumeLoss}; slices.Contains(lone, e.Kind) {
		f.Target = one(c.draw, label("member"), "follower", "leader")
	}
	return f
}
