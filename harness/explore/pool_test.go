// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// started remembers the processes of a pool.
type started struct {
	mu  sync.Mutex
	all []*exec.Cmd
}

func testPool(t *testing.T, jobs int, limit time.Duration) (*Pool, *started) {
	t.Helper()
	s := &started{}
	p := &Pool{Jobs: jobs, Limit: limit, Command: func() *exec.Cmd {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, again(t, beWorker))
		return s.all[len(s.all)-1]
	}}
	t.Cleanup(p.Close)
	return p, s
}

// over wants that every process has ended, and was waited for.
func (s *started) over(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range s.all {
		assert.NotNil(t, cmd.ProcessState, "process %d is left", cmd.Process.Pid)
	}
}

func named(scenario string, seed uint64) Job {
	p := Genome{Seed: seed}.Plan(seed)
	p.Scenario = scenario
	return Job{Plan: p}
}

func TestPoolAnswersInOrder(t *testing.T) {
	pool, processes := testPool(t, 3, time.Minute)
	var jobs []Job
	for seed := range uint64(60) {
		jobs = append(jobs, named("fine", seed))
	}
	for i, r := range pool.Run(context.Background(), jobs) {
		require.NoError(t, r.Err)
		want, _ := toy(context.Background(), jobs[i].Plan, Options{})
		assert.Equal(t, want.Hash, r.Outcome.Hash, "the answer to job %d is another's", i)
	}
	assert.LessOrEqual(t, len(processes.all), 3)
	pool.Close()
	processes.over(t)
}

func TestAWorkerThatDiesIsAFindingAndReplaced(t *testing.T) {
	pool, processes := testPool(t, 1, time.Minute)
	results := pool.Run(context.Background(), []Job{named("fine", 1), named("dies", 2), named("fine", 3), named("breaks", 4), named("refuses", 5)})
	assert.Empty(t, results[0].Broken)
	assert.Equal(t, "a worker died over the plan: toy: the model is out of order", results[1].Broken)
	require.Len(t, results[1].Outcome.failing(), 1)
	assert.Equal(t, Self, results[1].Outcome.failing()[0].Check)
	assert.NoError(t, results[1].Err)
	assert.Empty(t, results[2].Broken)
	assert.Equal(t, "the plan could not be run: a task panicked", results[3].Broken)
	assert.Equal(t, []string{"its stack"}, results[3].Outcome.failing()[0].Evidence)
	assert.EqualError(t, results[4].Err, "no such world: unsupported operation", "a lack of this host is no bug")
	assert.Len(t, processes.all, 2)
	pool.Close()
	processes.over(t)
}

func TestAWorkerThatHangsIsKilled(t *testing.T) {
	pool, processes := testPool(t, 1, 3*time.Second)
	results := pool.Run(context.Background(), []Job{named("hangs", 1), named("fine", 2)})
	assert.Equal(t, "a worker hung: it did nothing for 3s and was killed", results[0].Broken)
	assert.Empty(t, results[1].Broken)
	pool.Close()
	processes.over(t)
}

// Ctrl-C: nothing may be left, and nothing that was cut off may be taken for a
// worker that died.
func TestAnEndOfTheContextEndsTheWorkers(t *testing.T) {
	pool, processes := testPool(t, 2, time.Minute)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	began := time.Now()
	for _, r := range pool.Run(ctx, []Job{named("hangs", 1), named("hangs", 2), named("fine", 3)}) {
		assert.ErrorIs(t, r.Err, context.Canceled)
		assert.Empty(t, r.Broken)
	}
	assert.Less(t, time.Since(began), time.Minute)
	processes.over(t)
}

// Who is in charge may be killed and close nothing by itself; then the kernel
// closes the pipe.
func TestAWorkerEndsWithItsInput(t *testing.T) {
	cmd := again(t, beWorker)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, json.NewEncoder(in).Encode(named("hangs", 1)))
	require.NoError(t, in.Close())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		assert.NoError(t, err)
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Error("the worker outlived its input")
	}
}

func TestServeSaysWhatItCantRead(t *testing.T) {
	err := Serve(context.Background(), strings.NewReader("plan?\n"), &strings.Builder{}, toy)
	assert.ErrorContains(t, err, `it takes {"plan":…,"options":…}, as JSON`)
}

func TestTheCauseOfADeath(t *testing.T) {
	for said, want := range map[string]string{
		"": "it said nothing",
		"noise\nringproof: a bug of ringproof itself: index out of range [3]\ngoroutine 1 [running]:": "index out of range [3]",
		"fatal error: all goroutines are asleep - deadlock!\n":                                        "all goroutines are asleep - deadlock!",
		"killed\nmore": "killed",
	} {
		c := &complaint{}
		fmt.Fprint(c, said)
		assert.Equal(t, want, c.cause(), "of %q", said)
	}
}

func TestAComplaintIsCut(t *testing.T) {
	c := &complaint{}
	n, err := fmt.Fprint(c, "panic: at the top\n", strings.Repeat("x", 2*longestComplaint))
	require.NoError(t, err)
	assert.Greater(t, n, longestComplaint, "a writer that takes less is an error to who writes")
	assert.Equal(t, longestComplaint, c.text.Len())
	assert.Equal(t, "at the top", c.cause())
}
