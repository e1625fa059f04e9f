// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package kubelet

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilwait "k8s.io/apimachinery/pkg/util/wait"

	"github.com/ringproof/ringproof/internal/lockstep"
)

// The kubelet's own times.
const (
	relist    = time.Second      // how often it looks which containers have ended
	backOff   = 10 * time.Second // before the second restart; before each after it twice as long
	mostBack  = 5 * time.Minute
	synced    = time.Minute      // how often it looks at a pod to which nothing happens
	jitter    = 0.5              // by how much of itself each wait for such a look is longer, at most
	healthy   = 10 * time.Minute // a container that ran so long is restarted at once again
	resync    = 10 * time.Second // until it looks again for what a container lacks to be made
	mostWords = 4096             // bytes of a termination message

	starts     = 100 * time.Millisecond // that the runtime takes to start a container, at least
	mostStarts = 3.0                    // by how many times that longer, at most
	remounts   = 100 * time.Millisecond // until mounted volumes are looked at, at least: two loops of that
)

// container is one of a pod's, over all its lives. What is below over is guarded by the
// pod's mutex.
type container struct {
	pod  *pod
	spec corev1.Container
	init bool
	ctx  context.Context // ends when it is to end
	over chan struct{}   // closed when one that resides in its pod has ended for good

	state, last corev1.ContainerState
	restarts    int32
	before      int32 // lives that it had when this kubelet first saw it
	lives       int
	wait        time.Duration // before its next life
	started     bool
	ready       bool
	spoilt      error // what the hook after its start said in this life
	cmd         *exec.Cmd
	root        string
	env         variables // of this life
	words       *words    // that were printed in it last
}

func newContainer(p *pod, spec corev1.Container, init bool) *container {
	why := "ContainerCreating"
	if len(p.object.Spec.InitContainers) > 0 {
		why = "PodInitializing"
	}
	c := &container{pod: p, spec: spec, init: init, ctx: p.ctx, over: make(chan struct{}), state: waiting(why, "")}
	if c.sidecar() {
		c.ctx = p.beside
	}
	return c
}

// sidecar reports whether it is an init container that runs for as long as the main ones.
func (c *container) sidecar() bool {
	return c.init && c.spec.RestartPolicy != nil && *c.spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// begun waits until a sidecar has started, and reports whether it has.
func (c *container) begun() bool {
	for {
		c.pod.mu.Lock()
		started := c.started
		c.pod.mu.Unlock()
		if started || c.pod.ctx.Err() != nil {
			return started
		}
		pause(c.pod.ctx, relist/10)
	}
}

func waiting(why, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: why, Message: message}}
}

// change changes what is told of the container.
func (c *container) change(how func()) {
	c.pod.mu.Lock()
	how()
	c.pod.mu.Unlock()
	c.pod.touch()
}

// become is a change of state: how a life ended is told until the next one has ended.
func (c *container) become(next corev1.ContainerState) {
	if c.state.Terminated != nil {
		c.last = c.state
	}
	c.state = next
}

// once runs an init container until it succeeds, and reports whether it did.
func (c *container) once() bool {
	for c.await() {
		end := c.life()
		if end.ExitCode == 0 {
			c.change(func() { c.ready = true })
			return true
		}
		if c.ctx.Err() != nil || c.failed() {
			return false
		}
		relisted(c.ctx)
	}
	return false
}

// failed reports whether an init container has ended badly, and is not to be tried again.
func (c *container) failed() bool {
	return !c.sidecar() && c.state.Terminated != nil && c.state.Terminated.ExitCode != 0 && c.pod.object.Spec.RestartPolicy == corev1.RestartPolicyNever
}

// keep runs a main container again and again, until the pod ends or its policy says so.
func (c *container) keep() {
	defer close(c.over)
	for c.await() {
		began := time.Now()
		c.life()
		if time.Since(began) >= healthy {
			c.wait = 0
		}
		if c.ctx.Err() != nil || !c.again() {
			return
		}
		relisted(c.ctx)
	}
}

// again reports whether the pod's policy has the container run once more.
func (c *container) again() bool {
	if c.sidecar() {
		return true
	}
	switch c.pod.object.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return c.state.Terminated == nil || c.state.Terminated.ExitCode != 0
	}
	return true
}

// pulled waits until the container's image is there, and reports whether it is: the
// kubelet tries again and again, ever later.
func (c *container) pulled() bool {
	for wait := backOff; c.ctx.Err() == nil; wait = longer(wait) {
		_, err := c.image()
		if err == nil {
			return true
		}
		held := waiting("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %v", c.called(), err))
		c.change(func() { c.become(waiting("ErrImagePull", err.Error())) })
		pause(c.ctx, relist)
		c.change(func() { c.become(held) })
		pause(c.ctx, wait)
	}
	return false
}

