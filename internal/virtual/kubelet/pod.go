// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ringproof/ringproof/internal/lockstep"
	"github.com/ringproof/ringproof/internal/trial"
)

// pod is a pod from when it is heard of until it is gone.
type pod struct {
	k      *kubelet
	object *corev1.Pod // as it was first heard of: what of it can change is in marks, and in its containers
	dir    string
	ctx    context.Context // ends when the pod is to end
	cancel context.CancelFunc
	dirty  chan struct{} // its status may have changed

	beside    context.Context // ends when the main containers have ended for good: then sidecars are to
	endBeside context.CancelFunc

	mu      sync.Mutex
	grace   time.Duration // how long its containers have to end
	ends    time.Time     // since when they are to; zero: they aren't
	ended   bool          // nothing of it runs, or will
	late    *time.Timer   // fires when it has been active for as long as it may; nil: it may be for ever
	failed  bool          // it has been, and is Failed for that whatever its containers did
	marks   marks
	since   metav1.Time
	machine byte // 0: it has no address yet
	volume  string
	tokens  map[string][]byte // by where they are in a volume
	renew   time.Time         // when they are to be
	inits   []*container
	mains   []*container
}

// marks are what others write on a pod while it runs.
type marks struct{ labels, annotations map[string]string }

func newPod(k *kubelet, o *corev1.Pod) *pod {
	p := &pod{k: k, object: o, dir: filepath.Join(k.Dir, "pods", string(o.UID)), dirty: make(chan struct{}, 1), since: now(), marks: marks{o.Labels, o.Annotations}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.beside, p.endBeside = context.WithCancel(context.Background())
	for _, c := range o.Spec.InitContainers {
		p.inits = append(p.inits, newContainer(p, c, true))
	}
	for _, c := range o.Spec.Containers {
		p.mains = append(p.mains, newContainer(p, c, false))
	}
	p.recall(o.Status)
	return p
}

// recall goes on from what the API server knows of containers that ran here before: how
// often each was restarted, and how its last life ended.
func (p *pod) recall(s corev1.PodStatus) {
	for _, known := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		for _, c := range p.all() {
			if c.spec.Name == known.Name {
				c.recall(known)
			}
		}
	}
}

// recall has the container be one that has run before. What was running then is dead, and
// nobody knows how it died.
func (c *container) recall(known corev1.ContainerStatus) {
	if known.State.Waiting != nil && known.LastTerminationState.Terminated == nil {
		return // it has never run
	}
	c.before, c.restarts, c.state, c.last = known.RestartCount+1, known.RestartCount, known.State, known.LastTerminationState
	switch {
	case known.State.Running != nil:
		c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 255, Reason: "Unknown", Message: c.message(),
			ContainerID: known.ContainerID, StartedAt: known.State.Running.StartedAt, FinishedAt: now()}}
	case known.State.Waiting != nil:
		c.state, c.last = c.last, corev1.ContainerState{}
	}
}

// update takes over what of a pod can change. A main container whose image does is started
// again with the other one, by no back-off, as it is another.
func (p *pod) update(o *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks = marks{o.Labels, o.Annotations}
	p.limit(o)
	for i, c := range p.mains {
		if next := o.Spec.Containers[i].Image; next != c.spec.Image {
			c.spec.Image, c.wait = next, 0
			if c.state.Running != nil && p.ctx.Err() == nil {
				go c.stop(c.cmd, graceOf(o.Spec.TerminationGracePeriodSeconds))
			}
		}
	}
}

// limit has the pod end once it has been active for as long as its spec lets it.
func (p *pod) limit(o *corev1.Pod) {
	if o.Spec.ActiveDeadlineSeconds == nil || p.ended {
		return
	}
	if p.late != nil {
		p.late.Stop()
	}
	left := time.Until(p.since.Add(time.Duration(*o.Spec.ActiveDeadlineSeconds) * time.Second))
	p.late = time.AfterFunc(max(left, 0), func() { p.fail(graceOf(o.Spec.TerminationGracePeriodSeconds)) })
}

