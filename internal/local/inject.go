// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/trial"
)

// Do carries out an operation or applies a fault.
func (w *World) Do(ctx context.Context, s ringproof.Step, targets []string) (string, error) {
	if s.Op != nil {
		return w.operate(ctx, *s.Op, targets)
	}
	w.mu.Lock()
	w.steps[s.Name] = s.Fault.Kind
	w.mu.Unlock()
	if evidence, seam, err := w.seam(s, targets); seam {
		return evidence, err
	}
	if evidence, ours, err := w.injectCluster(ctx, s, targets); ours {
		return evidence, err
	}
	switch s.Fault.Kind {
	case ringproof.FaultPartition:
		return w.partition(*s.Fault, targets)
	case ringproof.FaultDiskSwap:
		return w.rotate(ctx, s.Name, targets)
	case ringproof.FaultTimePasses:
		return w.letPass(ctx, s)
	case ringproof.FaultReplyLoss:
		return w.loseReplies(s.Name, s.Fault.Percent, targets)
	case ringproof.FaultKeysDamaged:
		return client.DamageBy(ctx, w.asking(), s.Fault.Leave)
	case ringproof.FaultStoreLost:
		keeper, keeps := w.Subject.(trial.Keeper)
		if !keeps {
			return "", fmt.Errorf("the subject keeps no store (%w)", errors.ErrUnsupported)
		}
		return keeper.LoseStore(ctx, s)
	case ringproof.FaultForeignHand:
		return client.HandBy(ctx, w.asking(), s.Fault.Adds(), w.address(w.node(targets[0])), w.Sleep)
	case ringproof.FaultAlarmRaised:
		return w.alarms.Raise(ctx, s.Name, w.asking(), s.Fault.Alarm, w.address(w.node(targets[0])), w.Sleep)
	}
	if s.Fault.Kind == ringproof.FaultVolumeLoss && s.Fault.Leave == ringproof.LeaveCopy {
		return w.putBackCopies(ctx, s, targets)
	}
	return w.each(targets, func(n *node) (machines.Evidence, error) { return w.inject(ctx, n, s) })
}

// each does the same to every target at once, as a power cut does.
func (w *World) each(targets []string, do func(*node) (machines.Evidence, error)) (string, error) {
	evidence := make([]string, len(targets))
	failures := make([]error, len(targets))
	var all sync.WaitGroup
	for i, name := range targets {
		all.Go(func() {
			n := w.node(name)
			if n == nil {
				failures[i] = fmt.Errorf("there is no machine %s", name)
				return
			}
			e, err := do(n)
			if failures[i] = err; err == nil {
				evidence[i] = e.String()
			}
		})
	}
	all.Wait()
	evidence = slices.DeleteFunc(evidence, func(of string) bool { return of == "" })
	return strings.Join(evidence, "; "), ringproof.Partial(targets, failures)
}

// inject does to one machine what the fault says.
func (w *World) inject(ctx context.Context, n *node, step ringproof.Step) (machines.Evidence, error) {
	switch f := step.Fault; f.Kind {
	case ringproof.FaultKill:
		return w.kill(n, step)
	case ringproof.FaultPause:
		return w.pause(n, f.Scope)
	case ringproof.FaultSleep:
		return w.suspend(n)
	case ringproof.FaultMachineLoss:
		w.keepLog(n)
		w.mark(n, func() { n.lost = true })
		return n.machine.Destroy()
	case ringproof.FaultVolumeLoss:
		if f.LeavesLog() {
			return w.spoilVolume(ctx, n, *f)
		}
		return w.loseVolume(ctx, n, *f)
	case ringproof.FaultDiskFull:
		return n.machine.FillVolume()
	case ringproof.FaultWrongRing:
		return w.replaceByStranger(ctx, n, step.Name)
	case ringproof.FaultDuplicate:
		return w.duplicate(ctx, n, step.Name)
	case ringproof.FaultDryRun:
		return w.runDry(n, step.Name)
	case ringproof.FaultStartFailure:
		return w.failStarts(n, step)
	case ringproof.FaultVolumeUnmounted:
		return w.unmount(ctx, n)
	case ringproof.FaultVolumeCopy:
		return w.copyData(ctx, n, f.From)
	case ringproof.FaultNameStale:
		return w.staleName(ctx, n, step)
	case ringproof.FaultClockSkew, ringproof.FaultSlowNetwork, ringproof.FaultSlowDisk:
		return bend(n, *f, f.By.Std())
	case ringproof.FaultPacketLoss:
		return w.losePackets(n, step.Name, f.Percent)
	}
	return machines.Evidence{}, fmt.Errorf("%s is no fault of this world", step.Fault.Kind)
}

