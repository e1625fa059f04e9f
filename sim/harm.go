// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/look"
)

// Supports tells whether the simulated world can do the step: all of them, but
// a kind of fault that it has never heard of.
func Supports(s ringproof.Step) error {
	if s.Fault == nil || harms[s.Fault.Kind] != nil || seams[s.Fault.Kind] {
		return nil
	}
	return fmt.Errorf("%s: %w in sim", s.Fault.Kind, errors.ErrUnsupported)
}

// seams are the faults that the subject's decorators carry out.
var seams = map[ringproof.FaultKind]bool{
	ringproof.FaultStoreOutage: true, ringproof.FaultStoreStale: true, ringproof.FaultAgentCrash: true,
	ringproof.FaultStaleView: true, ringproof.FaultSkippedView: true,
}

// harms do to one machine what a fault says, and return the evidence.
var harms map[ringproof.FaultKind]func(*World, *Machine, ringproof.Step) (string, error)

func init() {
	harms = map[ringproof.FaultKind]func(*World, *Machine, ringproof.Step) (string, error){
		ringproof.FaultKill:        (*World).kill,
		ringproof.FaultPause:       (*World).pause,
		ringproof.FaultMachineLoss: (*World).loseMachine,
		ringproof.FaultVolumeLoss:  (*World).loseVolume,
		ringproof.FaultDiskFull:    (*World).fill,
		ringproof.FaultPartition:   nothing,
		ringproof.FaultDiskSwap:    nothing,
		ringproof.FaultSlowNetwork: (*World).slow,
		ringproof.FaultReplyLoss:   (*World).loseReplies,
		ringproof.FaultClockSkew:   (*World).skewClock,
	}
}

func nothing(*World, *Machine, ringproof.Step) (string, error) { return "", nil }

// Do carries out an operation or applies a fault.
func (w *World) Do(ctx context.Context, s ringproof.Step, targets []string) (string, error) {
	w.engine.alive()
	if s.Op != nil {
		return w.operate(ctx, *s.Op, targets)
	}
	w.engine.trace.note("fault " + s.Name + " " + strings.Join(targets, ","))
	w.steps[s.Name] = s.Fault.Kind
	switch {
	case seams[s.Fault.Kind]:
		return "", w.seam(s, targets)
	case s.Fault.Kind == ringproof.FaultPartition:
		return w.partition(s, targets)
	case s.Fault.Kind == ringproof.FaultDiskSwap:
		return w.rotate(s.Name, targets)
	case s.Fault.Kind == ringproof.FaultReplyLoss:
		targets = w.all(targets)
	}
	return w.each(targets, func(m *Machine) (string, error) { return harms[s.Fault.Kind](w, m, s) })
}

// each does the same to every target at one instant, as a power cut does.
func (w *World) each(targets []string, do func(*Machine) (string, error)) (string, error) {
	var evidence []string
	var failures []error
	for _, name := range targets {
		m := w.machine(name)
		if m == nil {
			failures = append(failures, fmt.Errorf("there is no machine %s", name))
			continue
		}
		if m.lost && len(targets) > 1 {
			continue // what is gone can't be taken again; the others can
		}
		said, err := do(m)
		evidence, failures = append(evidence, said), append(failures, err)
	}
	return strings.Join(evidence, "; "), errors.Join(failures...)
}

func (w *World) kill(m *Machine, s ringproof.Step) (string, error) {
	switch {
	case s.Fault.Scope == "machine":
		if !m.on || m.lost {
			return "", fmt.Errorf("%s is off already", m.name)
		}
		m.powerOff()
		return m.name + ": power off", nil
	case s.Fault.Scope == "agent":
		if m.agent == nil || m.agent.ended {
			return "", fmt.Errorf("no agent runs on %s", m.name)
		}
		m.killAgent()
		return m.name + ": SIGKILL to the agent", nil
	case m.etcd == nil:
		return "", fmt.Errorf("no etcd runs on %s", m.name)
	}
	pid := m.etcd.pid
	m.etcd.end()
	return fmt.Sprintf("%s: SIGKILL to etcd %d", m.name, pid), nil
}

func (w *World) pause(m *Machine, s ringproof.Step) (string, error) {
	if !m.on || m.lost {
		return "", fmt.Errorf("%s is off", m.name)
	}
	hit := false
	if s.Fault.Scope != "agent" && m.etcd != nil {
		m.etcd.process.paused, hit = true, true
	}
	if s.Fault.Scope != "process" && s.Fault.Scope != "" && m.agent != nil && !m.agent.ended {
		m.agent.paused, hit = true, true
	}
	if !hit {
		return "", fmt.Errorf("nothing to pause runs on %s", m.name)
	}
	return m.name + ": SIGSTOP", nil
}