// fail has the pod end though nobody deletes it, as the kubelet does with one that it evicts:
// it isn't ready any more, is Failed once nothing of it runs, and stays until somebody takes it
// away (activeDeadlineHandler and SyncPod in k8s.io/kubernetes/pkg/kubelet).
func (p *pod) fail(grace time.Duration) {
	p.mu.Lock()
	if p.ctx.Err() == nil {
		p.failed = true
	}
	p.mu.Unlock()
	p.end(grace)
	p.touch()
}

// over reports whether all that the pod was to do is done, or can't be any more.
func (p *pod) over() bool {
	return slices.ContainsFunc(p.inits, (*container).failed) || each(p.mains, func(c *container) bool { return c.state.Terminated != nil && !c.again() })
}

func (p *pod) all() []*container { return slices.Concat(p.inits, p.mains) }

func (p *pod) String() string { return p.object.Namespace + "/" + p.object.Name }

// identity is how the kubelet names the pod in what it tells.
func (p *pod) identity() string {
	return fmt.Sprintf("%s_%s(%s)", p.object.Name, p.object.Namespace, p.object.UID)
}

// end has the pod end, its containers within this grace. What is said later changes
// nothing: one that is deleted by force while it ends runs on, though the API has no such pod
// any more. Of the real kubelet some do, as it comes: a program was seen to be killed in the
// shorter time, and to run on for two minutes.
func (p *pod) end(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		p.grace, p.ends = grace, time.Now()
		p.cancel()
	}
}

// graceLeft is how long a container has that is to end now.
func (p *pod) graceLeft() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends.IsZero() { // a sidecar of a pod that is done
		return graceOf(p.object.Spec.TerminationGracePeriodSeconds)
	}
	return max(0, p.grace-time.Since(p.ends))
}

// residents are the containers that run for as long as the pod does, sidecars first.
func (p *pod) residents() (all []*container) {
	for _, c := range p.inits {
		if c.sidecar() {
			all = append(all, c)
		}
	}
	return append(all, p.mains...)
}

// unmounts is about how long a pod that has ended is there yet: its volumes are unmounted, and
// a loop of the kubelet's finds that they are.
const unmounts = time.Second

// live is the pod's life. That it has ended is told before it is deleted: who watches pods
// sees each of them Failed, or Succeeded (the kubelet's status manager deletes no other).
func (p *pod) live() {
	posting, posted := context.WithCancel(context.Background())
	var told sync.WaitGroup
	told.Go(func() { p.tell(posting) })
	p.run()
	<-p.ctx.Done()
	for _, c := range p.residents() {
		<-c.over
	}
	posted()
	told.Wait()
	p.finish()
	p.k.until(context.Background(), "telling the end of pod "+p.String(), p.post)
	pause(context.Background(), unmounts)
	p.k.until(context.Background(), "clearing pod "+p.String(), func(context.Context) error { return p.clear() })
	p.k.release(p)
	p.k.until(context.Background(), "deleting pod "+p.String(), p.delete)
}

// finish has nothing of the pod run any more. Of a container that didn't when it was to end
// nobody knows how it did (TerminatePod in k8s.io/kubernetes/pkg/kubelet/status).
func (p *pod) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for _, c := range p.mains {
		if each(p.inits, (*container).done) && c.state.Terminated == nil {
			c.become(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown",
				Message: "The container could not be located when the pod was terminated"}})
		}
	}
}

