// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"time"

	"github.com/ringproof/ringproof"
)

// sleep is when a machine was suspended, and by which steps it is.
type sleep struct {
	steps  map[string]bool
	since  ringproof.Instant // while any is
	before uint64            // the last event that was made till then
	past   []slept
	limits []*limited // that would have ended meanwhile
}

// slept is one sleep that is over.
type slept struct {
	before uint64 // the last event that was made till it began
	lasted time.Duration
}

func (m *Machine) asleep() bool { return len(m.sleep.steps) > 0 }

// ran is how long the machine ran since the Epoch, off or not: what it slept doesn't count.
func (m *Machine) ran() time.Duration {
	now := m.world.engine.now
	if m.asleep() {
		now = m.sleep.since
	}
	return time.Duration(now) - m.sleep.all()
}

// all is how long the sleeps took that are over.
func (s *sleep) all() (all time.Duration) {
	for _, p := range s.past {
		all += p.lasted
	}
	return all
}

// late is how much later a timer goes off that is the event of that number.
func (s *sleep) late(event uint64) (late time.Duration) {
	for _, p := range s.past {
		if event <= p.before {
			late += p.lasted
		}
	}
	return late
}

// fallAsleep stops all that runs on the machine, until wake for the same step.
func (m *Machine) fallAsleep(step string) {
	if !m.asleep() {
		m.sleep.steps = map[string]bool{}
		m.sleep.since, m.sleep.before = m.world.engine.now, m.world.engine.seq
	}
	m.sleep.steps[step] = true
}

// wake lets what runs on the machine go on, unless another step has it sleep.
func (m *Machine) wake(step string) {
	if !m.sleep.steps[step] {
		return
	}
	if delete(m.sleep.steps, step); m.asleep() {
		return
	}
	m.wakeUp()
	for _, p := range m.processes() {
		p.goOn()
	}
}

// wakeUp ends the sleep.
func (m *Machine) wakeUp() {
	s := &m.sleep
	s.steps = nil
	s.past = append(s.past, slept{s.before, m.world.engine.now.Sub(s.since)})
	for _, l := range s.limits {
		l.engine.schedule(&l.timer, l.ends-m.ran())
	}
	s.limits = nil
}

// processes are those that run on the machine.
func (m *Machine) processes() (all []*process) {
	if m.etcd != nil {
		all = append(all, m.etcd.process)
	}
	if m.agent != nil {
		all = append(all, m.agent)
	}
	return append(all, m.tools...)
}
