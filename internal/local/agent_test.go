// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package local

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/trial"
)

// What the test binary is besides a test.
const (
	asAgent   = "toy-agent"
	asSandbox = "toy-sandbox"
)

// noNamespaces is the exit code of a test binary that could make no sandbox.
const noNamespaces = 77

func TestMain(m *testing.M) {
	if entered, code := machines.Enter(); entered {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == asAgent {
		os.Exit(launch(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == asSandbox {
		code, err := machines.Sandbox(context.Background(), os.Args[2:], os.Environ())
		if err != nil {
			fmt.Println(err)
			code = noNamespaces
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// launch is the agent: it has etcd run on its machine, whatever happens to it.
// Its ring is that of the first machines that come up. On a disk that lost its
// log it starts nothing, until it is told of which ring it is now.
func launch(args []string) int {
	dir, name, address, disk, run, binary := args[0], args[1], args[2], args[3], args[4], args[5]
	say := func(kind ringproof.EventKind, text string) {
		line, _ := json.Marshal(ringproof.Event{Kind: kind, Text: text})
		fmt.Println(string(line))
	}
	fmt.Println("this line is no event")
	fmt.Fprintln(os.Stderr, "agent of", name)
	if err := os.WriteFile(filepath.Join(dir, name+".address"), []byte(address), 0o600); err != nil {
		return 1
	}
	for waiting := false; ; time.Sleep(100 * time.Millisecond) {
		if c, err := net.Dial("tcp", address+":2379"); err == nil {
			c.Close() // one that the agent before this one started
			continue
		}
		ring, state := initialMembers(dir), "new"
		text, err := os.ReadFile(filepath.Join(run, "ring"))
		if err == nil {
			ring, state = string(text), "existing"
		}
		log, _ := os.ReadDir(filepath.Join(disk, "etcd", "member", "wal"))
		_, started := os.Stat(filepath.Join(run, "started"))
		if ring == "" || len(log) == 0 && started == nil && state == "new" {
			if ring != "" && !waiting {
				waiting = true
				say(ringproof.EventWaiting, "the log is gone")
			}
			continue
		}
		waiting = false
		_ = os.WriteFile(filepath.Join(run, "started"), nil, 0o600)
		say(ringproof.EventBoot, state)
		peer, client := "http://"+address+":2380", "http://"+address+":2379"
		cmd := exec.Command(binary, "--name", name, "--data-dir", filepath.Join(disk, "etcd"), "--initial-cluster", ring, "--initial-cluster-state", state,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--listen-client-urls", client, "--advertise-client-urls", client,
			"--log-level", "error")
		cmd.Args[0] = "etcd"
		_ = cmd.Run()
	}
}

// initialMembers is the ring of three, "" until all are there.
func initialMembers(dir string) string {
	var ring []string
	for _, name := range []string{"m1", "m2", "m3"} {
		address, err := os.ReadFile(filepath.Join(dir, name+".address"))
		if err != nil || len(address) == 0 {
			return ""
		}
		ring = append(ring, fmt.Sprintf("%s=http://%s:2380", name, address))
	}
	return strings.Join(ring, ",")
}

// toy is a subject of such agents. Who asks it to replace a member is an
// operator with etcdctl.
type toy struct {
	world *World
	dir   string
	set   []ringproof.Seams
}

var _ trial.Subject = (*toy)(nil)

func (s *toy) Etcd() trial.Etcd { return trial.UsualEtcd() }

func (s *toy) Stop() trial.Stop { return trial.UsualStop() }

func (s *toy) Supports(ringproof.Step) error { return nil }

func (s *toy) Seed(_ context.Context, site trial.Site, _ trial.Run) error {
	s.dir = site.Dir
	return nil
}

func (s *toy) Agent(m trial.Machine) trial.Program {
	self, _ := os.Executable()
	binary := ""
	for _, path := range m.Etcd {
		binary = path
	}
	return trial.Program{Args: []string{self, asAgent, s.dir, m.Name, m.Address, m.DataDir, m.Run, binary}}
}

func (s *toy) Inject(f ringproof.Seams, machine string) error {
	s.set = append(s.set, f)
	return nil
}

func (s *toy) Ask(ctx context.Context, op ringproof.Op, targets []string, _ trial.Run) (string, error) {
	if op.Kind != ringproof.OpReplace {
		return "", fmt.Errorf("%s: %w", op.Kind, trial.ErrRefused)
	}
	name := targets[0]
	n := s.world.node(name)
	o, err := s.world.Observe(ctx)
	if err != nil {
		return "", err
	}
	leader, ok := o.Leader()
	if !ok || !o.Fresh {
		return "", errors.New("there is nobody to ask")
	}
	etcd, err := s.world.prober(s.world.node(leader.Machine))
	if err != nil {
		return "", err
	}
	if gone, there := o.On(name); there { // it isn't if the addition failed before
		if _, err := etcd.MemberRemove(ctx, uint64(gone.ID)); err != nil {
			return "", err
		}
	}
	ring := initialMembers(s.dir) // one address of each machine, for good
	if _, err := etcd.MemberAdd(ctx, []string{fmt.Sprintf("http://%s:2380", n.machine.Addr())}); err != nil {
		return "", err
	}
	return "replaced", os.WriteFile(filepath.Join(n.run, "ring"), []byte(ring), 0o600)
}

func (s *toy) Snapshot(context.Context, string, trial.Run) (string, error) {
	return "", fmt.Errorf("snapshot: %w", trial.ErrRefused)
}

func (s *toy) Reset(context.Context, trial.Machine, string, trial.Run) (string, error) {
	return "", fmt.Errorf("reset: %w", trial.ErrRefused)
}

func (s *toy) Hear(line string) (ringproof.Event, bool) {
	var e ringproof.Event
	return e, json.Unmarshal([]byte(line), &e) == nil
}

func (s *toy) Credentials(context.Context) (*tls.Config, error) { return nil, nil }
