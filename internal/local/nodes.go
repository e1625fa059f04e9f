// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/kubectl"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/observe"
	"github.com/ringproof/ringproof/internal/trial"
)

// Nodes is a lab whose machines are nodes of a Kubernetes cluster. What runs there the
// cluster keeps running, and it tells what that prints.
type Nodes interface {
	Lab
	Kubeconfig() string // the path of an administrator's
	Listen(tell func(machine, line string))
	Outage(away bool) (machines.Evidence, error)                                     // of the API server: it goes, or it comes back
	SignalPart(name string, sig syscall.Signal) (machines.Evidence, error)           // of the control plane
	SignalPod(namespace, name string, sig syscall.Signal) (machines.Evidence, error) // the first process of each container
	Admin() (kubectl.Client, error)                                                  // a client of an administrator's
}

// Kept is a host that is a node of a cluster, which keeps a member's pod on it. Its kubelet is
// a process like any other.
type Kept interface {
	LastMember() (kubectl.Member, error) // that is on the host, or was last
	Node() string                        // what the cluster calls the host
	Volume(path string) string           // where the run has what is at a path of a volume on the host
	SignalKubelet(syscall.Signal) (machines.Evidence, error)
}

// onNodes are the faults that nodes of a cluster can have.
var onNodes = slices.Concat([]ringproof.FaultKind{ringproof.FaultKill, ringproof.FaultPause, ringproof.FaultPartition, ringproof.FaultDiskFull, ringproof.FaultMachineLoss,
	ringproof.FaultVolumeLoss, ringproof.FaultClockSkew, ringproof.FaultSlowNetwork, ringproof.FaultPacketLoss, ringproof.FaultSlowDisk, ringproof.FaultAlarmRaised,
	ringproof.FaultForeignHand, ringproof.FaultKeysDamaged, ringproof.FaultAgentCrash, ringproof.FaultStaleView, ringproof.FaultSkippedView}, ofCluster)

// ofCluster are those that nothing but a cluster has.
var ofCluster = []ringproof.FaultKind{ringproof.FaultAPIOutage, ringproof.FaultKubeDelete, ringproof.FaultForeignFinalizer, ringproof.FaultDrain, ringproof.FaultKubeKill, ringproof.FaultKubePause, ringproof.FaultStatusEmptied, ringproof.FaultSetDeleted,
	ringproof.FaultSetScaled, ringproof.FaultObjectsDeleted, ringproof.FaultObjectsEmptied, ringproof.FaultRecordsDeleted, ringproof.FaultRingDeleted, ringproof.FaultUpgraded, ringproof.FaultAdmissionDenied}

// ofRing are those of what the ring's pods have in common.
var ofRing = []ringproof.FaultKind{ringproof.FaultSetDeleted, ringproof.FaultSetScaled, ringproof.FaultObjectsDeleted, ringproof.FaultObjectsEmptied}

// RunsOnNodes tells why a ring on Kubernetes can't be had with these limits (nil:
// namespaces), or not so as the plan has it, whoever makes it; nil: it can.
func RunsOnNodes(p ringproof.Plan, limits error) error {
	r := p.Ring
	switch {
	case limits != nil:
		return fmt.Errorf("pods: %w", limits)
	case r.Heartbeat+r.Election > 0 || r.SnapCount > 0 || len(r.Flags)+len(r.Members) > 0 || r.Domain != "":
		return fmt.Errorf("pods are given no heartbeat, election, snapCount, flags, members or domain (%w)", errors.ErrUnsupported)
	}
	for _, s := range p.Steps {
		if s.Fault == nil {
			continue
		}
		if err := HappensOnNodes(*s.Fault); err != nil {
			return err
		}
	}
	if p.End != nil && p.End.Fault != nil {
		return HappensOnNodes(*p.End.Fault)
	}
	return nil
}

