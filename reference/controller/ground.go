// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
)

// Ground is what a ring needs under it: the changes of objects, in order, and what
// ring.Next is told of the slots.
type Ground struct {
	Changes []Change
	Lost    map[string]string // slot → why its volume doesn't come back
	Dark    map[string]string // slot → why it doesn't, unless its member answers
	Static  map[string]bool   // slot → its pod has no launcher
	Rolls   map[string]string // slot → why its member is to restart in its turn
	Ending  map[string]bool   // slot → its pod is being deleted
	Pending string            // what is waited for once the ring has nothing to do
	Waits   []string          // what a person would want to know of slots that wait

	patience  time.Duration // how long who may be replaced has been silent
	course    course
	rebudgets bool // pods may have been evicted by another budget since the look
}

// ground decides what objects there must be, and which may go. It is pure. The order is
// the safety argument: nothing is deleted but what no member of a list lives on that was
// read with a quorum in this very turn; there are never fewer slots than are asked for,
// nor than members need.
func ground(s Seen, now time.Time, patience time.Duration) Ground {
	g := Ground{patience: patience, Lost: map[string]string{}, Dark: map[string]string{}, Static: map[string]bool{}, Rolls: s.rolls(), Ending: map[string]bool{}, course: s.course()}
	if g.course.wait != "" {
		g.Waits = append(g.Waits, g.course.wait)
	}
	for _, what := range s.Strange {
		g.Waits = append(g.Waits, what+" there is, and is not of this ring: delete it")
	}
	for _, o := range s.Missing {
		made := creation(o, "the ring needs it")
		if _, is := o.(*appsv1.StatefulSet); is && s.Identity != nil {
			made.Without = ptr.To(creation(s.former(), "the ring needs it, and what is asked for is none"))
		}
		g.Changes = append(g.Changes, made)
	}
	g.amend(s)
	g.keepSet(s, now)
	g.keepBudget(s)
	if !s.Ring.Spec.Paused {
		g.check(s, patience)
	}
	held, listed := s.held()
	for _, slot := range s.Slots {
		g.Static[slot.Name], g.Ending[slot.Name] = slot.static(), slot.ending()
		what, why := s.fate(slot, patience)
		switch what {
		case Lost:
			g.Lost[slot.Name] = why
		case Dark:
			g.Dark[slot.Name] = why
		case Waiting, Unknown:
			if slot.Ordinal < int(s.Ring.Spec.ClusterSize) {
				g.Waits = append(g.Waits, slot.Name+": "+why)
			}
		}
		if s.Ring.Spec.Paused {
			continue
		}
		if why := slot.misplaced(); why != "" {
			g.Changes = append(g.Changes, deletion(slot.Pod, "its init container must look again: "+why))
			continue
		}
		if s.blocks(slot) {
			force := deletion(slot.Pod, "an earlier set has made it, its node is off, and for its sake no other pod is made")
			force.Force = true
			g.Changes = append(g.Changes, force)
			continue
		}
		free := listed && !held[slot.Ordinal]
		if why := s.outdated(slot, g.course, free); why != "" {
			g.Changes = append(g.Changes, deletion(slot.Pod, why))
			continue
		}
		if free {
			g.clear(s, slot, what, why, patience)
		}
	}
	return g
}

// held are the slots that a member lives on, or may start on. listed: it is known of
// each, as the list was read with a quorum, or as no ring was ever bootstrapped.
func (s Seen) held() (held map[int]bool, listed bool) {
	held = map[int]bool{}
	if s.View == nil {
		return held, s.Identity == nil && !s.bootstrapped()
	}
	return s.slotsOf(s.View.RingMembers()), true
}

// slotsOf are the slots that members live on, or may start on.
func (s Seen) slotsOf(members []ring.Member) map[int]bool {
	slots, n := map[int]bool{}, namesOf(s.Ring)
	for _, m := range members {
		at, ok := n.Ordinal(m.Machine)
		slots[at] = slots[at] || ok && at < kube.MostSlots // a record may be anybody's
		for i := range kube.MostSlots {
			slots[i] = slots[i] || slices.ContainsFunc(strings.Split(m.PeerURL, ","), func(u string) bool { return ring.Address(u) == n.Address(n.Slot(i)) })
		}
	}
	return slots
}

// bootstrapped reports whether a ring was bootstrapped on the set's pods.
func (s Seen) bootstrapped() bool {
	return s.Set != nil && s.Set.Annotations[kube.BootstrappedAnnotation] != ""
}

// replicas is how many slots there are to be: as many as are asked for, and as hold a
// member. Where the list wasn't read there are never fewer than there were.
func (s Seen) replicas() int32 {
	most := s.Ring.Spec.ClusterSize
	held, listed := s.held()
	if !listed {
		most = max(most, s.kept())
	}
	for i, holds := range held { // order: the highest of them
		if holds {
			most = max(most, int32(i)+1)
		}
	}
	return most
}