// run sets the pod up and starts its containers. Where it is told to end meanwhile it has
// nothing that runs.
func (p *pod) run() {
	keeps := map[*container]bool{}
	defer func() {
		for _, c := range p.residents() {
			if !keeps[c] {
				close(c.over)
			}
		}
		go p.dismiss()
	}()
	p.touch()
	if p.over() {
		return
	}
	p.retry("setting up pod "+p.String(), p.setUp)
	go p.refresh()
	for _, c := range p.inits {
		if !c.sidecar() && !c.once() {
			return
		}
		if c.sidecar() {
			keeps[c] = true
			go c.keep()
			if !c.begun() {
				return
			}
		}
	}
	if p.ctx.Err() != nil {
		return
	}
	for _, c := range p.mains {
		keeps[c] = true
		go c.keep()
	}
}

// dismiss ends the sidecars once the main containers have ended for good.
func (p *pod) dismiss() {
	for _, c := range p.mains {
		<-c.over
	}
	p.endBeside()
}

// retry tries again and again, first after half a second and at last every two minutes,
// as the kubelet does with volumes.
func (p *pod) retry(what string, try func(context.Context) error) {
	for wait := 500 * time.Millisecond; p.ctx.Err() == nil; wait = min(2*wait, 2*time.Minute) {
		err := try(p.ctx)
		if err == nil {
			return
		}
		p.k.complain(what, err)
		pause(p.ctx, wait)
	}
}

// setUp mounts the pod's volumes and gives it an address.
func (p *pod) setUp(ctx context.Context) error {
	for _, v := range p.object.Spec.Volumes {
		if err := p.provide(ctx, v); err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	machine, err := p.k.take()
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.machine = machine
	p.mu.Unlock()
	if p.volume != "" {
		if err := link(p.dir, filepath.Join(p.k.Dir, trial.MemberDir)); err != nil {
			return err
		}
	}
	p.touch()
	return nil
}

// link has a symbolic link point there, whatever it pointed to before.
func link(to, name string) error {
	_ = os.Remove(name + ".new")
	if err := os.Symlink(to, name+".new"); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// clear takes away what the pod had on the node, but not its claims.
func (p *pod) clear() error {
	if p.machine != 0 {
		if err := p.k.killAll(p.machine); err != nil {
			return err
		}
	}
	if err := unmountBelow(p.dir); err != nil {
		return err
	}
	return os.RemoveAll(p.dir)
}

// delete tells the API server that nothing of the pod is left. One that nobody wants gone
// stays, though it has failed.
func (p *pod) delete(ctx context.Context) error {
	pods, uid := p.k.api.CoreV1().Pods(p.object.Namespace), p.object.UID
	if p.failed {
		known, err := pods.Get(ctx, p.object.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && (known.UID != uid || known.DeletionTimestamp == nil) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	err := pods.Delete(ctx, p.object.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// touch says that the pod's status may be another.
func (p *pod) touch() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
	p.k.note()
}

// tell keeps the API server's status of the pod true, until ctx ends.
func (p *pod) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.dirty:
		}
		p.k.until(ctx, "telling of pod "+p.String(), p.post)
	}
}

// errAnother says that the name is another pod's by now.
var errAnother = errors.New("another pod has the name")

// post tells the status once.
func (p *pod) post(ctx context.Context) error {
	pods := p.k.api.CoreV1().Pods(p.object.Namespace)
	known, err := pods.Get(ctx, p.object.Name, metav1.GetOptions{})
	if err == nil && known.UID != p.object.UID {
		err = errAnother
	}
	if apierrors.IsNotFound(err) || errors.Is(err, errAnother) {
		return nil
	}
	if err != nil {
		return err
	}
	next := p.status(known.Status)
	if equality.Semantic.DeepEqual(next, known.Status) {
		return nil
	}
	known.Status = next
	_, err = pods.UpdateStatus(ctx, known, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// now is the time as the API server keeps it, by the second: what is told a second time is
// what it has.
func now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

// status is the pod's, given what the API server has.
func (p *pod) status(before corev1.PodStatus) corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := *before.DeepCopy()
	s.StartTime = &p.since
	s.HostIP = lockstep.Address(p.k.Machine).String()
	s.HostIPs = []corev1.HostIP{{IP: s.HostIP}}
	if p.machine != 0 {
		s.PodIP = lockstep.Address(p.machine).String()
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
	initialized, ready := each(p.inits, (*container).done), !p.failed && each(p.residents(), func(c *container) bool { return c.ready })
	s.Phase = corev1.PodPending
	if initialized && !slices.ContainsFunc(p.mains, func(c *container) bool { return c.state.Waiting != nil && c.last.Terminated == nil }) {
		s.Phase = corev1.PodRunning
	}
	over := p.over() || p.ended
	if over {
		s.Phase = corev1.PodFailed
		if initialized && each(p.mains, func(c *container) bool { return c.state.Terminated != nil && c.state.Terminated.ExitCode == 0 }) {
			s.Phase = corev1.PodSucceeded
		}
	}
	if over && p.failed {
		s.Phase, s.Reason, s.Message = corev1.PodFailed, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
	}
	s.InitContainerStatuses, s.ContainerStatuses = statuses(p.inits), statuses(p.mains)
	s.Conditions = podConditions(before.Conditions, map[corev1.PodConditionType]bool{corev1.PodReadyToStartContainers: p.machine != 0 && !over, corev1.PodInitialized: initialized,
		corev1.ContainersReady: ready && initialized, corev1.PodReady: ready && initialized && p.gated(before.Conditions), corev1.PodScheduled: true})
	return s
}

// gated reports whether all that others have a say in says that the pod is ready.
func (p *pod) gated(conditions []corev1.PodCondition) bool {
	return each(p.object.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		return slices.ContainsFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == g.ConditionType && c.Status == corev1.ConditionTrue })
	})
}

// done reports whether an init container has done what the next ones wait for.
func (c *container) done() bool {
	if c.sidecar() {
		return c.started || c.state.Terminated != nil
	}
	return c.state.Terminated != nil && c.state.Terminated.ExitCode == 0
}

// each reports whether all of them are so.
func each[T any](all []T, is func(T) bool) bool {
	return !slices.ContainsFunc(all, func(c T) bool { return !is(c) })
}

// podConditions keeps the times of those that are as before.
func podConditions(before []corev1.PodCondition, are map[corev1.PodConditionType]bool) (all []corev1.PodCondition) {
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: now()}
		if are[kind] {
			c.Status = corev1.ConditionTrue
		}
		for _, b := range before {
			if b.Type == kind && b.Status == c.Status {
				c = b
			}
		}
		all = append(all, c)
	}
	return append(all, slices.DeleteFunc(slices.Clone(before), func(b corev1.PodCondition) bool { _, own := are[b.Type]; return own })...)
}