// HappensOnNodes says why nodes of a cluster can't suffer the fault; nil: they can.
func HappensOnNodes(f ringproof.Fault) error {
	switch {
	case !slices.Contains(onNodes, f.Kind):
		return fmt.Errorf("%s: no fault of nodes and pods yet (%w)", f.Kind, errors.ErrUnsupported)
	case f.Kind == ringproof.FaultForeignHand && f.Adds() != "":
		return fmt.Errorf("a member that somebody else adds: no pod is at its address (%w)", errors.ErrUnsupported)
	case f.LeavesLog():
		return fmt.Errorf("volume-loss that leaves a %s: no fault of nodes and pods yet (%w)", f.Leave, errors.ErrUnsupported)
	case (f.Kind == ringproof.FaultKill && f.Scope == "agent" || f.Kind == ringproof.FaultAgentCrash && f.Phase != "unseen" && f.Phase != "late") && f.For > 0:
		return fmt.Errorf("%s of an agent for %v: a kubelet starts it again when it will (%w)", f.Kind, f.For, errors.ErrUnsupported)
	}
	return nil
}

// RunsOnMachines tells why the plan can't be had where machines are no nodes of a cluster;
// nil: it can.
func RunsOnMachines(p ringproof.Plan) error {
	if p.End != nil {
		return fmt.Errorf("end: only a ring on Kubernetes is deleted (%w)", errors.ErrUnsupported)
	}
	for _, s := range p.Steps {
		if s.Fault != nil && (slices.Contains(ofCluster, s.Fault.Kind) || s.Fault.Scope == scopeController) {
			return fmt.Errorf("%s: only a ring on Kubernetes can have it (%w)", s.Fault.Kind, errors.ErrUnsupported)
		}
		if s.Op != nil && s.Op.Kind == ringproof.OpEdit {
			return fmt.Errorf("%s: only a ring on Kubernetes has an object to edit (%w)", s.Op.Kind, errors.ErrUnsupported)
		}
	}
	return nil
}

// injectCluster does what only a cluster can suffer; ours: the fault is such a one.
func (w *World) injectCluster(ctx context.Context, s ringproof.Step, targets []string) (evidence string, ours bool, err error) {
	f := *s.Fault
	switch {
	case f.Kind == ringproof.FaultAPIOutage:
		evidence, err = w.outage(true)
	case f.Kind == ringproof.FaultStatusEmptied:
		evidence, err = w.emptyStatus(ctx)
	case f.Kind == ringproof.FaultRingDeleted:
		evidence, err = w.deleteRing(ctx, f.How)
	case f.Kind == ringproof.FaultRecordsDeleted:
		evidence, err = w.deleteRecords(ctx)
	case slices.Contains(ofRing, f.Kind):
		evidence, err = w.injectRing(ctx, f)
	case f.Kind == ringproof.FaultUpgraded:
		evidence, err = w.upgradeController(ctx)
	case f.Kind == ringproof.FaultAdmissionDenied:
		evidence, err = w.deny(ctx, s)
	case f.Kind == ringproof.FaultKubeKill:
		evidence, err = w.signalCluster(ctx, f.Scope, syscall.SIGKILL)
	case f.Kind == ringproof.FaultKubePause && f.Scope != ringproof.ScopeKubelet:
		evidence, err = w.signalCluster(ctx, f.Scope, machines.Stop)
	case slices.Contains(ofCluster, f.Kind):
		evidence, err = w.each(targets, func(n *node) (machines.Evidence, error) { return w.injectKept(ctx, n, s) })
	default:
		return "", false, nil
	}
	return evidence, true, err
}

// injectRing hits what all members' pods have in common, which is found by any pod that is there.
func (w *World) injectRing(ctx context.Context, f ringproof.Fault) (evidence string, err error) {
	admin, err := w.admin()
	if err != nil {
		return "", err
	}
	err = errors.New("no member has a pod")
	for _, n := range w.present() {
		kept, is := n.machine.(Kept)
		if !is || n.lost || w.etcd(n) == 0 {
			continue
		}
		var m kubectl.Member
		if m, err = kept.LastMember(); err == nil {
			var e machines.Evidence
			var beside []kubectl.Beside
			if e, beside, err = admin.InjectRing(ctx, m, f); len(beside) > 0 {
				w.mu.Lock()
				w.beside = append(w.beside, beside...)
				w.mu.Unlock()
			}
			return e.String(), err
		}
	}
	return "", err
}