// kept is how many slots there were before, whatever somebody has scaled the set to since: of seven
// members the three that are asked for would never be a quorum. Where no set tells there may have
// been as many as have claims. A claim beside a set that tells may be that of a member which was
// removed, and of whose removal its log knows nothing.
func (s Seen) kept() (most int32) {
	if s.Set != nil {
		most = min(ptr.Deref(s.Set.Spec.Replicas, 0), kube.MostSlots)
		if slots, err := strconv.ParseInt(s.Set.Annotations[kube.SlotsAnnotation], 10, 32); err == nil {
			return max(most, min(int32(slots), kube.MostSlots))
		}
	}
	if s.Identity == nil || s.Set != nil && most >= s.Ring.Spec.ClusterSize {
		return most
	}
	for _, slot := range s.Slots {
		if slot.Claim != nil {
			most = max(most, int32(slot.Ordinal)+1)
		}
	}
	return most
}

// otherPods is why a set is changed that is to make them.
const otherPods = "pods that are made from now on are to be others"

// keepSet has the set be what is asked for.
func (g *Ground) keepSet(s Seen, now time.Time) {
	if s.Set == nil || !s.madeWith() {
		return
	}
	if released := s.released(); released != nil {
		g.Changes = append(g.Changes, update(released, "it is deleted, and another is made once it has gone"))
	}
	if s.Set.DeletionTimestamp != nil {
		return
	}
	if s.Ring.Spec.Paused {
		next := s.Set.DeepCopy()
		if why := s.nudged(next, now); why != "" {
			g.Changes = append(g.Changes, annotation(next, why))
		}
		return
	}
	asked := s.set(g.course.template)
	if g.course.from != "" {
		asked.Annotations[kube.FromAnnotation] = string(g.course.from)
	}
	next, why := s.sized(asked)
	stalled := s.nudged(next, now)
	if s.Set.Annotations[kube.TemplateAnnotation] == asked.Annotations[kube.TemplateAnnotation] && !s.unmade() && sameRun(s.Set.Spec.Template.Spec, asked.Spec.Template.Spec) {
		next.Annotations = merged(next.Annotations, asked.Annotations)
		if c, due := samePods(next, why, stalled); due {
			g.Changes = append(g.Changes, c)
		}
		return
	}
	other := next.DeepCopy()
	other.Spec.Template, other.Annotations = asked.Spec.Template, merged(next.Annotations, asked.Annotations)
	without, due := samePods(next, why, stalled)
	change := update(other, otherPods)
	if due {
		change.Why = without.Why + "; " + otherPods
		change.Without = &without
	}
	g.Changes = append(g.Changes, change)
}

// samePods is the change of a set that makes the same pods, and whether there is one: stalled is why
// it is to look again, which alone is no more than an annotation.
func samePods(next *appsv1.StatefulSet, why []string, stalled string) (c Change, due bool) {
	if len(why) == 0 {
		return annotation(next, stalled), stalled != ""
	}
	if stalled != "" {
		why = append(why, stalled)
	}
	return update(next, strings.Join(why, "; ")), true
}

// released is a set that is deleted in the foreground, so that it doesn't wait for its pods, which go
// all the same; nil: there is none. A pod on a node that is off ends when that is back: until then no
// other set is made, and the members of all nodes that are left are away.
func (s Seen) released() *appsv1.StatefulSet {
	if s.Set == nil || s.Set.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(s.Set, metav1.FinalizerDeleteDependents) {
		return nil
	}
	next := s.Set.DeepCopy()
	controllerutil.RemoveFinalizer(next, metav1.FinalizerDeleteDependents)
	return next
}

// sized is the set with all that is asked for but other pods, and why it is to be so.
func (s Seen) sized(asked *appsv1.StatefulSet) (next *appsv1.StatefulSet, why []string) {
	next = s.Set.DeepCopy()
	next.Annotations = merged(s.Set.Annotations, nil)
	next.Spec.Replicas = ptr.To(s.replicas())
	slots := strconv.Itoa(int(*next.Spec.Replicas))
	if before := ptr.Deref(s.Set.Spec.Replicas, 0); before != *next.Spec.Replicas {
		why = append(why, fmt.Sprintf("%d slots become %s", before, slots))
	} else if s.Set.Annotations[kube.SlotsAnnotation] != slots {
		why = append(why, "it is to tell how many slots there are")
	}
	next.Annotations[kube.SlotsAnnotation] = slots
	if s.Identity != nil && !s.bootstrapped() {
		next.Annotations[kube.BootstrappedAnnotation] = s.Identity.Token
		why = append(why, "a ring was bootstrapped on its pods")
	}
	if s.Set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		next.Spec.UpdateStrategy = asked.Spec.UpdateStrategy
		why = append(why, "it would replace pods by itself")
	}
	if taken := takes(s.Ring, next); taken != "" {
		why = append(why, taken)
	}
	return next, why
}