// bend bends the machine's clock, disk or network by so much.
func bend(n *node, f ringproof.Fault, by time.Duration) (machines.Evidence, error) {
	b, ok := n.machine.(bent)
	switch {
	case !ok:
		return machines.Evidence{}, fmt.Errorf("%s is no fault of real time", f.Kind)
	case f.Kind == ringproof.FaultClockSkew:
		return b.Skew(by)
	case f.Kind == ringproof.FaultSlowDisk:
		return b.SlowDisk(by)
	}
	return b.Slow(by)
}

func (w *World) mark(n *node, change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *World) kill(n *node, s ringproof.Step) (machines.Evidence, error) {
	switch s.Fault.Scope {
	case "machine":
		return n.machine.PowerOff()
	case "agent":
		if s.Fault.For > 0 {
			w.hold(n, s.Name)
		}
		return w.signalAgent(n, syscall.SIGKILL)
	}
	return w.signalEtcd(n, syscall.SIGKILL)
}

// hold keeps the agent from being started again until the step is healed, as an
// init system does that was told to, or that has given up.
func (w *World) hold(n *node, step string) {
	w.mark(n, func() {
		if n.held == nil {
			n.held = map[string]bool{}
		}
		n.held[step] = true
	})
}

func (w *World) pause(n *node, scope string) (machines.Evidence, error) {
	if scope == "agent" {
		return w.signalAgent(n, machines.Stop)
	}
	stop := func() (machines.Evidence, error) { return w.signalEtcd(n, machines.Stop) }
	if scope == "machine" {
		stop = n.machine.Freeze
	}
	return w.quieten(n, stop)
}

// suspend stops all that runs on the machine, and the clock that its timers go by.
func (w *World) suspend(n *node) (machines.Evidence, error) {
	b, ok := n.machine.(bent)
	if !ok {
		return machines.Evidence{}, fmt.Errorf("%s is no fault of real time", ringproof.FaultSleep)
	}
	if !n.machine.On() {
		return machines.Evidence{}, fmt.Errorf("%s is off", n.name)
	}
	return w.quieten(n, b.Suspend)
}

// loseReplies has replies of etcds lost that come from or to machines, those present where none is named; 0
// percent of a step end it.
func (w *World) loseReplies(step string, percent int, targets []string) (string, error) {
	if len(targets) == 0 {
		for _, n := range w.present() {
			targets = append(targets, n.name)
		}
	}
	return w.each(targets, func(n *node) (machines.Evidence, error) {
		b, ok := n.machine.(bent)
		if !ok {
			return machines.Evidence{}, fmt.Errorf("%s is no fault of real time", ringproof.FaultReplyLoss)
		}
		return b.Mute(w.worst(n.mute, step, percent), uint16(w.Subject.Etcd().Client))
	})
}

// losePackets has packets lost between the machine and others; 0 percent of a step end it.
func (w *World) losePackets(n *node, step string, percent int) (machines.Evidence, error) {
	return n.machine.Lose(w.worst(n.lossy, step, percent))
}

// worst is the most that any step loses of 100 at a machine, once this one loses so many.
func (w *World) worst(lost map[string]int, step string, percent int) (most int) {
	w.mark(nil, func() {
		if lost[step] = percent; percent == 0 {
			delete(lost, step)
		}
		for _, of := range lost { // order: the largest
			most = max(most, of)
		}
	})
	return most
}

// quieten stops what is on a machine, for which the observer must not wait from then on.
func (w *World) quieten(n *node, stop func() (machines.Evidence, error)) (machines.Evidence, error) {
	before := n.paused
	w.mark(n, func() { n.paused = true })
	e, err := stop()
	if err != nil {
		w.mark(n, func() { n.paused = before })
	}
	return e, err
}

// signalAgent signals the agent and leaves the etcd that it started alone.
func (w *World) signalAgent(n *node, signal syscall.Signal) (machines.Evidence, error) {
	return n.machine.SignalAny("that is an agent", signal, w.isAgent)
}

