// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/store"
)

// Processes is the reference as real processes for the local world: the
// ringadm that ships, or, when a plan needs faults at its seams or a mutant is
// on trial, the same program with its seams decorated (the hidden command
// "subject" of Self).
type Processes struct {
	Ringadm string   // path of the binary
	Self    string   // path of the harness's own binary
	Mutants []string // names

	plan  ringproof.Plan
	dir   string
	store string
	empty map[string]bool // steps that hold the store empty

	mu     sync.Mutex
	faults map[string]seam.Faults // by machine
}

var _ trial.Subject = (*Processes)(nil)

// Etcd is where ringadm keeps etcd, and what it prints.
func (p *Processes) Etcd() trial.Etcd {
	e := trial.UsualEtcd()
	e.Output = func(run string) string { return filepath.Join(run, "etcd.log") }
	return e
}

// Stop is what an init system does with ringadm.
func (p *Processes) Stop() trial.Stop { return trial.UsualStop() }

// Supports always returns nil: the reference can be asked for every operation, and
// has every seam.
func (p *Processes) Supports(ringproof.Step) error { return nil }

// Seed makes the store, as an operator would.
func (p *Processes) Seed(ctx context.Context, site trial.Site, _ trial.Run) error {
	p.plan, p.dir, p.store = site.Plan, site.Dir, "file://"+filepath.Join(site.Dir, "store")
	p.empty = map[string]bool{}
	if err := p.makeStore(ctx); err != nil || !slices.ContainsFunc(p.plan.Steps, putsStoreBack) {
		return err
	}
	return copyFiles(p.storeDir()+madeStore, p.storeDir())
}

func (p *Processes) makeStore(ctx context.Context) error {
	_, err := p.ringadm(ctx, append([]string{"init", p.store}, pairs(specOf(p.plan.Ring))...)...)
	return err
}

// ringadm runs the command line that a person would.
func (p *Processes) ringadm(ctx context.Context, args ...string) (string, error) {
	var output, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, p.Ringadm, args...)
	cmd.Stdout, cmd.Stderr = &output, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ringadm %s: %s (%w)", strings.Join(args, " "), strings.TrimSpace(complaint.String()), err)
	}
	return strings.TrimSpace(output.String()), nil
}

// decorated reports whether the plan needs the seams.
func (p *Processes) decorated() bool {
	return len(p.Mutants) > 0 || slices.ContainsFunc(p.plan.Steps, faults.AtSeam)
}

// Agent is the command line for one machine.
func (p *Processes) Agent(m trial.Machine) trial.Program {
	args := []string{p.Ringadm}
	if p.decorated() {
		args = []string{p.Self, "subject", "--faults", filepath.Join(m.Run, "faults.json"), "--fired", filepath.Join(p.dir, "fired-"), "--journal", p.journal()}
		for _, name := range p.Mutants {
			args = append(args, "--mutant", name)
		}
		args = append(args, "--")
	}
	args = append(args, "auto", p.store, "--machine", m.Name, "--address", m.Address, "--data", m.DataDir, "--run", m.Run)
	if m.Plain {
		args = append(args, "--no-mount")
	}
	for version, binary := range m.Etcd {
		args = append(args, "--etcd", version+"="+binary)
	}
	if m.DryRun {
		args = append(args, "--dry-run")
	}
	return trial.Program{Args: args}
}

func (p *Processes) journal() string { return filepath.Join(p.dir, "journal") }

// Begin has a journal kept: nothing else is done with a probe.
func (*Processes) Begin() ringproof.Fault { return seam.Probe() }

// Journal is what the agents did and decided while the probe was set.
func (p *Processes) Journal() (*ringproof.Journal, error) { return seam.Read(p.journal()) }

func (p *Processes) file(machine string) string {
	return filepath.Join(p.dir, machine, "faults.json")
}

// Inject writes what the decorated agent of the machine reads.
func (p *Processes) Inject(f ringproof.Seams, machine string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults == nil {
		p.faults = map[string]seam.Faults{}
	}
	p.faults[machine] = p.faults[machine].With(seam.Of(f, machine))
	return seam.WriteFaults(p.file(machine), p.faults[machine])
}

// Ask carries out an operation as an operator would.
func (p *Processes) Ask(ctx context.Context, op ringproof.Op, targets []string, run trial.Run) (string, error) {
	switch {
	case respecs(op.Kind):
		_, pairs, _ := change(store.Spec{}, op, hosts(p.plan.Ring, targets))
		return p.respec(ctx, pairs)
	case op.Kind == ringproof.OpMoveLeader:
		return p.moveLeader(ctx, p.plan.Ring.Host(targets[0]), run)
	}
	return "", fmt.Errorf("%s is no operation of the reference", op.Kind)
}

