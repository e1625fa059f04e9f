// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package foreign puts a program on trial that ringproof doesn't know, by what a file says
// of it: how it is started, asked and understood, on machines of the local world
// ([Processes]) or as an operator on Kubernetes in the virtual one ([Pods]). It is linked
// with nothing of the harness, so it has no seams, and tells only what it prints.
package foreign

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/scenarios"
)

// Processes is such a subject as real processes.
type Processes struct {
	*Promise
	Main string // what was built of its main package; "": it has none

	site   trial.Site
	tells  []telling
	secure *tls.Config // what the run's clients show; nil: nobody asks
}

// telling is a line that is an event.
type telling struct {
	line  *regexp.Regexp
	event ringproof.Event
}

var _ trial.Subject = (*Processes)(nil)

// New returns the subject that the file describes.
func New(s *scenarios.Subject) *Processes {
	return &Processes{Promise: &Promise{s}, tells: tellings(s)}
}

func tellings(s *scenarios.Subject) (all []telling) {
	for _, t := range s.Spec.Tells {
		all = append(all, telling{regexp.MustCompile(t.Line), ringproof.Event{Kind: ringproof.EventKind(t.Event), Action: string(t.Action)}})
	}
	return all
}

// heard finds the event that a line tells.
func heard(all []telling, line string) (ringproof.Event, bool) {
	for _, t := range all {
		if t.line.MatchString(line) {
			e := t.event
			e.Text = line
			return e, true
		}
	}
	return ringproof.Event{}, false
}

// Etcd is where the file says that it is.
func (p *Processes) Etcd() trial.Etcd {
	place := p.subject.Spec.Etcd
	e := trial.UsualEtcd()
	e.Program, e.Dir, e.Client, e.Peer = place.Program, place.DataDir, place.Ports.Client, place.Ports.Peer
	if place.Output != "" {
		e.Output = func(run string) string { return filepath.Join(run, place.Output) }
	}
	return e
}

var signals = map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT, "SIGHUP": syscall.SIGHUP, "SIGQUIT": syscall.SIGQUIT}

// Stop is how the file says that it is told to end.
func (p *Processes) Stop() trial.Stop {
	return trial.Stop{Signal: signals[p.subject.Spec.Stop.Signal], Grace: p.subject.Spec.Stop.Grace.Std()}
}

// Seed gives the machines their certificates, and does on the first what a person does
// once.
func (p *Processes) Seed(_ context.Context, site trial.Site, run trial.Run) (err error) {
	p.site = site
	if site.Plan.Ring.Security == "tls" {
		if p.secure, err = certify(site.Machines); err != nil {
			return err
		}
	}
	if p.subject.Spec.Create == nil {
		return nil
	}
	_, err = run(site.Machines[0].Name, p.command(*p.subject.Spec.Create, asked{}))
	return err
}

// Agent is what is kept running on a machine.
func (p *Processes) Agent(m trial.Machine) trial.Program {
	return p.command(p.subject.Spec.Start, asked{})(m)
}

// errSeamless is nobody's to see: a step that needs seams isn't supported.
var errSeamless = errors.New("it has no seams: it isn't linked with ringproof")

// Inject is refused.
func (p *Processes) Inject(ringproof.Seams, string) error { return errSeamless }

// asked is what an operation adds to the variables of the machine where it is asked.
type asked struct {
	values map[string]string
	flags  []string // in the place of the machine's own; nil: those
}

// Ask runs the operation's command where a person can sit.
func (p *Processes) Ask(_ context.Context, op ringproof.Op, targets []string, run trial.Run) (string, error) {
	a := asked{values: map[string]string{"To": strconv.Itoa(op.To)}}
	if len(targets) > 0 {
		target := p.machine(p.site.Plan.Ring.Host(targets[0]))
		a.values["Target"], a.values["TargetAddress"] = target.Name, target.Address
		a.values["Version"] = cmp.Or(op.Version, p.own(target).Version)
		a.flags = flags(op.Flags)
	}
	return p.refusable(run("", p.command(*p.subject.Spec.Operations.Of(op.Kind), a)))
}

// Reset empties a machine's disk there, by the subject's own command.
func (p *Processes) Reset(_ context.Context, m trial.Machine, _ string, run trial.Run) (string, error) {
	a := asked{values: map[string]string{"Target": m.Name, "TargetAddress": m.Address}}
	return p.refusable(run(m.Name, p.command(*p.subject.Spec.Operations.Reset, a)))
}

// Snapshot writes the file by the subject's own command.
func (p *Processes) Snapshot(_ context.Context, file string, run trial.Run) (string, error) {
	return p.refusable(run("", p.command(*p.subject.Spec.Operations.Snapshot, asked{values: map[string]string{"File": file}})))
}

