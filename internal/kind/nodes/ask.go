// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"sync"
	"time"

	"github.com/ringproof/ringproof/internal/kind"
	"github.com/ringproof/ringproof/internal/kind/keeper"
)

// asks is one life of a node's keeper.
type asks struct {
	hear func(keeper.Said)
	over chan struct{} // closed when it has ended

	mu      sync.Mutex
	to      io.WriteCloser
	last    int
	waiting map[int]chan keeper.Said
}

// ask starts a keeper in the container. It ends when that does, or this program.
func ask(container, command string, hear func(keeper.Said)) (*asks, error) {
	cmd := exec.Command("docker", "exec", "-i", container, path.Join(kind.ToolsAt, keeperName), command)
	to, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a keeper in %s: %w", container, err)
	}
	a := &asks{hear: hear, over: make(chan struct{}), to: to, waiting: map[int]chan keeper.Said{}}
	go func() {
		a.listen(from)
		_ = cmd.Wait() // it was killed with its node, or its input is closed
		close(a.over)
	}()
	return a, nil
}

func (a *asks) listen(from io.Reader) {
	for d := json.NewDecoder(from); ; {
		var s keeper.Said
		if d.Decode(&s) != nil {
			return
		}
		if s.ID == 0 {
			a.hear(s)
			continue
		}
		a.mu.Lock()
		waits := a.waiting[s.ID]
		delete(a.waiting, s.ID)
		a.mu.Unlock()
		if waits != nil {
			waits <- s
		}
	}
}

// end ends the keeper. Of one that answers it returns when that has ended: the next has the
// same port.
func (a *asks) end(answers bool) {
	a.to.Close()
	if !answers { // its node is off or frozen, and goes with the cluster
		return
	}
	select {
	case <-a.over:
	case <-time.After(answering):
	}
}

// answering is how long a keeper may take to answer.
const answering = 30 * time.Second

// do has the keeper do it.
func (a *asks) do(o keeper.Order) (keeper.Said, error) {
	answer := make(chan keeper.Said, 1)
	a.mu.Lock()
	a.last++
	o.ID = a.last
	a.waiting[o.ID] = answer
	err := json.NewEncoder(a.to).Encode(o)
	a.mu.Unlock()
	if err != nil {
		return keeper.Said{}, fmt.Errorf("asking the keeper to %s: %w", o.Do, err)
	}
	select {
	case s := <-answer:
		if s.Err != "" {
			return s, errors.New(s.Err)
		}
		return s, nil
	case <-a.over:
		return keeper.Said{}, fmt.Errorf("asking the keeper to %s: it has ended", o.Do)
	case <-time.After(answering):
		return keeper.Said{}, fmt.Errorf("asking the keeper to %s: no answer in %v", o.Do, answering)
	}
}