// loseVolume puts an empty disk in. etcd dies with the old one, as a process
// does whose device is gone.
func (w *World) loseVolume(ctx context.Context, n *node, f ringproof.Fault) (machines.Evidence, error) {
	if f.How == ringproof.Removed {
		return w.removeData(n, f.Leave)
	}
	leave := f.Leave
	w.keepLog(n)
	var directories []string
	if leave == "directories" {
		for _, part := range []string{"snap", "wal"} {
			directories = append(directories, filepath.Join(w.Subject.Etcd().Dir, "member", part))
		}
	}
	w.mark(n, func() { n.anotherDisk(); n.home, n.swap = nil, true }) // first: what starts next is on it
	defer w.mark(n, func() { n.swap = false })
	var e machines.Evidence
	var err error
	if leave == "identity" {
		e, err = n.machine.LoseDirectory(w.Subject.Etcd().Dir)
	} else {
		e, err = n.machine.SwapVolume(ctx, directories...)
	}
	if err != nil {
		return e, err
	}
	switch {
	case !n.machine.On():
	case f.For == 0:
		err = w.afterBoot(ctx, n)
	default:
		if _, err = n.machine.PowerOff(); err == nil {
			err = w.powerOn(ctx, n, f.For.Std())
		}
	}
	return e, err
}

// removeData removes files from under those that have them open, who are not ended for it.
func (w *World) removeData(n *node, leave string) (machines.Evidence, error) {
	w.keepLog(n)
	w.mark(n, func() {
		if n.etcd != 0 {
			n.open = cmp.Or(n.open, n.disk)
		}
		n.anotherDisk()
	})
	remove := func() error { return machines.Empty(n.machine.DataRoot()) }
	if leave == "identity" {
		remove = func() error { return os.RemoveAll(w.data(n)) }
	}
	return machines.Evidence{What: n.name, Detail: "what was on its disk is removed, and nothing has ended"}, remove()
}

// revive starts the agent if the fault has ended it.
func (w *World) revive(ctx context.Context, n *node) error {
	all, err := n.machine.Processes()
	if err != nil || slices.ContainsFunc(all, w.isAgent) {
		return err
	}
	return w.agent(ctx, n)
}

// afterBoot starts the agent of a machine whose processes a fault has just ended. That the one
// before has ended may not have been noticed yet, and whoever notices it
// starts the agent too.
func (w *World) afterBoot(ctx context.Context, n *node) (err error) {
	for range 100 { // on a busy host it takes seconds
		if err = w.revive(ctx, n); err == nil {
			return nil
		}
		if w.Sleep(ctx, restartAfter) != nil {
			return err
		}
	}
	return err
}

// partition cuts the targets off from the other machines, both ways; isolate
// from each other too; one-way drops only what the others would hear of them.
// Clients reach everyone.
func (w *World) partition(f ringproof.Fault, targets []string) (string, error) {
	var inside, outside []*node
	for _, n := range w.present() {
		if slices.Contains(targets, n.name) {
			inside = append(inside, n)
		} else {
			outside = append(outside, n)
		}
	}
	if f.Shape == "pair" {
		outside = []*node{w.node(f.From)}
		if outside[0] == nil || slices.Contains(inside, outside[0]) {
			return "", fmt.Errorf("%s and %s are no pair", strings.Join(targets, " "), f.From)
		}
	}
	t := w.dropped(f)
	evidence, err := block(t, outside, inside)
	if err != nil || f.Shape == "one-way" {
		return evidence, err
	}
	if f.Shape == "isolate" {
		outside = append(outside, inside...)
	}
	back, err := block(t, inside, outside)
	return evidence + "; " + back, err
}

// dropped is what a partition drops of what goes between two machines.
func (w *World) dropped(f ringproof.Fault) machines.Traffic {
	if !f.OfPort() {
		return machines.Traffic{}
	}
	return machines.Traffic{Port: uint16(w.Subject.Etcd().Client), But: f.Port == ringproof.PortPeer}
}

func block(t machines.Traffic, at, from []*node) (string, error) {
	var said []string
	for _, n := range at {
		for _, other := range from {
			if other == n {
				continue
			}
			e, err := n.machine.Block(t, other.machine.Addr())
			if err != nil {
				return "", err
			}
			said = append(said, e.String())
		}
	}
	return strings.Join(said, "; "), nil
}

func (w *World) present() []*node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return n.lost })
}

// seam sets a fault at the subject's own seams. It has landed when the subject
// says that it met it.
func (w *World) seam(s ringproof.Step, targets []string) (string, bool, error) {
	switch s.Fault.Kind {
	case ringproof.FaultStoreOutage, ringproof.FaultStoreStale, ringproof.FaultStaleView, ringproof.FaultSkippedView:
	case ringproof.FaultAgentCrash:
		w.mu.Lock()
		w.down = s.Fault.For.Std()
		w.mu.Unlock()
	default:
		return "", false, nil
	}
	if len(targets) == 0 {
		for _, n := range w.present() {
			targets = append(targets, n.name)
		}
	}
	var errs []error
	for _, name := range targets {
		errs = append(errs, w.Subject.Inject(s.At(), name))
	}
	return "", true, errors.Join(errs...)
}