// data is the directory of the pod's claim, or the part of it that a container has; "": there
// is no claim, or it isn't known yet which part.
func (p *pod) data() string {
	for _, c := range p.mains {
		claims := c.claims()
		switch {
		case len(claims) == 0:
			continue
		case p.volume == "" || claims[0].SubPathExpr != "" && c.env.names == nil:
			return ""
		}
		return filepath.Join(p.volume, c.env.below(claims[0]))
	}
	return p.volume
}

// running is what of the pod a fault could hit; ok: there is something.
func (p *pod) running() (r Running, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machine == 0 {
		return r, false
	}
	r = Running{Namespace: p.object.Namespace, Name: p.object.Name, Labels: p.marks.labels, Machine: p.machine, Dir: p.dir, Volume: p.data(), Mains: map[string]int{}}
	if s := p.object.Spec; s.Hostname != "" && s.Subdomain != "" {
		r.Host = fmt.Sprintf("%s.%s.%s.svc", s.Hostname, s.Subdomain, p.object.Namespace)
	}
	for _, c := range p.residents() {
		r.Mounts = append(r.Mounts, c.claimed()...)
		if c.cmd != nil && c.state.Running != nil {
			r.Mains[c.spec.Name] = c.cmd.Process.Pid
		}
	}
	return r, true
}
