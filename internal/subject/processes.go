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
	"strings"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/ring"
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

	mu     sync.Mutex
	faults map[string]Faults // by machine
}

var _ local.Subject = (*Processes)(nil)

// Seed makes the store, as an operator would.
func (p *Processes) Seed(ctx context.Context, plan ringproof.Plan, dir string) error {
	p.plan, p.dir, p.store = plan, dir, "file://"+filepath.Join(dir, "store")
	_, err := p.ringadm(ctx, append([]string{"seed", p.store}, pairs(specOf(plan.Ring))...)...)
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

// decorated tells whether the plan needs the seams.
func (p *Processes) decorated() bool {
	for _, s := range p.plan.Steps {
		if s.Fault == nil {
			continue
		}
		switch s.Fault.Kind {
		case ringproof.FaultStoreOutage, ringproof.FaultStoreStale, ringproof.FaultAgentCrash, ringproof.FaultStaleView, ringproof.FaultSkippedView:
			return true
		}
	}
	return len(p.Mutants) > 0
}

// Agent is the command line for one machine.
func (p *Processes) Agent(m local.Machine) []string {
	args := []string{p.Ringadm}
	if p.decorated() {
		args = []string{p.Self, "subject", "--faults", p.file(m.Name), "--fired", filepath.Join(p.dir, "fired-")}
		for _, name := range p.Mutants {
			args = append(args, "--mutant", name)
		}
		args = append(args, "--")
	}
	args = append(args, "auto", p.store, "--machine", m.Name, "--address", m.Address, "--data", m.DataDir, "--run", m.Run)
	for version, binary := range m.Etcd {
		args = append(args, "--etcd", version+"="+binary)
	}
	return args
}

func (p *Processes) file(machine string) string {
	return filepath.Join(p.dir, machine, "faults.json")
}

// Harm writes what the decorated agent of the machine reads.
func (p *Processes) Harm(f local.Seams, machine string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults == nil {
		p.faults = map[string]Faults{}
	}
	p.faults[machine] = p.faults[machine].with(setting(f.Step, f.StoreOutage, f.StoreStale, f.Fault, machine))
	return writeFaults(p.file(machine), p.faults[machine])
}

// Ask carries out an operation as an operator would.
func (p *Processes) Ask(ctx context.Context, op ringproof.Op, targets []string) (string, error) {
	switch op.Kind {
	case ringproof.OpScale, ringproof.OpReplace:
		_, pair := change(store.Spec{}, op, targets)
		return p.respec(ctx, pair)
	case ringproof.OpMoveLeader:
		return p.moveLeader(ctx, targets[0])
	}
	return "", fmt.Errorf("%s is no operation of the reference", op.Kind)
}

func (p *Processes) respec(ctx context.Context, pair string) (string, error) {
	said, err := p.ringadm(ctx, "spec", p.store, pair)
	var exit *exec.ExitError
	if errors.As(err, &exit) && strings.Contains(err.Error(), "refused") {
		return "", fmt.Errorf("%w: %w", local.ErrRefused, err)
	}
	return said, err
}

// moveLeader finds the member's ID in ringadm's own list.
func (p *Processes) moveLeader(ctx context.Context, machine string) (string, error) {
	opened, err := p.open(ctx)
	if err != nil {
		return "", err
	}
	defer opened.Close()
	urls, err := clientURLs(ctx, opened, p.plan.Ring.Security)
	if err != nil {
		return "", err
	}
	secure, err := p.certificate(ctx, opened)
	if err != nil {
		return "", err
	}
	reach := []string{"--endpoints", strings.Join(urls, ","), "--data", secure}
	listed, err := p.ringadm(ctx, append([]string{"member", "list", "--json"}, reach...)...)
	if err != nil {
		return "", err
	}
	var members []ring.Member
	if err := json.Unmarshal([]byte(listed), &members); err != nil {
		return "", err
	}
	id, err := memberOn(members, machine)
	if err != nil {
		return "", err
	}
	return p.ringadm(ctx, append([]string{"member", "move-leader", id.String()}, reach...)...)
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
	return hear(l)
}
