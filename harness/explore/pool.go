// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
)

// Runner runs plans, and returns what they came to in the order of the jobs.
type Runner interface {
	Run(ctx context.Context, jobs []Job) []Result
}

// Result is what became of one job.
type Result struct {
	Outcome Outcome
	// Broken says how ringproof itself failed the plan: a world that broke, a
	// worker that died or hung. The outcome then holds a finding of the check
	// Self, and no more.
	Broken string
	Err    error // no plan can be run here, or nobody waits for it any more
}

// planLimit is how long one plan may take of a processor, and how long a worker
// may stand still. The slowest plans take seconds; one that takes a minute turns
// in a circle. On the wall a plan may take much longer: beside a load of 58 a
// worker that had nothing wrong with it was once called a bug after a minute.
const planLimit = time.Minute

// Pool runs plans in worker processes: one world a process, as raft takes its
// chance from a variable of the whole process.
type Pool struct {
	Command func() *exec.Cmd // a new worker process, not started yet
	Jobs    int              // processes
	Limit   time.Duration    // for one plan, of a processor's time; 0: a minute

	mu   sync.Mutex
	free []*worker // started, and waiting for work
}

// Run runs the jobs on as many workers as the pool has. When ctx ends, the
// workers are killed, and the results that are missing hold its error.
func (p *Pool) Run(ctx context.Context, jobs []Job) []Result {
	results := make([]Result, len(jobs))
	next := make(chan int)
	var all sync.WaitGroup
	for range min(max(p.Jobs, 1), len(jobs)) {
		all.Go(func() {
			for i := range next {
				results[i] = p.run(ctx, jobs[i])
			}
		})
	}
	for i := range jobs {
		next <- i
	}
	close(next)
	all.Wait()
	return results
}

// Close ends the workers: they end when their input does, and are killed if
// they don't.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.free {
		w.end(time.Second)
	}
	p.free = nil
}

func (p *Pool) run(ctx context.Context, job Job) Result {
	if ctx.Err() != nil {
		return Result{Err: ctx.Err()}
	}
	w, err := p.take()
	if err != nil {
		return Result{Err: err}
	}
	answer, err := w.ask(ctx, job, cmp.Or(p.Limit, planLimit))
	var dead broken
	if errors.As(err, &dead) {
		// A terminal's Ctrl-C hits the workers too, and may be heard there first.
		_ = sleep(ctx, 100*time.Millisecond)
	}
	switch {
	case ctx.Err() != nil:
		w.end(0)
		return Result{Err: ctx.Err()}
	case dead != "":
		return dead.result()
	case err != nil:
		return Result{Err: err}
	}
	p.mu.Lock()
	p.free = append(p.free, w)
	p.mu.Unlock()
	switch {
	case answer.Err == "":
		return Result{Outcome: answer.Outcome}
	case answer.Lack:
		return Result{Err: errors.New(answer.Err)}
	}
	return broken("the plan could not be run: " + answer.Err).result()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// take returns a worker that waits for work, or a new one.
func (p *Pool) take() (*worker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		w := p.free[n-1]
		p.free = p.free[:n-1]
		return w, nil
	}
	return start(p.Command())
}

// broken is why a worker can't be used any more.
type broken string

func (b broken) Error() string { return string(b) }

func (b broken) result() Result {
	lines := strings.Split(string(b), "\n")
	f := ringproof.Finding{Check: Self, Verdict: ringproof.Fail, Message: lines[0], Evidence: lines[1:min(len(lines), mostEvidence)]}
	return Result{Broken: lines[0], Outcome: Outcome{Verdict: ringproof.Fail, Findings: []ringproof.Finding{f}}}
}

// mostEvidence bounds what is kept of a stack.
const mostEvidence = 30

// worker is one process.
type worker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	sends  *json.Encoder
	gets   *json.Decoder
	said   *complaint
	exited chan struct{} // closed when the process has ended
}

func start(cmd *exec.Cmd) (*worker, error) {
	w := &worker{cmd: cmd, said: &complaint{}, exited: make(chan struct{})}
	cmd.Stderr, cmd.WaitDelay = w.said, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	w.in, w.sends, w.gets = in, json.NewEncoder(in), json.NewDecoder(out)
	return w, nil
}

// ask has the worker run one job. An error that is broken says that it can't
// be asked again.
func (w *worker) ask(ctx context.Context, job Job, limit time.Duration) (reply, error) {
	w.said.reset()
	answered := make(chan error, 1)
	var answer reply
	go func() {
		err := w.sends.Encode(job)
		if err == nil {
			err = w.gets.Decode(&answer)
		}
		answered <- err
	}()
	looks := time.NewTicker(max(limit/20, time.Millisecond))
	defer looks.Stop()
	p := newProgress(limit, effortOf(w.cmd.Process.Pid))
	for {
		select {
		case err := <-answered:
			if err != nil {
				w.end(0) // what it said is whole once it has ended
				return reply{}, broken("a worker died over the plan: " + w.said.cause())
			}
			return answer, nil
		case <-looks.C:
			if err := p.look(time.Now(), effortOf(w.cmd.Process.Pid)); err != nil {
				w.end(0)
				<-answered
				return reply{}, err
			}
		case <-ctx.Done():
			w.end(0)
			<-answered
			return reply{}, ctx.Err()
		}
	}
}

// end closes the worker's input, waits, and kills what is still there.
func (w *worker) end(patience time.Duration) {
	select {
	case <-w.exited:
		return
	default:
	}
	w.in.Close()
	kill := time.AfterFunc(patience, func() { _ = w.cmd.Process.Kill() })
	_ = w.cmd.Wait()
	kill.Stop()
	close(w.exited)
}

// complaint keeps the beginning of what a worker writes to standard error: a
// panic says there what it is, and then lists thousands of lines of stacks.
type complaint struct {
	mu   sync.Mutex
	text bytes.Buffer
}

const longestComplaint = 16 << 10

func (c *complaint) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(p[:min(len(p), max(0, longestComplaint-c.text.Len()))])
	return len(p), nil
}

func (c *complaint) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Reset()
}

// cause is the line that says why, and the place of ours nearest to it.
func (c *complaint) cause() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for line := range strings.Lines(c.text.String()) {
		line = strings.TrimSpace(line)
		for _, word := range []string{"panic: ", "fatal error: ", "a bug of ringproof itself: "} {
			if _, what, ok := strings.Cut(line, word); ok {
				return what
			}
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(c.text.String()), "\n")
	return cmp.Or(first, "it said nothing")
}