func (w *World) loseMachine(m *Machine, _ ringproof.Step) (string, error) {
	if m.lost {
		return "", fmt.Errorf("%s is lost already", m.name)
	}
	w.keepLog(m)
	m.lost = true
	m.powerOff()
	return m.name + ": machine and disk gone", nil
}

// loseVolume puts an empty disk in. Everything that had the old one open dies
// with it; a machine that has power starts its agent again.
func (w *World) loseVolume(m *Machine, s ringproof.Step) (string, error) {
	if m.lost {
		return "", fmt.Errorf("%s is lost", m.name)
	}
	w.keepLog(m)
	if m.etcd != nil {
		m.etcd.end()
	}
	m.killAgent()
	m.insert(newDisk(w.plan.Ring.Volume))
	if s.Fault.Leave == "directories" {
		m.disk.folders["etcd/member/snap"], m.disk.folders["etcd/member/wal"] = true, true
	}
	if wait := s.Fault.For.Std(); wait > 0 && m.on {
		m.powerOff()
		w.engine.after(wait, prioTimer, kindMachine, nil, m.powerOn)
	}
	return fmt.Sprintf("%s: disk %d is empty", m.name, m.disk.numbers[m]), nil
}

func (w *World) fill(m *Machine, s ringproof.Step) (string, error) {
	if m.lost {
		return "", fmt.Errorf("%s is lost", m.name)
	}
	m.disk.full[s.Name] = true
	return m.name + ": no space left on device", nil
}

// slow makes every packet from and to the machine take longer.
func (w *World) slow(m *Machine, s ringproof.Step) (string, error) {
	if w.network.slow[m] == nil {
		w.network.slow[m] = map[string]time.Duration{}
	}
	w.network.slow[m][s.Name] = s.Fault.By.Std()
	return fmt.Sprintf("%s: packets take %v longer", m.name, s.Fault.By), nil
}

// loseReplies loses some of what etcds answer to whoever asks from the machine,
// and to clients of the etcd on it.
func (w *World) loseReplies(m *Machine, s ringproof.Step) (string, error) {
	if w.network.mute[m] == nil {
		w.network.mute[m] = map[string]int{}
	}
	w.network.mute[m][s.Name] = s.Fault.Percent
	return fmt.Sprintf("%s: %d of 100 replies are lost", m.name, s.Fault.Percent), nil
}

func (w *World) skewClock(m *Machine, s ringproof.Step) (string, error) {
	m.skew += s.Fault.By.Std()
	return fmt.Sprintf("%s: the clock jumps by %v", m.name, s.Fault.By), nil
}

// rotate cuts the power of the targets, moves each disk on to the next of them,
// and gives them power again.
func (w *World) rotate(step string, targets []string) (string, error) {
	var machines []*Machine
	for _, name := range targets {
		if m := w.machine(name); m != nil && !m.lost {
			machines = append(machines, m)
		}
	}
	if len(machines) < 2 {
		return "", errors.New("swapping disks takes two machines that are there")
	}
	w.swaps[step] = true
	disks := make([]*disk, len(machines))
	for i, m := range machines {
		disks[i] = m.disk
	}
	for i, m := range machines {
		m.reinsert(disks[(i+len(machines)-1)%len(machines)])
	}
	return "each disk went to the next of " + strings.Join(targets, " "), nil
}

// putBack ends a swap. Swaps that overlap end together: only then it is known
// which disk belongs where.
func (w *World) putBack(step string) error {
	delete(w.swaps, step)
	if len(w.swaps) > 0 {
		return nil
	}
	away := slices.DeleteFunc(w.present(), func(m *Machine) bool { return m.disk.home == m })
	disks := map[*Machine]*disk{}
	for _, m := range away {
		disks[m.disk.home] = m.disk
	}
	for _, m := range away {
		if own := disks[m]; own != nil {
			m.reinsert(own)
		}
	}
	return nil
}

// reinsert changes the disk while the machine is off.
func (m *Machine) reinsert(d *disk) {
	m.powerOff()
	m.insert(d)
	m.powerOn()
}

// powerOn starts the machine with the disk that is in it.
func (m *Machine) powerOn() {
	if m.on || m.lost || m.world.closing {
		return
	}
	m.on = true
	m.startAgent()
}

