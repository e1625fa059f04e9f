// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/observe"
	"github.com/ringproof/ringproof/internal/raftlog"
	"github.com/ringproof/ringproof/sim/etcd"
)

// Supports reports whether the simulated world can do the step: all of them, but
// a kind of fault that it has never heard of.
func Supports(s ringproof.Step) error {
	if s.Fault == nil || injectors[s.Fault.Kind] != nil || seams[s.Fault.Kind] {
		return nil
	}
	return fmt.Errorf("%s: %w in sim", s.Fault.Kind, errors.ErrUnsupported)
}

// Runs tells why a plan's ring can't be simulated; nil: it can. A flag that etcd refuses would end
// each at its start; one that a step asks for ends those that it is asked of, as it would on any etcd.
func Runs(p ringproof.Plan) error {
	if p.Ring.On != "" {
		return fmt.Errorf("a ring on %s: only virtual and kind have one (%w)", p.Ring.On, errors.ErrUnsupported)
	}
	try := func(version string, flags map[string]string) error {
		var args []string
		for _, name := range slices.Sorted(maps.Keys(flags)) {
			if flags[name] != "" { // an empty one is taken away
				args = append(args, "--"+name+"="+flags[name])
			}
		}
		if _, err := etcd.Parse(version, args); err != nil {
			return fmt.Errorf("etcd %s with %s: %w", version, strings.Join(args, " "), err)
		}
		return nil
	}
	refused := func(err error) error {
		if err == nil || errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		return fmt.Errorf("%w: %w in sim", err, errors.ErrUnsupported)
	}
	errs := []error{refused(try(p.Ring.Version, p.Ring.Flags))}
	for _, machine := range slices.Sorted(maps.Keys(p.Ring.Members)) {
		own := p.Ring.Members[machine]
		errs = append(errs, refused(try(cmp.Or(own.Version, p.Ring.Version), own.Flags)))
	}
	for _, s := range p.Steps {
		if s.Op != nil && s.Op.Changes() {
			if err := try(cmp.Or(s.Op.Version, p.Ring.Version), s.Op.Flags); errors.Is(err, errors.ErrUnsupported) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// seams are the faults that the subject's decorators carry out.
var seams = map[ringproof.FaultKind]bool{
	ringproof.FaultStoreOutage: true, ringproof.FaultStoreStale: true, ringproof.FaultAgentCrash: true,
	ringproof.FaultStaleView: true, ringproof.FaultSkippedView: true,
}

// injectors do to one machine what a fault says, and return the evidence.
var injectors map[ringproof.FaultKind]func(*World, *Machine, ringproof.Step) (string, error)

func init() {
	injectors = map[ringproof.FaultKind]func(*World, *Machine, ringproof.Step) (string, error){
		ringproof.FaultKill:        (*World).kill,
		ringproof.FaultPause:       (*World).pause,
		ringproof.FaultSleep:       (*World).suspend,
		ringproof.FaultMachineLoss: (*World).loseMachine,
		ringproof.FaultVolumeLoss:  (*World).loseVolume,
		ringproof.FaultDiskFull:    (*World).fill,
		ringproof.FaultPartition:   nothing,
		ringproof.FaultDiskSwap:    nothing,
		ringproof.FaultSlowNetwork: (*World).slow,
		ringproof.FaultReplyLoss:   (*World).loseReplies,
		ringproof.FaultPacketLoss:  (*World).losePackets,
		ringproof.FaultClockSkew:   (*World).skewClock,

		ringproof.FaultStartFailure:    (*World).failStarts,
		ringproof.FaultVolumeUnmounted: (*World).unmount,
		ringproof.FaultVolumeCopy:      (*World).copyData,
		ringproof.FaultTimePasses:      nothing,
		ringproof.FaultWrongRing:       (*World).replaceByStranger,
		ringproof.FaultDuplicate:       (*World).duplicate,
		ringproof.FaultDryRun:          (*World).runDry,
		ringproof.FaultKeysDamaged:     nothing,
		ringproof.FaultStoreLost:       nothing,
		ringproof.FaultForeignHand:     nothing,
		ringproof.FaultAlarmRaised:     nothing,
		ringproof.FaultSlowDisk:        (*World).slowDisk,
		ringproof.FaultNameStale:       nothing,
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
	case s.Fault.Kind == ringproof.FaultTimePasses:
		return w.letPass(s)
	case s.Fault.Kind == ringproof.FaultStoreLost:
		return w.loseStore(ctx, s)
	case s.Fault.Kind == ringproof.FaultKeysDamaged:
		return client.DamageBy(ctx, w.asking(), s.Fault.Leave)
	case s.Fault.Kind == ringproof.FaultForeignHand:
		return client.HandBy(ctx, w.asking(), s.Fault.Adds(), w.machine(targets[0]).address, w.Sleep)
	case s.Fault.Kind == ringproof.FaultAlarmRaised:
		return w.alarms.Raise(ctx, s.Name, w.asking(), s.Fault.Alarm, w.machine(targets[0]).address, w.Sleep)
	case s.Fault.Kind == ringproof.FaultReplyLoss:
		targets = w.all(targets)
	case s.Fault.Kind == ringproof.FaultNameStale:
		return w.staleNames(ctx, s, targets)
	case s.Fault.Kind == ringproof.FaultVolumeLoss && s.Fault.Leave == ringproof.LeaveCopy:
		return w.putBackCopies(ctx, s, targets)
	}
	return w.each(targets, func(m *Machine) (string, error) { return injectors[s.Fault.Kind](w, m, s) })
}

// each does the same to every target at one instant, as a power cut does.
func (w *World) each(targets []string, do func(*Machine) (string, error)) (string, error) {
	var evidence []string
	failures := make([]error, len(targets))
	for i, name := range targets {
		m := w.machine(name)
		if m == nil {
			failures[i] = fmt.Errorf("there is no machine %s", name)
			continue
		}
		if m.lost && len(targets) > 1 {
			continue // what is gone can't be taken again; the others can
		}
		said := ""
		if said, failures[i] = do(m); failures[i] == nil {
			evidence = append(evidence, said)
		}
	}
	return strings.Join(evidence, "; "), ringproof.Partial(targets, failures)
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
		if s.Fault.For > 0 {
			m.hold(s.Name)
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

// hold keeps the agent from being started again until the step is healed, as an
// init system does that was told to, or that has given up.
func (m *Machine) hold(step string) {
	if m.held == nil {
		m.held = map[string]bool{}
	}
	m.held[step] = true
}

// letGo starts the agent, unless another step holds it.
func (m *Machine) letGo(step string) {
	if !m.held[step] {
		return
	}
	delete(m.held, step)
	if m.on && !m.lost && !m.world.closing && (m.agent == nil || m.agent.ended) {
		m.startAgent()
	}
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

// suspend stops all that runs on the machine, and the clock that its timers go by.
func (w *World) suspend(m *Machine, s ringproof.Step) (string, error) {
	switch {
	case !m.on || m.lost:
		return "", fmt.Errorf("%s is off", m.name)
	}
	m.fallAsleep(s.Name)
	return m.name + ": suspended", nil
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

// putBackCopies puts the targets' disks back as they are now, when they have become old.
func (w *World) putBackCopies(ctx context.Context, s ringproof.Step, targets []string) (string, error) {
	copies := map[*Machine]*disk{}
	for _, name := range targets {
		if m := w.machine(name); m != nil && !m.lost {
			copies[m] = m.disk.copied()
		}
	}
	if err := w.Sleep(ctx, s.Fault.Age()); err != nil {
		return "", err
	}
	return w.each(targets, func(m *Machine) (string, error) {
		if copies[m] == nil {
			return "", fmt.Errorf("%s was lost", m.name)
		}
		return m.name + ": its disk is back as it was", w.takeVolume(m, s, func() { m.insert(copies[m]) })
	})
}

// loseVolume puts an empty disk in, or one with a log that may never run again.
func (w *World) loseVolume(m *Machine, s ringproof.Step) (string, error) {
	if s.Fault.How == ringproof.Removed {
		return w.removeData(m, s.Fault.Leave)
	}
	said := "%s: disk %d is empty"
	switch s.Fault.Leave {
	case ringproof.LeaveDamaged:
		said = "%s: the log on disk %d is damaged"
	case ringproof.LeaveHoled:
		said = "%s: the log on disk %d has a hole"
	case ringproof.LeaveGarbled:
		said = "%s: the keyspace on disk %d is damaged"
	case ringproof.LeaveForced:
		said = "%s: the log on disk %d is that of a ring of one"
	}
	if s.Fault.LeavesLog() && !m.lost && !m.logged() {
		return "", fmt.Errorf("%s holds no log", m.name)
	}
	if s.Fault.Leave == ringproof.LeaveHoled && !m.lost && !m.tellsHole() {
		return "", fmt.Errorf("the log of %s is too short: a hole in it could not be told from a write that was torn; let clients write first", m.name)
	}
	if err := w.takeVolume(m, s, func() { m.replaceVolume(s.Fault.Leave) }); err != nil {
		return "", err
	}
	return fmt.Sprintf(said, m.name, m.disk.numbers[m]), nil
}

// removeData removes files from under those that have them open.
func (w *World) removeData(m *Machine, leave string) (string, error) {
	if m.lost {
		return "", fmt.Errorf("%s is lost", m.name)
	}
	w.keepLog(m)
	if m.etcd != nil && m.etcd.home == m.disk {
		m.etcd.unlinked = cmp.Or(m.etcd.unlinked, m.disk.numbers[m])
	}
	m.unlink()
	if leave != "identity" {
		m.disk.remove(func(string) bool { return true })
		clear(m.disk.folders)
	}
	return m.name + ": what was on its disk is removed, and nothing has ended", nil
}

func (m *Machine) replaceVolume(leave string) {
	switch leave {
	case "identity":
		m.loseData()
	case ringproof.LeaveDamaged:
		m.spoil((*etcd.Dir).Damage)
	case ringproof.LeaveHoled:
		m.spoil((*etcd.Dir).Hole)
	case ringproof.LeaveGarbled:
		m.spoil((*etcd.Dir).Garble)
	case ringproof.LeaveForced:
		m.spoil(func(d *etcd.Dir) { d.ForceNew(raftlog.Removals) })
	case "directories":
		m.insert(newDisk(m.world.plan.Ring.Volume))
		m.disk.folders["etcd/member/snap"], m.disk.folders["etcd/member/wal"] = true, true
	default:
		m.insert(newDisk(m.world.plan.Ring.Volume))
	}
}

// tellsHole reports whether a hole in each log on the disk can be known.
func (m *Machine) tellsHole() bool {
	for name, data := range m.disk.data { // order: all must
		if !m.disk.foreign[name] && !data.TellsHole() {
			return false
		}
	}
	return true
}

// spoil does something to the member's log after which it is nobody's memory.
func (m *Machine) spoil(how func(*etcd.Dir)) {
	for _, name := range slices.Sorted(maps.Keys(m.disk.data)) {
		if !m.disk.foreign[name] {
			how(m.disk.data[name])
			m.disk.foreign[name] = true
		}
	}
	m.renumber()
}

// takeVolume does it to the disk while nothing runs on it. Everything that had the old one
// open dies with it; a machine that has power starts its agent again.
func (w *World) takeVolume(m *Machine, s ringproof.Step, replace func()) error {
	if m.lost {
		return fmt.Errorf("%s is lost", m.name)
	}
	w.keepLog(m)
	if m.etcd != nil {
		m.etcd.end()
	}
	m.killAgent()
	replace()
	if wait := s.Fault.For.Std(); wait > 0 && m.on {
		m.powerOff()
		w.engine.after(wait, prioTimer, kindMachine, nil, m.powerOn)
	}
	return nil
}

// unlink removes etcd's data from the disk, and who has them open goes on.
func (m *Machine) unlink() {
	for _, data := range m.disk.data { // order: each by itself
		data.Unlink()
	}
	m.loseData()
}

// loseData takes etcd's data from the disk, and leaves what else is on it: to
// whoever promised something there, it is another disk.
func (m *Machine) loseData() {
	clear(m.disk.data)
	m.disk.remove(func(file string) bool { return strings.HasPrefix(file, "etcd/") })
	m.renumber()
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

// slowDisk makes every sync on the machine's disk take longer.
func (w *World) slowDisk(m *Machine, s ringproof.Step) (string, error) {
	if m.lost {
		return "", fmt.Errorf("%s is lost", m.name)
	}
	m.disk.slow[s.Name] = s.Fault.By.Std()
	return fmt.Sprintf("%s: each sync takes %v longer", m.name, s.Fault.By), nil
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

// losePackets loses some of what goes between the machine and others.
func (w *World) losePackets(m *Machine, s ringproof.Step) (string, error) {
	if w.network.lossy[m] == nil {
		w.network.lossy[m] = map[string]int{}
	}
	w.network.lossy[m][s.Name] = s.Fault.Percent
	return fmt.Sprintf("%s: %d of 100 packets are lost", m.name, s.Fault.Percent), nil
}

func (w *World) skewClock(m *Machine, s ringproof.Step) (string, error) {
	m.skew += s.Fault.By.Std()
	return fmt.Sprintf("%s: the clock jumps by %v", m.name, s.Fault.By), nil
}

// failStarts ends etcd, and each that is started from now on.
func (w *World) failStarts(m *Machine, s ringproof.Step) (string, error) {
	if m.lost {
		return "", fmt.Errorf("%s is lost", m.name)
	}
	if m.failing == nil {
		m.failing = map[string]string{}
	}
	m.failing[s.Name] = cmp.Or(s.Fault.At, "before-log")
	if m.etcd != nil {
		m.etcd.end()
	}
	if m.unreadable() {
		return fmt.Sprintf("%s: no etcd can start, and nobody can read its log", m.name), nil
	}
	return fmt.Sprintf("%s: no etcd can start, it ends %s", m.name, strings.ReplaceAll(m.failing[s.Name], "-", " a ")), nil
}

// unmount restarts the machine without its data filesystem.
func (w *World) unmount(m *Machine, _ ringproof.Step) (string, error) {
	switch {
	case m.lost || !m.on:
		return "", fmt.Errorf("%s is off", m.name)
	case m.away != nil:
		return "", fmt.Errorf("the data filesystem of %s isn't mounted already", m.name)
	case len(w.swaps) > 0:
		return "", errors.New("disks are swapped")
	}
	if m.below == nil {
		m.below = newDisk(0)
	}
	m.powerOff()
	m.away = m.disk
	m.insert(m.below)
	m.powerOn()
	return m.name + ": its data filesystem isn't mounted", nil
}

// remount ends that. What runs on the directory below goes on there.
func (m *Machine) remount(how string) {
	if m.away == nil {
		return
	}
	if how == "reboot" && m.on {
		m.powerOff()
		defer m.powerOn()
	}
	m.insert(m.away)
	m.away = nil
}

// copyData puts a copy of a member's data on a disk that holds none.
func (w *World) copyData(m *Machine, s ringproof.Step) (string, error) {
	from := w.machine(s.Fault.From)
	switch {
	case m.lost || !m.on:
		return "", fmt.Errorf("%s is off", m.name)
	case from == nil || from == m || from.lost || !from.logged():
		return "", fmt.Errorf("%s holds no data to copy", s.Fault.From)
	case m.logged():
		return "", fmt.Errorf("%s holds data of its own", m.name)
	}
	m.powerOff()
	for _, name := range slices.Sorted(maps.Keys(from.disk.data)) {
		if !from.disk.foreign[name] {
			m.disk.data[name], m.disk.foreign[name] = from.disk.data[name].Copy(), true
		}
	}
	m.powerOn()
	return fmt.Sprintf("%s: the data of %s were copied to it", m.name, from.name), nil
}

// letPass has all clocks go on, at once for the first time. Timers are by none of them.
func (w *World) letPass(s ringproof.Step) (string, error) {
	leaps, by, pause := s.Fault.Leaps()
	w.passing[s.Name] = true
	var pass func()
	pass = func() {
		if leaps == 0 || !w.passing[s.Name] {
			return
		}
		leaps--
		w.passed += by
		w.engine.after(pause, prioTimer, kindMachine, nil, pass)
	}
	pass()
	return fmt.Sprintf("all clocks go on by %v every %v", by, pause), nil
}

// rotate cuts the power of the targets, moves each disk on to the next of them,
// and gives them power again.
func (w *World) rotate(step string, targets []string) (string, error) {
	var machines []*Machine
	if slices.ContainsFunc(w.machines, func(m *Machine) bool { return m.away != nil }) {
		return "", errors.New("a data filesystem isn't mounted")
	}
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
	in, disks := map[string]string{}, map[string]*disk{}
	for _, m := range w.present() {
		if disks[m.name] = m.disk; m.disk.home != m {
			in[m.name] = m.disk.home.name
		}
	}
	from := faults.PutBack(in)
	for _, m := range w.present() {
		if at := from[m.name]; at != "" && at != m.name {
			m.reinsert(disks[at])
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
	if m.on || m.lost || m.standIn != nil || m.world.closing {
		return
	}
	m.on = true
	m.startAgent()
}

// partition cuts the targets off from the other machines, both ways; isolate
// from each other too; one-way drops only what the others would hear of them. It may be of
// one port alone.
func (w *World) partition(s ringproof.Step, targets []string) (string, error) {
	var inside, outside []*Machine
	for _, m := range w.present() {
		if slices.Contains(targets, m.name) {
			inside = append(inside, m)
		} else {
			outside = append(outside, m)
		}
	}
	if s.Fault.Shape == "pair" {
		outside = []*Machine{w.machine(s.Fault.From)}
		if outside[0] == nil || slices.Contains(inside, outside[0]) {
			return "", fmt.Errorf("%s and %s are no pair", strings.Join(targets, " "), s.Fault.From)
		}
	}
	w.block(s.Name, inside, outside, s.Fault.Port)
	if s.Fault.Shape == "isolate" {
		w.block(s.Name, inside, inside, s.Fault.Port)
	}
	if s.Fault.Shape != "one-way" {
		w.block(s.Name, outside, inside, s.Fault.Port)
	}
	at := ""
	if s.Fault.OfPort() {
		at = " at the " + s.Fault.Port + " port"
	}
	if s.Fault.Shape == "pair" {
		return fmt.Sprintf("%s and %s don't hear each other%s", strings.Join(targets, " "), s.Fault.From, at), nil
	}
	return fmt.Sprintf("%s cut off%s, %s", strings.Join(targets, " "), at, cmp.Or(s.Fault.Shape, "split")), nil
}

func (w *World) block(step string, from, to []*Machine, port string) {
	for _, a := range from {
		for _, b := range to {
			if a != b {
				w.network.cut(step, a, b, port)
			}
		}
	}
}

// seam sets a fault at the subject's own seams. It has landed when the subject
// meets it.
func (w *World) seam(s ringproof.Step, targets []string) error {
	var errs []error
	for _, name := range w.all(targets) {
		if s.Fault.Kind == ringproof.FaultAgentCrash {
			w.machine(name).down = s.Fault.For.Std()
		}
		errs = append(errs, w.Subject.Inject(s.At(), name))
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
func (w *World) Heal(ctx context.Context, s ringproof.Step, targets []string) error {
	w.engine.trace.note("heal " + s.Name)
	switch {
	case seams[s.Fault.Kind]:
		var errs []error
		for _, name := range w.all(targets) {
			errs = append(errs, w.Subject.Inject(ringproof.Step{Name: s.Name}.At(), name))
		}
		return errors.Join(errs...)
	case s.Fault.Kind == ringproof.FaultDiskSwap:
		return w.putBack(s.Name)
	case s.Fault.Kind == ringproof.FaultTimePasses:
		delete(w.passing, s.Name)
		return nil
	case s.Fault.Kind == ringproof.FaultStoreLost:
		w.bucket.giveBack(s.Name)
		return nil
	case s.Fault.Kind == ringproof.FaultAlarmRaised:
		return w.alarms.TakeBack(ctx, s.Name, w.asking(), w.Sleep)
	}
	w.network.mend(s.Name)
	_, err := w.each(targets, func(m *Machine) (string, error) { w.healOne(m, s); return "", nil })
	for _, m := range w.machines {
		for _, d := range []*disk{m.disk, m.away} { // wherever the disk is by now
			if d != nil {
				delete(d.full, s.Name)
				delete(d.slow, s.Name)
			}
		}
	}
	return err
}

func (w *World) healOne(m *Machine, s ringproof.Step) {
	switch f := s.Fault; {
	case f.Kind == ringproof.FaultWrongRing:
		w.dismissStranger(m)
	case f.Kind == ringproof.FaultDuplicate:
		w.dismissTwin(m, s.Name)
	case f.Kind == ringproof.FaultNameStale:
		m.learnName(s.Name)
	case m.lost:
	case f.Kind == ringproof.FaultDryRun:
		delete(m.dry, s.Name)
		m.killAgent()
	case f.Kind == ringproof.FaultStartFailure:
		delete(m.failing, s.Name)
	case f.Kind == ringproof.FaultVolumeUnmounted:
		m.remount(f.Remount)
	case f.Kind == ringproof.FaultClockSkew:
		m.skew -= f.By.Std()
	case f.Kind == ringproof.FaultSleep:
		m.wake(s.Name)
	case f.Kind == ringproof.FaultPause:
		if m.etcd != nil {
			m.etcd.proceed()
		}
		if m.agent != nil {
			m.agent.proceed()
		}
	case f.Kind == ringproof.FaultKill && f.Scope == "machine":
		m.powerOn()
	case f.Kind == ringproof.FaultKill && f.Scope == "agent":
		m.letGo(s.Name)
	}
}

// operate carries out what an operator asks.
func (w *World) operate(ctx context.Context, op ringproof.Op, targets []string) (string, error) {
	switch op.Kind {
	case ringproof.OpRestart:
		if op.Changes() {
			if _, err := w.Subject.Ask(ctx, op, targets); err != nil {
				return "", err
			}
		}
		return w.restart(ctx, w.machine(targets[0]), op)
	case ringproof.OpRoll:
		return observe.Roll(ctx, w.Observe, func(ctx context.Context, machine string) (string, error) {
			return w.restart(ctx, w.machine(machine), op)
		})
	case ringproof.OpReset:
		return w.reset(ctx, op, targets[0])
	case ringproof.OpSnapshot:
		return w.backUp(ctx)
	}
	return w.Subject.Ask(ctx, op, targets)
}

// backUp has the subject make a backup of the ring, and reads it.
func (w *World) backUp(ctx context.Context) (string, error) {
	saver, saves := w.Subject.(Saver)
	if !saves {
		return "", errors.New("the subject makes no backups: it is no sim.Saver")
	}
	b, err := observe.Backup(w.Now, func() ([]byte, error) { return saver.Snapshot(ctx) }, func(file []byte) (int64, []ringproof.KV, error) {
		revision, held, err := etcd.ReadSnapshot(file)
		return revision, client.KVs(held), err
	})
	if err != nil {
		return "", err
	}
	w.backups = append(w.backups, b)
	return b.String(), nil
}

// reset ends the machine's agent in order, runs the subject's command on the
// machine, and starts the agent again. The command is a process of the machine's:
// a loss of power ends it anywhere.
func (w *World) reset(ctx context.Context, op ringproof.Op, machine string) (text string, err error) {
	m := w.machine(machine)
	if m == nil || m.lost || !m.on {
		return "", fmt.Errorf("%s is off", machine)
	}
	w.numbers++
	name := fmt.Sprintf("reset %d", w.numbers)
	m.hold(name)
	defer m.letGo(name)
	if err := w.end(ctx, m, op); err != nil {
		return "", err
	}
	if !m.on {
		return "", fmt.Errorf("%s is off", machine)
	}
	p := w.process("ringadm@"+machine, m)
	m.tools = append(m.tools, p)
	err = fmt.Errorf("%s: its power was cut", machine)
	w.engine.spawn(p, p.name, func() {
		text, err = w.Subject.Ask(ctx, op, []string{machine})
		p.end()
	})
	for !p.ended {
		if err := w.Sleep(ctx, 50*time.Millisecond); err != nil {
			p.end()
			return "", err
		}
	}
	return text, err
}

// restart ends in order what the operation says, and waits until the subject has
// the member serving again, or the ring has let it go meanwhile. Where no etcd
// runs the subject owes one already.
func (w *World) restart(ctx context.Context, m *Machine, op ringproof.Op) (string, error) {
	if m == nil {
		return "", errors.New("there is no such machine")
	}
	before, life := 0, m.agent
	if m.etcd != nil {
		before = m.etcd.pid
	}
	if err := w.end(ctx, m, op); err != nil {
		return "", err
	}
	for ctx.Err() == nil {
		if w.Sleep(ctx, 100*time.Millisecond) != nil {
			break
		}
		o, err := w.Observe(ctx)
		v, on := o.On(m.name)
		again := m.etcd != nil && m.etcd.pid != before || op.Scope == "agent" && m.agent != life && !m.agent.ended
		switch {
		case err == nil && o.Fresh && !on:
			return fmt.Sprintf("%s: %s, and its member has left meanwhile", m.name, op.Stopped()), nil
		case err == nil && on && v.Serving && again:
			return fmt.Sprintf("%s: %s", m.name, op.Stopped()), nil
		}
	}
	return "", fmt.Errorf("restarting %s: its member does not serve again: %w", m.name, ctx.Err())
}

// stopWithin is how long an init system waits for a process that was told to end.
const stopWithin = 30 * time.Second

// end ends what the operation says, as far as it runs.
func (w *World) end(ctx context.Context, m *Machine, op ringproof.Op) error {
	life := m.agent
	if m.etcd != nil && (!op.Ends() || op.Scope == "service") {
		w.terminate(m.etcd)
	}
	if !op.Ends() {
		return nil
	}
	if life != nil && !life.ended {
		m.down = op.For.Std()
		m.quit()
	}
	for waited := time.Duration(0); life != nil && !life.ended; waited += 100 * time.Millisecond {
		if err := w.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		if waited >= stopWithin {
			life.end()
		}
	}
	m.down = 0
	if op.Scope != "machine" || !m.on || m.lost {
		return nil
	}
	m.powerOff()
	err := w.Sleep(ctx, op.For.Std())
	m.powerOn()
	return err
}

// terminate sends SIGTERM.
func (w *World) terminate(s *server) {
	if s.etcd == nil {
		s.end()
		return
	}
	s.hear(s.etcd.Stop)
}