// nudged changes the set so that its controller looks again, and returns why; "": it need not.
func (s Seen) nudged(next *appsv1.StatefulSet, now time.Time) (why string) {
	what := s.stalled(now)
	if what == "" {
		return ""
	}
	next.Annotations = merged(next.Annotations, map[string]string{kube.NudgedAnnotation: now.UTC().Format(time.RFC3339)})
	return "its controller has made no " + what + ", and looks again when it changes"
}

const nudgePace = 10 * time.Second // between two nudges of the StatefulSet's controller

// stalled is what a slot lacks, a claim or a pod, and whose it is; "": nothing. The StatefulSet's
// controller makes both when it looks, and no claim wakes it. If one of that name was still
// being deleted it pauses ever longer, up to 1000 s. So it does for a pod that an earlier
// StatefulSet has made, whose end is no news to the one that has its name now; and if the claim
// of a pod that no node takes is deleted, nothing happens to the pod that would have it look.
func (s Seen) stalled(now time.Time) (what string) {
	if age := now.Sub(s.Set.CreationTimestamp.Time); age >= 0 && age < nudgePace { // a clock that is behind the API server's would have it be young for hours
		return ""
	}
	last, err := time.Parse(time.RFC3339, s.Set.Annotations[kube.NudgedAnnotation])
	if since := now.Sub(last); err == nil && since >= 0 && since < nudgePace {
		return ""
	}
	for _, slot := range s.Slots[:min(len(s.Slots), int(ptr.Deref(s.Set.Spec.Replicas, 0)))] {
		switch {
		case slot.Claim == nil:
			return "claim for " + slot.Name
		case slot.Pod == nil && slot.Claim.DeletionTimestamp == nil:
			return "pod for " + slot.Name
		}
	}
	return ""
}

func merged(before, asked map[string]string) map[string]string {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, asked)
	return all
}

// keepBudget lets pods be evicted while a quorum of the voters is left, whatever size is
// asked for.
func (g *Ground) keepBudget(s Seen) {
	if s.Budget == nil {
		return
	}
	next := s.Budget.DeepCopy()
	why := joined(bounded(next, budget(s.Ring)), takes(s.Ring, next))
	if s.View != nil {
		least, counted := s.leastReady()
		if asked := ptr.To(intstr.FromInt(least)); !equality.Semantic.DeepEqual(next.Spec.MinAvailable, asked) {
			next.Spec.MinAvailable, why = asked, joined(why, counted)
		}
	}
	if why != "" {
		g.Changes = append(g.Changes, update(next, why))
		g.rebudgets = true
	}
}

// amend has objects say what they are to say; the set and the budget, in which numbers follow the
// ring, are kept by themselves.
func (g *Ground) amend(s Seen) {
	for _, k := range s.Kept {
		switch k.Is.(type) {
		case *appsv1.StatefulSet, *policyv1.PodDisruptionBudget:
			continue
		}
		if next, why := k.amended(s.Ring); why != "" {
			g.Changes = append(g.Changes, update(next, why))
		}
	}
}

// leastReady is how many of the ring's pods must be left ready, so that a quorum of the
// voters is, and why. Evictions are granted by pods, whatever their members are, and at any
// moment, also while this process is away: a ready pod without a voter stands for nobody, and
// the number must do before the ring's next change and after it. Of four voters whose pods
// are ready beside that of a fifth who has just left, three are to stay: a budget of three
// lets two go, and has had a ring without a quorum for as long as the drain of two nodes.
func (s Seen) leastReady() (least int, why string) {
	members := s.View.RingMembers()
	learners := slices.DeleteFunc(slices.Clone(members), func(m ring.Member) bool { return !m.Learner })
	voters := slices.DeleteFunc(members, func(m ring.Member) bool { return m.Learner })
	others := s.ready() - s.readyOf(voters)
	least, why = ring.Quorum(len(voters))+others, fmt.Sprintf("%d members vote", len(voters))
	if promoted := ring.Quorum(len(voters)+1) + others - s.readyOf(learners); len(learners) > 0 && promoted > least {
		least, why = promoted, why+", and a learner is to"
	}
	if removed := ring.Quorum(len(voters)-1) + others + 1; len(voters) > int(s.Ring.Spec.ClusterSize) && removed > least {
		least, why = removed, why+", and one is to leave"
	}
	if others > 0 {
		why += fmt.Sprintf("; pods that are ready beside theirs: %d", others)
	}
	return least, why
}

