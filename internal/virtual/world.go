// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/lockstep"
	"github.com/ringproof/ringproof/internal/trial"
)

// Trial is what the seat is told, in JSON on its standard input.
type Trial struct {
	Plan     ringproof.Plan             `json:"plan"`
	Releases map[string]etcdbin.Release `json:"releases"` // by version: at least those of the plan
	Ringadm  string                     `json:"ringadm"`
	Dir      string                     `json:"dir"` // where the machines are made

	Journal    bool   `json:"journal,omitempty"`    // the subject is to keep one
	Kubernetes string `json:"kubernetes,omitempty"` // the control plane's programs, in one; "": machines are no nodes
	Program    string `json:"program,omitempty"`    // somebody's, that was built of its main package; "": none is on trial

	shipped  trial.Shipped // who has images of its own; nil: the subject hasn't
	subject  trial.Subject
	proxying trial.Proxying // who stands before the API server; nil: nobody does
}

// Said is a line of what the seat says: an event, a log, an error, or that the history
// follows, which is the rest.
type Said struct {
	Event   *ringproof.Event `json:"event,omitempty"`
	Log     string           `json:"log,omitempty"` // its name
	Text    []byte           `json:"text,omitempty"`
	Error   string           `json:"error,omitempty"`
	Journal json.RawMessage  `json:"journal,omitempty"`
	History bool             `json:"history,omitempty"`
}

// World is a plan that is carried out in virtual time. All that a world does it does in
// other processes, so nothing can be asked of it but to carry the plan out.
type World struct {
	ringproof.World // none
	Kit             Kit
	Releases        map[string]etcdbin.Release
	Program         string   // somebody's, that was built of its main package; "": none is on trial
	Seat            []string // the arguments by which this program is the seat
	Trace           func(line string)

	journal *json.RawMessage // where the subject's is put; nil: it keeps none

	mu   sync.Mutex
	logs map[string][]byte
}

// Record has the subject keep a journal, and puts it there in JSON, as it tells it.
func (w *World) Record(into *json.RawMessage) { w.journal = into }

// Name returns virtual.
func (*World) Name() string { return "virtual" }

// Logs are what the world's processes logged, by the names of their files, once it is over.
func (w *World) Logs() map[string][]byte { return w.logs }

// CarryOut runs the plan. The history's trace is the hash of all that happened.
func (w *World) CarryOut(ctx context.Context, plan ringproof.Plan, told func(ringproof.Event)) (h ringproof.History, err error) {
	in, out, err := os.Pipe()
	if err != nil {
		return h, err
	}
	defer in.Close()
	heard := make(chan error, 1)
	go func() {
		var err error
		h, err = w.hear(in, told)
		_, _ = io.Copy(io.Discard, in) // what is said after it must not keep the seat waiting
		heard <- err
	}()
	began := time.Now()
	outcome, err := w.live(ctx, plan, out)
	out.Close()
	said := <-heard
	if err != nil {
		return h, fmt.Errorf("in virtual time: %w", err)
	}
	if said != nil {
		return h, said
	}
	h.Trace, h.Tools.Virtual = fmt.Sprintf("%016x", outcome.Hash), true
	if h.Measures == nil {
		h.Measures = map[string]float64{}
	}
	h.Measures["virtualSeconds"], h.Measures["frames"], h.Measures["grants"] = outcome.Virtual.Seconds(), float64(outcome.Frames), float64(outcome.Grants)
	h.Measures["virtualPerSecond"] = outcome.Virtual.Seconds() / time.Since(began).Seconds()
	return h, nil
}

// hear reads what the seat says.
func (w *World) hear(in io.Reader, told func(ringproof.Event)) (h ringproof.History, err error) {
	d := json.NewDecoder(in)
	for {
		var s Said
		err := d.Decode(&s)
		switch {
		case errors.Is(err, io.EOF):
			return h, errors.New("the run ended before it was over; its seat said no word")
		case err != nil:
			return h, fmt.Errorf("reading what the seat says: %w", err)
		case s.Error != "":
			return h, errors.New(s.Error)
		case s.Event != nil && told != nil:
			told(*s.Event)
		case s.Journal != nil:
			*w.journal = s.Journal
		case s.Log != "":
			w.keep(s)
		case s.History:
			return ringproof.ReadHistory(io.MultiReader(d.Buffered(), in))
		}
	}
}

// keep keeps a log.
func (w *World) keep(s Said) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logs == nil {
		w.logs = map[string][]byte{}
	}
	w.logs[s.Log] = s.Text
}

// live lets the world live that carries the plan out.
func (w *World) live(ctx context.Context, plan ringproof.Plan, out *os.File) (lockstep.Outcome, error) {
	seat := Seat{Path: w.Kit.Self, Args: w.Seat, Seed: plan.Seed, Trace: w.Trace, Log: func(name string, text []byte) { w.keep(Said{Log: name, Text: text}) }}
	return seat.Live(ctx, Trial{Plan: plan, Releases: w.Releases, Ringadm: w.Kit.Ringadm, Journal: w.journal != nil, Kubernetes: w.kubernetes(plan), Program: w.Program}, out)
}

// kubernetes is the control plane that the plan's ring needs.
func (w *World) kubernetes(p ringproof.Plan) string {
	if p.Ring.On == ringproof.OnKubernetes {
		return w.Kit.Kubernetes
	}
	return ""
}

// Sit makes the world inside: in the seat, where the subject is known.
func (t Trial) Sit(subject trial.Subject, version string) *local.World {
	w := &local.World{Releases: t.Releases, Subject: subject, Version: version, As: "virtual", Virtual: true, Labs: newLab(t.Dir)}
	t.subject = subject
	t.shipped, _ = subject.(trial.Shipped)
	if faults.AnyAtSeam(t.Plan) {
		t.proxying, _ = subject.(trial.Proxying)
	}
	if t.Kubernetes != "" {
		w.Labs = newCluster(t)
	}
	return w
}