// partition cuts the targets off from the other machines, both ways; isolate
// from each other too; one-way drops only what the others would hear of them.
func (w *World) partition(s ringproof.Step, targets []string) (string, error) {
	var inside, outside []*Machine
	for _, m := range w.present() {
		if slices.Contains(targets, m.name) {
			inside = append(inside, m)
		} else {
			outside = append(outside, m)
		}
	}
	w.block(s.Name, inside, outside)
	if s.Fault.Shape == "isolate" {
		w.block(s.Name, inside, inside)
	}
	if s.Fault.Shape != "one-way" {
		w.block(s.Name, outside, inside)
	}
	return fmt.Sprintf("%s cut off, %s", strings.Join(targets, " "), cmp.Or(s.Fault.Shape, "split")), nil
}

func (w *World) block(step string, from, to []*Machine) {
	for _, a := range from {
		for _, b := range to {
			if a != b {
				w.network.cut(step, a, b)
			}
		}
	}
}

// seam sets a fault at the subject's own seams. It has landed when the subject
// meets it.
func (w *World) seam(s ringproof.Step, targets []string) error {
	harm := Seams{Step: s.Name}
	switch s.Fault.Kind {
	case ringproof.FaultStoreOutage:
		harm.StoreOutage = true
	case ringproof.FaultStoreStale:
		harm.StoreStale = true
	default:
		harm.Fault = s.Fault
	}
	var errs []error
	for _, name := range w.all(targets) {
		if s.Fault.Kind == ringproof.FaultAgentCrash {
			w.machine(name).down = s.Fault.For.Std()
		}
		errs = append(errs, w.Subject.Harm(harm, name))
	}
	return errors.Join(errs...)
}

// all is the targets, or every machine when there are none.
func (w *World) all(targets []string) []string {
	if len(targets) > 0 {
		return targets
	}
	for _, m := range w.present() {
		targets = append(targets, m.name)
	}
	return targets
}

// Heal takes a fault away.
func (w *World) Heal(_ context.Context, s ringproof.Step, targets []string) error {
	w.engine.trace.note("heal " + s.Name)
	switch {
	case seams[s.Fault.Kind]:
		var errs []error
		for _, name := range w.all(targets) {
			errs = append(errs, w.Subject.Harm(Seams{Step: s.Name}, name))
		}
		return errors.Join(errs...)
	case s.Fault.Kind == ringproof.FaultDiskSwap:
		return w.putBack(s.Name)
	}
	w.network.mend(s.Name)
	_, err := w.each(targets, func(m *Machine) (string, error) { w.healOne(m, *s.Fault); return "", nil })
	for _, m := range w.machines {
		delete(m.disk.full, s.Name) // wherever the disk is by now
	}
	return err
}

func (w *World) healOne(m *Machine, f ringproof.Fault) {
	switch {
	case m.lost:
	case f.Kind == ringproof.FaultClockSkew:
		m.skew -= f.By.Std()
	case f.Kind == ringproof.FaultPause:
		if m.etcd != nil {
			m.etcd.proceed()
		}
		if m.agent != nil {
			m.agent.proceed()
		}
	case f.Kind == ringproof.FaultKill && f.Scope == "machine":
		m.powerOn()
	}
}

// operate carries out what an operator asks.
func (w *World) operate(ctx context.Context, op ringproof.Op, targets []string) (string, error) {
	switch op.Kind {
	case ringproof.OpRestart:
		return w.restart(ctx, w.machine(targets[0]))
	case ringproof.OpRoll:
		return w.roll(ctx)
	}
	return w.Subject.Ask(ctx, op, targets)
}

// roll restarts one member after another, the leader last.
func (w *World) roll(ctx context.Context) (string, error) {
	o, err := w.Observe(ctx)
	if err != nil {
		return "", err
	}
	members := look.Rolled(o)
	for _, m := range members {
		if _, err := w.restart(ctx, w.machine(m.Machine)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d members", len(members)), nil
}

// restart stops an etcd in order and waits until the subject has it serving
// again.
func (w *World) restart(ctx context.Context, m *Machine) (string, error) {
	if m == nil || m.etcd == nil {
		return "", errors.New("restarting etcd: none runs there")
	}
	before := m.etcd.pid
	w.terminate(m.etcd)
	for ctx.Err() == nil {
		if w.Sleep(ctx, 100*time.Millisecond) != nil {
			break
		}
		o, err := w.Observe(ctx)
		if v, on := o.On(m.name); err == nil && on && v.Serving && m.etcd != nil && m.etcd.pid != before {
			return fmt.Sprintf("%s: SIGTERM to etcd %d", m.name, before), nil
		}
	}
	return "", fmt.Errorf("restarting etcd on %s: it does not serve again: %w", m.name, ctx.Err())
}

// terminate sends SIGTERM.
func (w *World) terminate(s *server) {
	if s.etcd == nil {
		s.end()
		return
	}
	s.hear(s.etcd.Stop)
}