// Heal takes a fault away.
func (w *World) Heal(ctx context.Context, s ringproof.Step, targets []string) error {
	if ours, err := w.healCluster(ctx, s, targets); ours {
		return err
	}
	switch s.Fault.Kind {
	case ringproof.FaultStoreOutage, ringproof.FaultStoreStale, ringproof.FaultAgentCrash, ringproof.FaultStaleView, ringproof.FaultSkippedView:
		var errs []error
		for _, n := range w.present() {
			errs = append(errs, w.Subject.Inject(ringproof.Step{Name: s.Name}.At(), n.name))
		}
		return errors.Join(errs...)
	case ringproof.FaultDiskSwap:
		return w.putBack(ctx, s.Name)
	case ringproof.FaultTimePasses:
		w.mark(nil, func() { delete(w.passing, s.Name) })
		return nil
	case ringproof.FaultReplyLoss:
		_, err := w.loseReplies(s.Name, 0, targets)
		return err
	case ringproof.FaultStoreLost:
		if keeper, keeps := w.Subject.(trial.Keeper); keeps {
			return keeper.GiveStoreBack(s.Name)
		}
		return nil
	case ringproof.FaultAlarmRaised:
		return w.alarms.TakeBack(ctx, s.Name, w.asking(), w.Sleep)
	case ringproof.FaultPartition:
		for _, n := range w.present() {
			if _, err := n.machine.Unblock(ctx); err != nil {
				return err
			}
			if n.taken {
				if _, err := n.machine.Block(machines.Traffic{}, w.lab.Gateway()); err != nil {
					return err
				}
			}
		}
		return nil
	}
	_, err := w.each(targets, func(n *node) (machines.Evidence, error) { return machines.Evidence{}, w.healOne(ctx, n, s) })
	return err
}

func (w *World) healOne(ctx context.Context, n *node, s ringproof.Step) error {
	switch f := s.Fault; {
	case f.Kind == ringproof.FaultDuplicate:
		return w.dismissTwin(n, s.Name)
	case f.Kind == ringproof.FaultWrongRing:
		return w.dismissStranger(ctx, n)
	case f.Kind == ringproof.FaultStartFailure:
		return w.mendStarts(n, s.Name)
	case f.Kind == ringproof.FaultNameStale:
		return w.learnName(n, s.Name)
	case n.lost:
		return nil
	case slices.Contains([]ringproof.FaultKind{ringproof.FaultClockSkew, ringproof.FaultSlowNetwork, ringproof.FaultSlowDisk}, f.Kind):
		_, err := bend(n, *f, -f.By.Std())
		return err
	case f.Kind == ringproof.FaultPacketLoss:
		_, err := w.losePackets(n, s.Name, 0)
		return err
	case f.Kind == ringproof.FaultSleep:
		w.mark(n, func() { n.paused = false })
		if b, ok := n.machine.(bent); ok {
			_, err := b.Wake()
			return err
		}
		return nil
	case f.Kind == ringproof.FaultVolumeUnmounted:
		return w.remount(ctx, n, f.Remount)
	case f.Kind == ringproof.FaultDryRun:
		w.mark(n, func() { delete(n.dry, s.Name) })
		_, err := w.signalAgent(n, syscall.SIGKILL)
		return err
	case f.Kind == ringproof.FaultDiskFull:
		_, err := n.machine.FreeVolume()
		return err
	case f.Kind == ringproof.FaultPause:
		w.mark(n, func() { n.paused = false })
		_, err := n.machine.Thaw()
		return err
	case f.Kind == ringproof.FaultKill && f.Scope == "machine" && !n.machine.On() && !n.taken:
		if _, err := n.machine.PowerOn(ctx); err != nil {
			return err
		}
		return w.afterBoot(ctx, n)
	}
	if s.Fault.Kind == ringproof.FaultKill && s.Fault.Scope == "agent" {
		return w.letGo(ctx, n, s.Name)
	}
	return nil // the subject starts what was killed
}

// letGo starts the agent, unless another step holds it. Who is started again after
// its end may be on its way already.
func (w *World) letGo(ctx context.Context, n *node, step string) error {
	w.mark(n, func() { delete(n.held, step) })
	if n.lost || n.taken || !n.machine.On() {
		return nil
	}
	return w.afterBoot(ctx, n)
}