// relisted returns when the kubelet has next looked which containers have ended.
func relisted(ctx context.Context) { pause(ctx, relist-time.Duration(time.Now().UnixNano())%relist) }

// longer is what is waited before the restart after one that was waited for so long.
func longer(wait time.Duration) time.Duration {
	return min(max(2*wait, backOff), mostBack)
}

// await waits before the next life, but for the first and the second, which begin at once,
// and reports whether there is to be one. The kubelet tells that a container is held back
// when it next looks at the pod: that is when it is over, or a minute later.
func (c *container) await() bool {
	wait := c.wait
	if c.lives > 0 {
		c.wait = longer(wait)
	}
	for end := time.Now().Add(wait); time.Now().Before(end) && c.ctx.Err() == nil; {
		pause(c.ctx, utilwait.Jitter(min(time.Until(end), synced), jitter))
		c.change(func() {
			c.become(waiting("CrashLoopBackOff", fmt.Sprintf("back-off %v restarting failed container=%s pod=%s", wait, c.spec.Name, c.pod.identity())))
		})
	}
	c.lives++
	return c.pulled() && c.configured()
}

// life is one life of the container, and how it ended.
func (c *container) life() corev1.ContainerStateTerminated {
	began := now()
	c.words, c.spoilt = &words{over: make(chan struct{})}, nil
	err := c.start()
	if err == nil {
		living, dead := context.WithCancel(context.Background())
		go c.probes(living)
		err = c.attend()
		dead()
	}
	end := corev1.ContainerStateTerminated{StartedAt: began, FinishedAt: now(), ContainerID: c.id(), Message: c.lastWords()}
	end.ExitCode, end.Signal, end.Reason = ended(err)
	if end.Message == "" && end.ExitCode != 0 && c.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		end.Message = c.words.last()
	}
	if end.Reason == startError && end.Message == "" {
		end.Message = err.Error()
	}
	c.change(func() {
		c.become(corev1.ContainerState{Terminated: &end})
		c.restarts, c.started, c.ready = c.before+int32(c.lives)-1, false, false
		if c.spoilt != nil && c.again() {
			c.become(waiting("PostStartHookError", c.spoilt.Error()))
		}
	})
	return end
}

const startError = "StartError"

// ended is how a program's end is told: its exit code, or 128 and the signal.
func ended(err error) (code, signal int32, reason string) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, 0, "Completed"
	case !errors.As(err, &exit):
		return 128, 0, startError
	}
	status := exit.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int32(status.Signal()), int32(status.Signal()), "Error"
	}
	return int32(status.ExitStatus()), 0, "Error"
}

func (c *container) id() string {
	return fmt.Sprintf("model://%s-%s-%d", c.pod.object.UID, c.spec.Name, c.lives)
}

// start starts the container's program. One that starts again finds mounted what was
// mounted, also while the API server is away: that it be looked at again is asked for as the
// program is started, and which of the two is first is as it comes (WaitForAttachAndMount in
// k8s.io/kubernetes/pkg/kubelet/volumemanager).
func (c *container) start() error {
	if c.lives > 1 {
		go c.pod.remount()
	}
	pause(c.ctx, utilwait.Jitter(starts, mostStarts))
	root, err := c.assemble()
	if err != nil {
		return err
	}
	words := c.command()
	if len(words) == 0 {
		return fmt.Errorf("the image %s has no entrypoint, and the container no command", c.called())
	}
	cmd := c.program(root, words)
	// A pipe of its own: cmd's would be closed by whoever waits for the program, and what it
	// said last be lost or not, as it comes.
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	in.Close()
	if err != nil {
		out.Close()
		return err
	}
	go c.read(out, c.words)
	c.change(func() { c.root, c.cmd = root, cmd })
	// The kubelet waits for it, also where the pod is to end meanwhile.
	if c.spoilt = c.hook(context.Background(), c.lifecycle().PostStart); c.spoilt != nil {
		go c.stop(cmd, graceOf(c.pod.object.Spec.TerminationGracePeriodSeconds))
		return nil
	}
	c.change(func() { // and not before: who is asked for the pod's status waits for the hook
		c.become(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now()}})
		c.restarts = c.before + int32(c.lives) - 1
		c.started = c.spec.StartupProbe == nil
		c.ready = c.started && c.spec.ReadinessProbe == nil && (!c.init || c.sidecar())
	})
	return nil
}

// program is one that is to run in the container.
func (c *container) program(root string, words []string) *exec.Cmd {
	env := append(c.environment(), lockstep.MachineEnv+"="+strconv.Itoa(int(c.pod.machine)), lockstep.RootEnv+"="+root)
	return &exec.Cmd{Path: words[0], Args: words, Dir: "/", Env: env}
}

// outputDir is where in a pod's directory what its containers printed is found, by their
// names.
const outputDir = "output"