// ready counts the slots whose pods are, as a budget counts them: none that is ending.
func (s Seen) ready() (n int) {
	for _, slot := range s.Slots {
		if slot.ready() && !slot.ending() {
			n++
		}
	}
	return n
}

// readyOf counts the members whose pods are.
func (s Seen) readyOf(members []ring.Member) (n int) {
	on := s.slotsOf(members)
	for _, slot := range s.Slots {
		if on[slot.Ordinal] && slot.ready() && !slot.ending() {
			n++
		}
	}
	return n
}

// clear makes room on a slot that no member lives on. A claim whose volume is lost goes,
// then the pod, which the set makes both anew; a pod that no node takes has claimed
// nothing, and needs only another claim. A pod whose node is gone never ends by itself:
// whatever still runs there is refused by every peer, as its member is in no list.
func (g *Ground) clear(s Seen, slot Slot, what Fate, why string, patience time.Duration) {
	lost := what == Lost || what == Dark
	if lost && s.Identity == nil && !s.has(slot.Claim) {
		g.Waits = append(g.Waits, fmt.Sprintf("%s: %s, and somebody else has made the claim %s: delete it", slot.Name, why, slot.Claim.Name))
		return
	}
	if lost && slot.Claim.DeletionTimestamp == nil {
		g.Changes = append(g.Changes, deletion(slot.Claim, why))
	}
	if slot.Pod == nil {
		return
	}
	const stranding = "its node is gone, and no member of the ring runs in it"
	stranded := slot.Pod.Spec.NodeName != "" && s.gone(slot.Pod.Spec.NodeName, patience)
	switch {
	case stranded && (lost || slot.Pod.DeletionTimestamp != nil):
		force := deletion(slot.Pod, stranding)
		force.Force = true
		g.Changes = append(g.Changes, force)
	case stranded && slot.Ordinal < int(s.replicas()): // its volume holds, and it tolerates that nobody hears of its node: no other takes it on
		g.Changes = append(g.Changes, deletion(slot.Pod, stranding))
	case lost && slot.Pod.Spec.NodeName != "" && slot.Pod.DeletionTimestamp == nil:
		g.Changes = append(g.Changes, deletion(slot.Pod, why))
	}
}

// blocks reports whether the slot has a pod that an earlier set has made, and that ends when its node
// is back. The set that is there now would have a pod of that name, and as long as it can't its
// controller makes none of the others either: two of three members on nodes that run waited for the
// third. Its disk is on that node: no other pod has it, and who is there has the lock on it.
func (s Seen) blocks(slot Slot) bool {
	if !slot.ending() || s.Set == nil || s.Set.DeletionTimestamp != nil || metav1.IsControlledBy(slot.Pod, s.Set) {
		return false
	}
	on := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == slot.Pod.Spec.NodeName })
	if on < 0 {
		return false
	}
	_, off := unready(s.Nodes[on])
	return off && slot.Volume != nil && (slot.Volume.Spec.Local != nil || slot.Volume.Spec.HostPath != nil)
}

// gone reports whether a node is no more, or hasn't been ready for long.
func (s Seen) gone(node string, patience time.Duration) bool {
	there := slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == node })
	return !there || s.Quiet[node] > patience
}

// tell has ring.Next know of the slots what the ring's records can't say. That a node is dark
// says nothing of a member: a kubelet hangs for hours, what it started serves, and then nobody
// hears from that machine for ten seconds. So its member is to have been silent as long.
func (g Ground) tell(o ring.Observed) ring.Observed {
	o.Machines = slices.Clone(o.Machines)
	for i, machine := range o.Machines {
		o.Machines[i].Static, o.Machines[i].Ending = g.Static[machine.Name], g.Ending[machine.Name]
		_, lost := g.Lost[machine.Name]
		_, dark := g.Dark[machine.Name]
		is := slices.IndexFunc(o.Members, func(m ring.Member) bool { return m.Machine == machine.Name })
		silent := is < 0 || !o.Members[is].Serving && o.Members[is].Silent >= g.patience
		o.Machines[i].Lost = lost || dark && silent && !machine.Present
		if is >= 0 {
			// Its node has tried it, and its pod is made with it when its turn has come.
			o.Machines[i].Versions = append(slices.Clone(machine.Versions), g.course.version)
		}
	}
	return o
}

// destroys reports whether something of it can't be taken back, and what it rests on
// must be read anew.
func (g Ground) destroys() bool {
	return len(g.Lost)+len(g.Dark) > 0 || slices.ContainsFunc(g.Changes, func(c Change) bool { return c.Verb == Delete })
}
