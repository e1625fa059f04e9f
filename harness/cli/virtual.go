// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/internal/virtual"
)

// Virtual is the world of [Local] in virtual time: for the reference, and for whatever
// program of Go's can be built with another standard library.
func Virtual() World {
	return World{
		Name:       "virtual",
		Doc:        "real etcd and the subject's real processes, each in lockstep under one virtual clock: the same in every run of a plan, however busy the host is",
		Needs:      "Linux on amd64, Go 1.26 and these sources; user namespaces, or root, for full disks",
		Short:      "real etcd in virtual time",
		Repeatable: true,
		Takes:      startable,
		Supports:   supports("virtual"),
		Runs:       runsVirtually,
		Build:      virtual.Build,
		Open:       openVirtual,
	}
}

// runsVirtually says why a plan's ring can't be had in virtual time.
func runsVirtually(p ringproof.Plan) error {
	if p.Ring.On != ringproof.OnKubernetes {
		return local.RunsOnMachines(p)
	}
	return local.RunsOnNodes(p, lacking())
}

func openVirtual(t Trial) (ringproof.World, error) {
	w := &virtual.World{Kit: t.kit, Releases: t.releasesOf(t.Plan), Program: t.kit.Programs[t.main], Seat: []string{seatName}, Trace: t.traced}
	if file := os.Getenv(traceEnv); file != "" {
		f, err := os.Create(file)
		if err != nil {
			return nil, err
		}
		w.Trace = func(line string) { fmt.Fprintln(f, line) }
	}
	return w, nil
}

// traceEnv names the environment variable with the file into which all that happens in a
// world is written, a line each: for whoever looks why two runs of one plan differ.
const traceEnv = "RINGPROOF_TRACE"

const seatName = "seat"

// seatCommand is where a plan is carried out in virtual time.
func (p *program) seatCommand() *cobra.Command {
	return &cobra.Command{
		Use:    seatName,
		Short:  "carry out a plan of the virtual world: the trial on standard input, what happens on standard output, in JSON",
		Hidden: true,
		Args:   none,
		RunE:   func(c *cobra.Command, _ []string) error { return environment(p.sit(c.Context(), os.Stdin, os.Stdout)) },
	}
}

// partCommand is a part of a cluster in virtual time, which a file describes.
func (p *program) partCommand(name string) *cobra.Command {
	return &cobra.Command{
		Use:    name + " FILE",
		Short:  "be a part of a cluster in virtual time",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return environment(virtual.BePart(c.Context(), name, args[0], os.Stdout))
		},
	}
}

// partCommands are those of a node and of what a cluster has beside its control plane.
func (p *program) partCommands() []*cobra.Command {
	var all []*cobra.Command
	for _, name := range virtual.OwnParts() {
		all = append(all, p.partCommand(name))
	}
	return all
}

// sit carries out the trial, and says how it went.
func (p *program) sit(ctx context.Context, in io.Reader, out io.Writer) error {
	say := json.NewEncoder(out)
	var t virtual.Trial
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return say.Encode(virtual.Said{Error: err.Error()})
	}
	h, logs, journal, err := p.carryOut(ctx, t, func(e ringproof.Event) { _ = say.Encode(virtual.Said{Event: &e}) })
	if err != nil {
		return say.Encode(virtual.Said{Error: err.Error()})
	}
	if journal != nil {
		if err := say.Encode(virtual.Said{Journal: journal}); err != nil {
			return err
		}
	}
	for name, text := range logs { // order: into a map, outside
		if err := say.Encode(virtual.Said{Log: name, Text: text}); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	if err := h.Write(&text); err != nil {
		return say.Encode(virtual.Said{Error: err.Error()})
	}
	if err := say.Encode(virtual.Said{History: true}); err != nil {
		return err
	}
	_, err = text.WriteTo(out)
	return err
}

func (p *program) carryOut(ctx context.Context, t virtual.Trial, told func(ringproof.Event)) (h ringproof.History, logs map[string][]byte, journal json.RawMessage, err error) {
	f := runFlags{program: p, ringadm: t.Ringadm, built: t.Program}
	subject, err := f.processes(t.Plan)
	if err != nil {
		return h, nil, nil, err
	}
	read, err := journalled(&t.Plan, subject, t.Journal)
	if err != nil {
		return h, nil, nil, err
	}
	tested, err := f.tried(t.Plan)
	if err != nil {
		return h, nil, nil, err
	}
	if in, ok := subject.(trial.Imaged); ok {
		if err := os.MkdirAll(t.Dir, 0o700); err != nil {
			return h, nil, nil, err
		}
		if t.Ringadm, err = in.Image(t.Plan, t.Ringadm, t.Dir); err != nil {
			return h, nil, nil, err
		}
	}
	w := t.Sit(subject, version())
	h, err = harness.Run(ctx, t.Plan, w, harness.Options{OnEvent: told, Seen: tested.seen})
	if err != nil || !t.Journal {
		return h, w.Logs(), nil, err
	}
	kept, err := read()
	if err == nil {
		journal, err = json.Marshal(kept)
	}
	return h, w.Logs(), journal, err
}
