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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/reference/auto"
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
}

var _ local.Subject = (*Processes)(nil)

// Seed makes the store, as an operator would.
func (p *Processes) Seed(ctx context.Context, plan ringproof.Plan, dir string) error {
	p.plan, p.dir, p.store = plan, dir, "file://"+filepath.Join(dir, "store")
	r := plan.Ring
	args := []string{"seed", p.store, fmt.Sprintf("nodes=%d", r.Size), "version=" + r.Version, "security=" + r.Security,
		"replace-after=" + r.ReplaceAfter.String(), fmt.Sprintf("snapshot-count=%d", r.SnapCount)}
	if r.Heartbeat > 0 {
		args = append(args, "heartbeat="+r.Heartbeat.String())
	}
	if r.Election > 0 {
		args = append(args, "election="+r.Election.String())
	}
	_, err := p.ringadm(ctx, args...)
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
		case ringproof.FaultStoreOutage, ringproof.FaultStoreStale, ringproof.FaultAgentCrash:
			return true
		}
	}
	return len(p.Mutants) > 0
}

// Agent is the command line for one machine.
func (p *Processes) Agent(m local.Machine) []string {
	args := []string{p.Ringadm}
	if p.decorated() {
		args = []string{p.Self, "subject", "--faults", p.faults(m.Name)}
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

func (p *Processes) faults(machine string) string {
	return filepath.Join(p.dir, machine, "faults.json")
}

// Harm writes what the decorated agent of the machine reads.
func (p *Processes) Harm(f local.Seams, machine string) error {
	file := Faults{Step: f.Step, StoreOutage: f.StoreOutage, StoreStale: f.StoreStale}
	if c := f.Crash; c != nil {
		file.Crash = &Crash{Step: f.Step, Action: c.Action, Phase: c.Phase, Nth: max(c.Nth, 1), Fired: filepath.Join(p.dir, "fired-"+f.Step)}
	}
	text, err := json.Marshal(file)
	if err != nil {
		return err
	}
	path := p.faults(machine)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Ask carries out an operation as an operator would.
func (p *Processes) Ask(ctx context.Context, op ringproof.Op, targets []string) (string, error) {
	switch op.Kind {
	case ringproof.OpScale:
		return p.respec(ctx, fmt.Sprintf("nodes=%d", op.To))
	case ringproof.OpReplace:
		return p.respec(ctx, "retire="+targets[0])
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
	machines, err := auto.Machines(ctx, opened)
	if err != nil {
		return "", err
	}
	secure, err := p.certificate(ctx, opened)
	if err != nil {
		return "", err
	}
	scheme := "https"
	if secure == "" {
		scheme = "http"
	}
	var endpoints []string
	for _, m := range machines {
		endpoints = append(endpoints, auto.URL(scheme, m.Address, 2379))
	}
	reach := []string{"--endpoints", strings.Join(endpoints, ","), "--data", secure}
	listed, err := p.ringadm(ctx, append([]string{"member", "list", "--json"}, reach...)...)
	if err != nil {
		return "", err
	}
	var members []struct {
		ID      uint64
		Machine string
	}
	if err := json.Unmarshal([]byte(listed), &members); err != nil {
		return "", err
	}
	for _, m := range members {
		if m.Machine == machine {
			return p.ringadm(ctx, append([]string{"member", "move-leader", fmt.Sprintf("%x", m.ID)}, reach...)...)
		}
	}
	return "", fmt.Errorf("no member is on %s", machine)
}

func (p *Processes) open(ctx context.Context) (store.Blob, error) { return store.Open(ctx, p.store) }

// certificate writes an operator's client certificate where ringadm looks for
// one, and returns the directory; "" for a plain ring.
func (p *Processes) certificate(ctx context.Context, s store.Store) (string, error) {
	if p.plan.Ring.Security == "plain" {
		return "", nil
	}
	authority, pair, err := p.issue(ctx, s)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(p.dir, "operator")
	return dir, pki.Write(filepath.Join(dir, "pki"), pki.Files{CA: authority.CertPEM(), Pairs: map[string]pki.Pair{"client": pair}})
}

func (p *Processes) issue(ctx context.Context, s store.Store) (pki.Authority, pki.Pair, error) {
	n, record, err := store.Log[store.Authority]{Store: s, Prefix: auto.AuthorityPrefix}.Latest(ctx)
	if err != nil || n == 0 {
		return pki.Authority{}, pki.Pair{}, fmt.Errorf("the store holds %d authorities: %w", n, err)
	}
	authority, err := pki.ParseAuthority(record.CertPEM, record.KeyPEM)
	if err != nil {
		return pki.Authority{}, pki.Pair{}, err
	}
	pair, err := authority.IssueClient(time.Now(), pki.Subject{CommonName: "ringproof"}, 0)
	return authority, pair, err
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
	authority, pair, err := p.issue(ctx, opened)
	if err != nil {
		return nil, err
	}
	return pki.ClientTLS(authority.CertPEM(), pair)
}

// heard are the agents' events that the harness has the same names for.
var heard = map[host.Event]ringproof.EventKind{
	host.EventWaiting: ringproof.EventWaiting, host.EventHalted: ringproof.EventHalted, host.EventRefused: ringproof.EventRefused,
	host.EventBoot: ringproof.EventBoot, host.EventActionBegun: ringproof.EventActionBegun, host.EventActionDone: ringproof.EventActionDone,
	host.EventActionFailed: ringproof.EventActionFailed, host.EventDiskReplaced: ringproof.EventDiskReplaced,
	"fault-landed": ringproof.EventFaultLanded,
}

// Hear turns a line of an agent's log into an event.
func (p *Processes) Hear(line string) (ringproof.Event, bool) {
	var l host.Line
	if json.Unmarshal([]byte(line), &l) != nil {
		return ringproof.Event{}, false
	}
	kind, ok := heard[l.Event]
	if !ok {
		return ringproof.Event{}, false
	}
	e := ringproof.Event{Kind: kind, Machine: l.Machine, Action: l.Action, Command: l.Command, Text: l.Text, Step: l.Step}
	if l.Member != "" {
		_ = e.Member.UnmarshalText([]byte(l.Member))
	}
	if l.Target != "" && l.Target != l.Machine {
		// An action is told of the machine that it is about.
		e.Machine, e.Text = l.Target, strings.TrimPrefix(l.Text+", by "+l.Machine, ", ")
	}
	return e, true
}