// read prints what the container prints, and keeps it.
func (c *container) read(from io.ReadCloser, printed *words) {
	defer from.Close()
	defer close(printed.over)
	name := filepath.Join(c.pod.k.Dir, "logs", c.pod.object.Namespace+"_"+c.pod.object.Name+"_"+c.spec.Name+".log")
	_ = os.MkdirAll(filepath.Dir(name), 0o755)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.pod.k.complain("keeping a log", err)
		return
	}
	defer file.Close()
	_ = os.MkdirAll(filepath.Join(c.pod.dir, outputDir), 0o755)
	if err := link(name, filepath.Join(c.pod.dir, outputDir, c.spec.Name)); err != nil {
		c.pod.k.complain("linking a log", err)
	}
	lines := bufio.NewReader(from)
	for {
		text, err := lines.ReadString('\n')
		if text != "" {
			_, _ = file.WriteString(text)
			printed.add(text)
			c.pod.k.print(Line{Namespace: c.pod.object.Namespace, Pod: c.pod.object.Name, Container: c.spec.Name, Text: strings.TrimSuffix(text, "\n")})
		}
		if err != nil {
			return
		}
	}
}

// words are what was printed last in a life of a container.
type words struct {
	over chan struct{} // closed when nothing more comes

	mu    sync.Mutex
	lines []string
}

// What a log is cut to that stands for a termination message.
const (
	mostLines = 80
	mostOfLog = 2048
)

func (w *words) add(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines[max(0, len(w.lines)-mostLines+1):], line)
}

// last is the end of the log, once it is read.
func (w *words) last() string {
	select {
	case <-w.over:
	case <-time.After(lull):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.lines, "")
	return text[max(0, len(text)-mostOfLog):]
}

// lull is how long the end of a log is waited for: a descendant may hold it open.
const lull = 200 * time.Millisecond

// attend waits until the program ends, of itself or because its pod does, and ends with it
// what it has started: that shares its fate, as those do whose first process has died.
func (c *container) attend() error {
	cmd := c.cmd
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	defer c.bury()
	select {
	case err := <-done:
		return err
	case <-c.ctx.Done():
	}
	go c.stop(cmd, c.pod.graceLeft())
	return <-done
}

// stop has the hook run that comes before a program's end, asks the program to end, and
// kills it if it doesn't within the grace: whatever that is, a little is left
// (killContainer in k8s.io/kubernetes/pkg/kubelet/kuberuntime).
func (c *container) stop(cmd *exec.Cmd, grace time.Duration) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	_ = c.hook(ctx, c.lifecycle().PreStop) // the program is asked to end all the same
	cancel()
	grace = max(grace-time.Since(began), leastGrace)
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may just end
	time.AfterFunc(grace, func() { _ = cmd.Process.Kill() })
}

// leastGrace is what every program has, also one whose pod is deleted by force.
const leastGrace = 2 * time.Second

func (c *container) lifecycle() corev1.Lifecycle {
	if c.spec.Lifecycle == nil {
		return corev1.Lifecycle{}
	}
	return *c.spec.Lifecycle
}

// hook has a hook run, until ctx ends at most; nil: there is none, or it went well.
func (c *container) hook(ctx context.Context, h *corev1.LifecycleHandler) error {
	switch {
	case h == nil:
		return nil
	case h.Sleep != nil:
		pause(ctx, time.Duration(h.Sleep.Seconds)*time.Second)
		return ctx.Err()
	}
	return c.handle(ctx, corev1.ProbeHandler{Exec: h.Exec, HTTPGet: h.HTTPGet})
}

// bury ends what the container's first process left: they shared a table of processes, which
// ends with its first.
func (c *container) bury() {
	if err := c.pod.k.killThose(c.pod.machine, c.root); err != nil {
		c.pod.k.complain("ending what a container left", err)
	}
}

// lastWords is the container's termination message.
func (c *container) lastWords() string {
	if c.root == "" {
		return ""
	}
	return c.message()
}

// message is what the container's file has.
func (c *container) message() string {
	text, err := os.ReadFile(c.within(c.messagePath()))
	if err != nil {
		return ""
	}
	return string(text[max(0, len(text)-mostWords):])
}

func (c *container) messagePath() string {
	return cmp.Or(c.spec.TerminationMessagePath, corev1.TerminationMessagePathDefault)
}

// within is a path of the container's as the node sees it.
func (c *container) within(path string) string { return filepath.Join(c.rootDir(), path) }

func statuses(all []*container) (told []corev1.ContainerStatus) {
	for _, c := range all {
		s := corev1.ContainerStatus{Name: c.spec.Name, Image: c.spec.Image, ImageID: c.spec.Image, RestartCount: c.restarts, Ready: c.ready, State: *c.state.DeepCopy(), LastTerminationState: *c.last.DeepCopy()}
		started := c.started && c.state.Running != nil
		s.Started = &started
		if c.lives > 0 && c.state.Waiting == nil {
			s.ContainerID = c.id()
		}
		told = append(told, s)
	}
	return told
}
