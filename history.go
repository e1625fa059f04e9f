// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// History is all that happened in a run: what was planned, what was done, what
// clients saw and what the ring became. Checks judge it and nothing else.
type History struct {
	Plan         Plan
	Tools        Tools
	Events       []Event
	Operations   []Operation // in the order of their calls
	Watches      []Watch
	Observations []Observation
	Evidence     Evidence
	Measures     map[string]float64 // figures of the run, by name; see reports
	Trace        string             // of a world that repeats itself: its hash in hex, how many events; the same for the same plan and build
}

// Tools records what the run was made with.
type Tools struct {
	Ringproof string            `json:"ringproof"` // version of the harness
	Go        string            `json:"go"`
	Etcd      map[string]string `json:"etcd"`              // release → sha256 of its etcd binary
	Subject   []string          `json:"subject,omitempty"` // command line of the subject on one machine
	Virtual   bool              `json:"virtual,omitempty"` // time was simulated: nothing was late but what the plan made late
}

// line is one line of a saved history: exactly one field is set.
type line struct {
	Format      string             `json:"format,omitempty"`
	Plan        *Plan              `json:"plan,omitempty"`
	Tools       *Tools             `json:"tools,omitempty"`
	Event       *Event             `json:"event,omitempty"`
	Operation   *Operation         `json:"operation,omitempty"`
	Watch       *Watch             `json:"watch,omitempty"`
	Observation *Observation       `json:"observation,omitempty"`
	Evidence    *Evidence          `json:"evidence,omitempty"`
	Measures    map[string]float64 `json:"measures,omitempty"`
	Trace       string             `json:"trace,omitempty"`
}

const historyFormat = "ringproof-history/v1"

// Write saves h as JSON lines: format, plan, tools, then one line an event,
// operation, watch and observation, then the measures and the trace, and last
// the evidence, which tells a reader that the file is whole.
func (h History) Write(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<16)
	encoder := json.NewEncoder(out)
	lines := []line{{Format: historyFormat}, {Plan: &h.Plan}, {Tools: &h.Tools}}
	for _, l := range lines {
		if err := encoder.Encode(l); err != nil {
			return fmt.Errorf("writing history: %w", err)
		}
	}
	for each := range h.lines() {
		if err := encoder.Encode(each); err != nil {
			return fmt.Errorf("writing history: %w", err)
		}
	}
	return out.Flush()
}

func (h History) lines() func(func(line) bool) {
	return func(yield func(line) bool) {
		for i := range h.Events {
			if !yield(line{Event: &h.Events[i]}) {
				return
			}
		}
		for i := range h.Operations {
			if !yield(line{Operation: &h.Operations[i]}) {
				return
			}
		}
		for i := range h.Watches {
			if !yield(line{Watch: &h.Watches[i]}) {
				return
			}
		}
		for i := range h.Observations {
			if !yield(line{Observation: &h.Observations[i]}) {
				return
			}
		}
		if len(h.Measures) > 0 && !yield(line{Measures: h.Measures}) {
			return
		}
		if h.Trace != "" && !yield(line{Trace: h.Trace}) {
			return
		}
		yield(line{Evidence: &h.Evidence})
	}
}

// ReadHistory reads what Write wrote. A file that ends before its evidence is
// refused: what is missing is unknown.
func ReadHistory(r io.Reader) (History, error) {
	var h History
	decoder := json.NewDecoder(bufio.NewReaderSize(r, 1<<16))
	decoder.DisallowUnknownFields()
	var first line
	if err := decoder.Decode(&first); err != nil || first.Format != historyFormat {
		return History{}, fmt.Errorf("reading history: the first line is not {\"format\":%q}; is this a history.jsonl of a run?", historyFormat)
	}
	whole := false
	for n := 2; ; n++ {
		var l line
		err := decoder.Decode(&l)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return History{}, fmt.Errorf("reading history: record %d: %w", n, err)
		}
		if err := h.add(l); err != nil {
			return History{}, fmt.Errorf("reading history: record %d: %w", n, err)
		}
		whole = whole || l.Evidence != nil
	}
	if !whole {
		return History{}, errors.New("reading history: it ends before its evidence; the run was cut off, run the plan again")
	}
	return h, nil
}

func (h *History) add(l line) error {
	switch {
	case l.Plan != nil:
		h.Plan = *l.Plan
	case l.Tools != nil:
		h.Tools = *l.Tools
	case l.Event != nil:
		h.Events = append(h.Events, *l.Event)
	case l.Operation != nil:
		h.Operations = append(h.Operations, *l.Operation)
	case l.Watch != nil:
		h.Watches = append(h.Watches, *l.Watch)
	case l.Observation != nil:
		h.Observations = append(h.Observations, *l.Observation)
	case l.Measures != nil:
		h.Measures = l.Measures
	case l.Trace != "":
		h.Trace = l.Trace
	case l.Evidence != nil:
		h.Evidence = *l.Evidence
	default:
		return errors.New("it holds none of plan, tools, event, operation, watch, observation, measures, trace, evidence")
	}
	return nil
}

// Acked counts the operations that clients hold an answer to.
func (h History) Acked() int {
	n := 0
	for _, o := range h.Operations {
		if o.Acked() {
			n++
		}
	}
	return n
}