// amiss names the objects beside the set that a fault hit and that, as far as the API server says, are
// not amended. Those that are it forgets.
func (w *World) amiss(ctx context.Context, within time.Duration) (names []string) {
	w.mu.Lock()
	hit := slices.Clone(w.beside)
	w.mu.Unlock()
	if len(hit) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	admin, err := w.admin()
	var amended []kubectl.Beside
	for _, b := range hit {
		ok := false
		if err == nil {
			ok, err = admin.Amended(ctx, b) // one that gives no answer would give none for the next
		}
		if ok {
			amended = append(amended, b)
			continue
		}
		names = append(names, b.String())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beside = slices.DeleteFunc(w.beside, func(b kubectl.Beside) bool { return slices.Contains(amended, b) })
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// deleteRing deletes what asks for the ring.
func (w *World) deleteRing(ctx context.Context, how string) (evidence string, err error) {
	subject, ok := w.Subject.(trial.Asked)
	if !ok {
		return "", errors.New("no object asks for the subject's ring")
	}
	object, err := subject.Withdraw(ctx, how)
	return object + " is deleted", err
}

// deleteRecords deletes what the subject keeps of its ring.
func (w *World) deleteRecords(ctx context.Context) (evidence string, err error) {
	subject, ok := w.Subject.(trial.Keeping)
	if !ok {
		return "", fmt.Errorf("what the subject keeps of its ring is not known (%w)", errors.ErrUnsupported)
	}
	gone, err := subject.Forget(ctx)
	return "deleted: " + strings.Join(gone, ", "), err
}

// Delete deletes the ring for good.
func (w *World) Delete(ctx context.Context) error {
	subject, ok := w.Subject.(trial.Deletable)
	if !ok {
		return fmt.Errorf("what a deleted ring of the subject's may leave is not known (%w)", errors.ErrUnsupported)
	}
	return subject.Delete(ctx)
}

// Left names what is there still of the ring.
func (w *World) Left(ctx context.Context) ([]string, error) {
	subject, ok := w.Subject.(trial.Deletable)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return subject.Left(ctx)
}

var _ ringproof.Deleter = (*World)(nil)

// upgradeController gives the subject's controller another image.
func (w *World) upgradeController(ctx context.Context) (evidence string, err error) {
	subject, ok := w.Subject.(trial.Controlled)
	if !ok {
		return "", errors.New("the subject has no controller")
	}
	admin, err := w.admin()
	if err != nil {
		return "", err
	}
	e, err := admin.Upgrade(ctx, subject.Deployment())
	return e.String(), err
}

// deny has a policy deny what the step says, but in the namespace of the subject's own controller.
func (w *World) deny(ctx context.Context, s ringproof.Step) (evidence string, err error) {
	admin, err := w.admin()
	if err != nil {
		return "", err
	}
	var but []string
	if subject, ok := w.Subject.(trial.Controlled); ok {
		but = append(but, subject.Deployment().Namespace)
	}
	e, err := admin.Deny(ctx, policyOf(s), *s.Fault, but...)
	return e.String(), err
}

// policyOf is the one by which a step denies.
func policyOf(s ringproof.Step) string { return s.Name + ".ringproof.dev" }

// A later controller is waited for only so long: what else is wrong may keep it from coming. It has
// taken its first turn some seconds after it acts.
const (
	handover  = time.Minute
	firstTurn = 5 * time.Second
)

// handedOver waits until the later controller acts.
func (w *World) handedOver(ctx context.Context, admin kubectl.Client) error {
	subject := w.Subject.(trial.Controlled) // it was upgraded
	waits, cancel := context.WithTimeout(ctx, handover)
	defer cancel()
	for waits.Err() == nil {
		if _, name, err := subject.Controller(waits); err == nil && admin.Upgraded(waits, subject.Deployment(), name) {
			kubectl.Wait(ctx, firstTurn)
			return nil
		}
		kubectl.Wait(waits, 500*time.Millisecond)
	}
	return ctx.Err()
}

// injectKept hits a member's pod, or its node.
func (w *World) injectKept(ctx context.Context, n *node, s ringproof.Step) (machines.Evidence, error) {
	kept, ok := n.machine.(Kept)
	if !ok {
		return machines.Evidence{}, fmt.Errorf("%s is no node of a cluster", n.name)
	}
	f := *s.Fault
	if f.Kind == ringproof.FaultKubePause {
		return kept.SignalKubelet(machines.Stop)
	}
	admin, err := w.admin()
	if err != nil {
		return machines.Evidence{}, err
	}
	if f.Kind == ringproof.FaultDrain {
		return admin.Drain(ctx, kept.Node())
	}
	m, err := kept.LastMember()
	switch {
	case err != nil:
		return machines.Evidence{}, err
	case f.Kind == ringproof.FaultForeignFinalizer:
		return admin.Hold(ctx, m, f.Object, finalizerOf(s))
	case f.Permanent():
		w.keepLog(n)
	}
	return admin.Delete(ctx, m, f.Object, f.How)
}

// finalizerOf is the one by which a step holds objects.
func finalizerOf(s ringproof.Step) string { return "ringproof.dev/" + s.Name }

// healCluster takes such a fault away; ours: it is one.
func (w *World) healCluster(ctx context.Context, s ringproof.Step, targets []string) (ours bool, err error) {
	f := *s.Fault
	switch {
	case f.Kind == ringproof.FaultAPIOutage:
		_, err = w.outage(false)
	case f.Kind == ringproof.FaultKubePause && f.Scope == ringproof.ScopeKubelet:
		err = w.eachKept(targets, func(k Kept) error { _, err := k.SignalKubelet(machines.Continue); return err })
	case f.Kind == ringproof.FaultKubePause:
		_, err = w.signalCluster(ctx, f.Scope, machines.Continue)
	case f.Kind == ringproof.FaultRingDeleted:
		err = w.Subject.(trial.Asked).Renew(ctx) // it was asked to withdraw
	case f.Kind == ringproof.FaultUpgraded:
		err = w.asAdmin(func(admin kubectl.Client) error { return w.handedOver(ctx, admin) })
	case f.Kind == ringproof.FaultDrain:
		err = w.asAdmin(func(admin kubectl.Client) error {
			return w.eachKept(targets, func(k Kept) error { return admin.Uncordon(ctx, k.Node()) })
		})
	case f.Kind == ringproof.FaultAdmissionDenied:
		err = w.asAdmin(func(admin kubectl.Client) error { return admin.Allow(ctx, policyOf(s)) })
	case f.Kind == ringproof.FaultForeignFinalizer:
		err = w.asAdmin(func(admin kubectl.Client) error { return admin.Release(ctx, finalizerOf(s)) })
	default:
		return slices.Contains(ofCluster, f.Kind), nil
	}
	return true, err
}

// eachKept does it to those of the targets that are not lost by now.
func (w *World) eachKept(targets []string, do func(Kept) error) error {
	_, err := w.each(targets, func(n *node) (machines.Evidence, error) {
		kept, ok := n.machine.(Kept)
		if !ok || n.lost || !n.machine.On() {
			return machines.Evidence{}, nil
		}
		return machines.Evidence{}, do(kept)
	})
	return err
}

var errNoCluster = errors.New("machines are no cluster")

func (w *World) cluster(do func(Nodes) error) error {
	nodes, ok := w.lab.(Nodes)
	if !ok {
		return errNoCluster
	}
	return do(nodes)
}

// admin is a client of the cluster's administrator.
func (w *World) admin() (admin kubectl.Client, err error) {
	err = w.cluster(func(c Nodes) error { admin, err = c.Admin(); return err })
	return admin, err
}

// asAdmin does what an administrator would.
func (w *World) asAdmin(do func(kubectl.Client) error) error {
	admin, err := w.admin()
	if err != nil {
		return err
	}
	return do(admin)
}

// objects looks for private keys in the cluster's objects; nil: there is no cluster.
func (w *World) objects(ctx context.Context) *ringproof.Objects {
	admin, err := w.admin()
	if errors.Is(err, errNoCluster) {
		return nil
	}
	if err != nil {
		return &ringproof.Objects{Err: err.Error()}
	}
	asking, cancel := context.WithTimeout(ctx, claimsWithin)
	defer cancel()
	o := admin.Shown(asking, observe.HasKey)
	return &o
}

// claimsWithin is how long the API server is asked for the claims, when all faults are over.
const claimsWithin = 10 * time.Second

// claims says what becomes of the data of each machine's member, where a claim holds it.
func (w *World) claims(ctx context.Context) (all []ringproof.Claim) {
	admin, err := w.admin()
	if errors.Is(err, errNoCluster) {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, claimsWithin)
	defer cancel()
	for _, n := range w.present() {
		kept, is := n.machine.(Kept)
		if !is || n.lost || !n.machine.On() || w.etcd(n) == 0 {
			continue
		}
		c := ringproof.Claim{Machine: n.name}
		m, unnamed := kept.LastMember()
		if err := cmp.Or(err, unnamed); err != nil {
			c.Err = err.Error()
		} else if c.Name, c.Ending, err = admin.Ending(asking, m); err != nil {
			c.Err = err.Error()
		}
		if c.Name+c.Err != "" {
			all = append(all, c)
		}
	}
	return all
}

// compareWithin is how long what the subject's objects say may take to be compared.
const compareWithin = 2 * time.Minute

// compare notes what of the ring's objects is otherwise than was asked for, where the subject can tell.
// Of a disaster nothing is asked but to stop and say so.
func (w *World) compare(ctx context.Context, e *ringproof.Evidence) {
	subject, ok := w.Subject.(trial.Comparing)
	if !ok || w.plan.Mode == ringproof.ModeDisaster {
		return
	}
	asking, cancel := context.WithTimeout(ctx, compareWithin)
	defer cancel()
	var err error
	if e.Unlike, err = subject.Unlike(asking); err != nil {
		e.Unknown = append(e.Unknown, fmt.Sprintf("whether the ring's objects are as was asked for: %v", err))
	}
}

// outage takes the cluster's API server away, or lets it come back.
func (w *World) outage(away bool) (evidence string, err error) {
	err = w.cluster(func(c Nodes) error {
		e, err := c.Outage(away)
		evidence = e.String()
		return err
	})
	return evidence, err
}

// signalCluster signals a part of the control plane, or the subject's controller: to be
// stopped or killed is he who acts, to go on is who was stopped.
func (w *World) signalCluster(ctx context.Context, what string, sig syscall.Signal) (evidence string, err error) {
	err = w.cluster(func(c Nodes) error {
		var e machines.Evidence
		switch {
		case what != scopeController:
			e, err = c.SignalPart(what, sig)
		case sig == machines.Continue:
			e, err = c.SignalPod(w.stopped.namespace, w.stopped.name, sig)
		default:
			e, err = w.signalController(ctx, c, sig)
		}
		evidence = e.String()
		return err
	})
	return evidence, err
}

const scopeController = ringproof.ScopeController

// pod is one, by name.
type pod struct{ namespace, name string }

func (w *World) signalController(ctx context.Context, c Nodes, sig syscall.Signal) (machines.Evidence, error) {
	subject, ok := w.Subject.(trial.Controlled)
	if !ok {
		return machines.Evidence{}, errors.New("the subject has no controller")
	}
	namespace, name, err := subject.Controller(ctx)
	if err != nil {
		return machines.Evidence{}, err
	}
	w.mu.Lock()
	w.stopped = pod{namespace, name}
	w.mu.Unlock()
	return c.SignalPod(namespace, name, sig)
}
