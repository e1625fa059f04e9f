// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ringproof/ringproof"
)

// Job is one run that is wanted.
type Job struct {
	Plan    ringproof.Plan `json:"plan"`
	Options Options        `json:"options"`
}

// reply is a worker's answer to one job.
type reply struct {
	Outcome Outcome `json:"outcome"`
	Err     string  `json:"err,omitempty"`  // why the plan could not be run
	Lack    bool    `json:"lack,omitempty"` // it is no bug: this build or host can't do it
}

// Serve is the life of a worker: it reads jobs, a JSON object each, runs them
// one after another, and writes a line of JSON for each. It returns when in
// ends, whatever the run in progress does: who asked for it is gone, and a
// worker that outlives a killed parent would keep a processor busy for ever.
func Serve(ctx context.Context, in io.Reader, out io.Writer, simulate Simulate) error {
	jobs := make(chan Job, 1) // so that the end of in is seen while a job runs
	ended := make(chan error, 2)
	go func() { ended <- read(in, jobs) }()
	go func() {
		if err := serve(ctx, jobs, json.NewEncoder(out), simulate); err != nil {
			ended <- err
		}
	}()
	return <-ended
}

func serve(ctx context.Context, jobs <-chan Job, out *json.Encoder, simulate Simulate) error {
	for job := range jobs {
		answer := reply{}
		var err error
		if answer.Outcome, err = simulate(ctx, job.Plan, job.Options); err != nil {
			answer = reply{Err: err.Error(), Lack: errors.Is(err, errors.ErrUnsupported)}
		}
		if err := out.Encode(answer); err != nil {
			return fmt.Errorf("worker: writing the outcome of %s: %w", job.Plan.Cell, err)
		}
	}
	return nil
}

func read(in io.Reader, jobs chan<- Job) error {
	decoder := json.NewDecoder(in)
	for {
		var job Job
		if err := decoder.Decode(&job); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("worker: reading a job: %w; it takes {\"plan\":…,\"options\":…}, as JSON", err)
		}
		jobs <- job
	}
}