// refusable tells by the exit code what was refused from what went wrong.
func (p *Processes) refusable(said string, err error) (string, error) {
	var failed trial.Failure
	if errors.As(err, &failed) && slices.Contains(p.subject.Spec.Refused, failed.Code) {
		return "", fmt.Errorf("%w: %w", trial.ErrRefused, err)
	}
	return said, err
}

// Hear finds the event that a line tells.
func (p *Processes) Hear(line string) (ringproof.Event, bool) { return heard(p.tells, line) }

// Credentials are those that the run made for itself.
func (p *Processes) Credentials(context.Context) (*tls.Config, error) { return p.secure, nil }

func (p *Processes) machine(name string) trial.Machine {
	i := slices.IndexFunc(p.site.Machines, func(m trial.Machine) bool { return m.Name == name })
	if i < 0 {
		return trial.Machine{Name: name}
	}
	return p.site.Machines[i]
}

// command is the command as it is run on a machine, with what was asked for.
func (p *Processes) command(c scenarios.Command, a asked) func(trial.Machine) trial.Program {
	return func(m trial.Machine) trial.Program {
		values, list := p.values(m), a.flags
		maps.Copy(values, a.values)
		if list == nil {
			list = flags(p.own(m).Flags)
		}
		args, env := c.Fill(values, map[string][]string{"Flags": list})
		return trial.Program{Args: args, Env: env}
	}
}

// own is what the plan gives the machine's etcd.
func (p *Processes) own(m trial.Machine) ringproof.Own {
	return p.site.Plan.Ring.Own(p.site.Plan.Ring.Machine(m.Name))
}

// values are the variables of a machine.
func (p *Processes) values(m trial.Machine) map[string]string {
	ring, etcd := p.site.Plan.Ring, p.subject.Spec.Etcd
	version := p.own(m).Version
	values := map[string]string{
		"Machine": m.Name, "Address": m.Address, "DataDir": m.DataDir, "RunDir": m.Run, "SharedDir": p.site.Dir,
		"SubjectDir": filepath.Dir(p.subject.File), "Main": p.Main, "Version": version, "Etcdctl": m.Etcdctl[version],
		"Etcd": filepath.Join(m.Run, "bin", version, "etcd"), // of a machine without the release, nothing
		"Size": strconv.Itoa(ring.Size), "Scheme": scheme(ring), "Certificates": certificates(m), "Token": p.site.Plan.Cell,
		"ClientPort": strconv.Itoa(etcd.Ports.Client), "PeerPort": strconv.Itoa(etcd.Ports.Peer),
		"Heartbeat": millis(ring.Heartbeat, 100), "Election": millis(ring.Election, 1000),
		"SnapshotCount": strconv.Itoa(orElse(ring.SnapCount, 10_000)), "ReplaceAfter": ring.ReplaceAfter.Std().String(),
	}
	if path, installed := m.Etcd[version]; installed {
		values["Etcd"] = path
	}
	maps.Copy(values, p.lists(m))
	return values
}

// lists are the variables that name every machine, and its place among them.
func (p *Processes) lists(m trial.Machine) map[string]string {
	ring, etcd := p.site.Plan.Ring, p.subject.Spec.Etcd
	var all, initialMembers, initial, endpoints []string
	index := 0
	for i, other := range p.site.Machines {
		if other.Name == m.Name {
			index = i + 1
		}
		all = append(all, other.Name)
		endpoints = append(endpoints, fmt.Sprintf("%s://%s:%d", scheme(ring), other.Address, etcd.Ports.Client))
		if i < ring.Size {
			initialMembers = append(initialMembers, other.Name)
			initial = append(initial, fmt.Sprintf("%s=%s://%s:%d", other.Name, scheme(ring), other.Address, etcd.Ports.Peer))
		}
	}
	between := func(list []string) string { return strings.Join(list, ",") }
	return map[string]string{"Index": strconv.Itoa(index), "Machines": between(all), "Founders": between(initialMembers),
		"InitialCluster": between(initial), "Endpoints": between(endpoints)}
}

func flags(values map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, "--"+name+"="+values[name])
	}
	return all
}

func scheme(r ringproof.RingSpec) string {
	if r.Security == "tls" {
		return "https"
	}
	return "http"
}

func millis(d ringproof.Duration, usual int) string {
	return strconv.Itoa(orElse(int(d.Std().Milliseconds()), usual))
}

func orElse(n, usual int) int {
	if n == 0 {
		return usual
	}
	return n
}