func (p *Processes) respec(ctx context.Context, pairs []string) (string, error) {
	said, err := p.ringadm(ctx, append([]string{"spec", p.store}, pairs...)...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && strings.Contains(err.Error(), "refused") {
		return "", fmt.Errorf("%w: %w", trial.ErrRefused, err)
	}
	if errors.As(err, &exit) && strings.Contains(err.Error(), store.ErrExists.Error()) {
		return "", fmt.Errorf("%w: %w", ringproof.ErrConflict, err)
	}
	return said, err
}

// moveLeader finds the member's ID in ringadm's own list.
func (p *Processes) moveLeader(ctx context.Context, machine string, run trial.Run) (string, error) {
	ringadm, err := p.operator(ctx, machine, run)
	if err != nil {
		return "", err
	}
	listed, err := ringadm("member", "list", "--json")
	if err != nil {
		return "", err
	}
	var members []struct{ ID, Machine string }
	if err := json.Unmarshal([]byte(listed), &members); err != nil {
		return "", err
	}
	for _, m := range members {
		if m.Machine == machine {
			return ringadm("member", "move-leader", m.ID)
		}
	}
	return "", fmt.Errorf("no member is on %s", machine)
}

// Snapshot has ringadm write the file.
func (p *Processes) Snapshot(ctx context.Context, file string, run trial.Run) (string, error) {
	ringadm, err := p.operator(ctx, "", run)
	if err != nil {
		return "", err
	}
	return ringadm("snapshot", file)
}

// operator runs ringadm as who operates the ring, who reaches its members. Where machines are
// reached by name the operator sits at the machine, or at any: nobody else resolves the names.
func (p *Processes) operator(ctx context.Context, machine string, run trial.Run) (func(args ...string) (string, error), error) {
	opened, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	urls, err := clientURLs(ctx, opened, p.plan.Ring.Security, "")
	if err != nil {
		return nil, err
	}
	secure, err := p.certificate(ctx, opened)
	if err != nil {
		return nil, err
	}
	reach := []string{"--endpoints", strings.Join(urls, ","), "--data", secure}
	if p.plan.Ring.Domain == "" {
		return func(args ...string) (string, error) { return p.ringadm(ctx, append(args, reach...)...) }, nil
	}
	return func(args ...string) (string, error) {
		return run(machine, func(trial.Machine) trial.Program {
			return trial.Program{Args: slices.Concat([]string{p.Ringadm}, args, reach)}
		})
	}, nil
}

// Reset empties a machine's disk as its operator would, with what the agent left
// there.
func (p *Processes) Reset(ctx context.Context, m trial.Machine, endpoint string, run trial.Run) (string, error) {
	opened, err := p.open(ctx)
	if err != nil {
		return "", err
	}
	defer opened.Close()
	urls, err := clientURLs(ctx, opened, p.plan.Ring.Security, p.plan.Ring.Host(endpoint))
	if err != nil {
		return "", err
	}
	return reset(func(member string) (string, error) {
		args := []string{p.Ringadm, "reset", "--data", m.DataDir, "--run", m.Run, "--endpoints", strings.Join(urls, ",")}
		if member != "" {
			args = append(args, member)
		}
		return run(m.Name, func(trial.Machine) trial.Program { return trial.Program{Args: args} })
	})
}

func (p *Processes) open(ctx context.Context) (store.Blob, error) { return store.Open(ctx, p.store) }

// certificate writes an operator's client certificate where ringadm looks for
// one, and returns the directory; "" for a plain ring.
func (p *Processes) certificate(ctx context.Context, s store.Store) (string, error) {
	if p.plan.Ring.Security == "plain" {
		return "", nil
	}
	authority, pair, err := issue(ctx, s, time.Now())
	if err != nil {
		return "", err
	}
	dir := filepath.Join(p.dir, "operator")
	return dir, pki.Write(filepath.Join(dir, "pki"), pki.Files{CA: authority.CertPEM(), Pairs: map[string]pki.Pair{"client": pair}})
}

// Credentials are those of the harness's clients.
func (p *Processes) Credentials(ctx context.Context) (*tls.Config, error) {
	if p.plan.Ring.Security == "plain" {
		return nil, nil
	}
	opened, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	authority, pair, err := issue(ctx, opened, time.Now())
	if err != nil {
		return nil, err
	}
	return pki.ClientTLS(authority.CertPEM(), pair)
}

// Hear turns a line of an agent's log into an event.
func (p *Processes) Hear(line string) (ringproof.Event, bool) {
	var l host.Line
	if json.Unmarshal([]byte(line), &l) != nil {
		return ringproof.Event{}, false
	}
	return hear(l, p.plan.Ring)
}
