// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Signal sends sig to the tagged command and its descendants. For SIGKILL, SIGSTOP and SIGCONT it returns
// once each process is dead, stopped or running again.
func (m *Machine) Signal(tag string, sig syscall.Signal) (Evidence, error) {
	return m.strike("tagged "+tag, sig, func(p Process) bool { return p.Tag == tag })
}

// SignalExe does the same to every process of a program, found by the name of its file or the one it was
// called by.
func (m *Machine) SignalExe(name string, sig syscall.Signal) (Evidence, error) {
	return m.strike("of program "+name, sig, func(p Process) bool {
		return p.Exe == name || filepath.Base(p.Args[0]) == name
	})
}

// SignalAny does the same to every process that is hit, and says which those are where there is none.
func (m *Machine) SignalAny(which string, sig syscall.Signal, hit func(Process) bool) (Evidence, error) {
	return m.strike(which, sig, hit)
}

// SignalAll does the same to every process on the machine.
func (m *Machine) SignalAll(sig syscall.Signal) (Evidence, error) {
	return m.strike("at all", sig, func(Process) bool { return true })
}

func (m *Machine) strike(which string, sig syscall.Signal, hit func(Process) bool) (Evidence, error) {
	all, err := m.Processes()
	if err != nil {
		return Evidence{}, err
	}
	var ps []Process
	for _, p := range all {
		if hit(p) {
			ps = append(ps, p)
		}
	}
	if len(ps) == 0 {
		return Evidence{}, fmt.Errorf("signal %v did not land: no process %s runs on machine %s", sig, which, m.name)
	}
	// Parents come first, so a supervisor that is hit itself replaces nothing.
	if err := killAll(ps, sig); err != nil {
		return Evidence{}, err
	}
	became, ok := confirm(ps, sig)
	if !ok {
		return Evidence{}, fmt.Errorf("signal %v did not land on machine %s: not %s after %v: %s", sig, m.name, became, patience, Roll(ps))
	}
	return Evidence{What: fmt.Sprintf("signal %v on machine %s", sig, m.name), Detail: became + ": " + Roll(ps), Processes: ps}, nil
}

// confirm looks for what a signal must do; others may be caught, so they are only sent.
func confirm(ps []Process, sig syscall.Signal) (became string, ok bool) {
	check := map[syscall.Signal]struct {
		became string
		is     func(Process) bool
	}{
		syscall.SIGKILL: {"dead", Process.dead},
		syscall.SIGSTOP: {"stopped", func(p Process) bool { return p.stopped() || p.dead() }},
		syscall.SIGCONT: {"running", func(p Process) bool { return !p.stopped() }},
	}
	c, must := check[sig]
	if !must {
		return "sent", true
	}
	return c.became, within(patience, func() bool { return allOf(ps, c.is) })
}

// Freeze stops everything on the machine, and what it forks meanwhile. Its kernel goes on: connections
// stay open and are acknowledged, as with a hung program.
func (m *Machine) Freeze() (Evidence, error) {
	m.whole.Lock()
	defer m.whole.Unlock()
	t, err := m.powered()
	if err != nil {
		return Evidence{}, err
	}
	ps, err := stopBelow(t.pid())
	if err != nil {
		return Evidence{}, fmt.Errorf("freezing machine %s: %w", m.name, err)
	}
	if len(ps) == 0 {
		return Evidence{}, fmt.Errorf("freezing machine %s did not land: nothing runs on it", m.name)
	}
	return Evidence{What: "freeze of machine " + m.name, Detail: "stopped: " + Roll(ps), Processes: ps}, nil
}

// Thaw lets everything on the machine run again.
func (m *Machine) Thaw() (Evidence, error) { return m.SignalAll(syscall.SIGCONT) }

// PowerOff ends every process on the machine at once and takes it off the network. The volume stays.
func (m *Machine) PowerOff() (Evidence, error) {
	m.whole.Lock()
	defer m.whole.Unlock()
	t, err := m.powered()
	if err != nil {
		return Evidence{}, err
	}
	ps := below(t.pid())
	m.tally(t)
	if err := m.cut(t); err != nil {
		return Evidence{}, fmt.Errorf("power loss of machine %s: %w", m.name, err)
	}
	if !within(patience, func() bool { return allOf(ps, Process.dead) }) {
		return Evidence{}, fmt.Errorf("power loss did not land on machine %s: still alive: %s", m.name, Roll(ps))
	}
	return Evidence{What: "power loss of machine " + m.name, Detail: "dead: " + Roll(ps), Processes: ps}, nil
}

// cut ends the host, and with it all in its namespaces; in the fallback, all below it first.
func (m *Machine) cut(t *tether) error {
	if m.lab.limits != nil {
		raze(t.pid())
	}
	if err := t.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-t.gone
	if m.lab.limits == nil {
		m.lab.uncable(m)
	}
	m.mourn(t)
	return nil
}

// Destroy takes the machine away for good, with its volume and what is on it.
func (m *Machine) Destroy() (Evidence, error) {
	e := Evidence{Detail: "it was off"}
	if m.On() {
		var err error
		if e, err = m.PowerOff(); err != nil {
			return Evidence{}, err
		}
	}
	m.whole.Lock()
	defer m.whole.Unlock()
	if err := m.scrap(); err != nil {
		return Evidence{}, fmt.Errorf("destroying machine %s: %w", m.name, err)
	}
	m.lab.mu.Lock()
	defer m.lab.mu.Unlock()
	if m.lab.machines[m.name] == m {
		delete(m.lab.machines, m.name)
	}
	return Evidence{What: "loss of machine " + m.name, Detail: e.Detail + "; its volume is gone", Processes: e.Processes}, nil
}
