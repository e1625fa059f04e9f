// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/harness"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/sim"
)

// entrypoint is about the least that can be put on trial: it keeps the etcd of a ring
// of one running.
type entrypoint struct{}

func (entrypoint) Seed(context.Context, ringproof.Plan, *sim.World) error { return nil }

func (entrypoint) Agent(m *sim.Machine) func(context.Context) error {
	return func(ctx context.Context) error {
		defer func() { _ = m.Process().Stop(context.WithoutCancel(ctx), time.Second) }()
		for ctx.Err() == nil {
			if args, err := m.Process().Running(); err == nil && args == nil {
				peer, client := "http://"+m.Address()+":2380", "http://"+m.Address()+":2379"
				_ = m.Process().Start(ctx, []string{m.Binaries()["v3.6.16"], "--name=a", "--data-dir=" + m.Disk().Path("etcd"),
					"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=a=" + peer,
					"--listen-client-urls=" + client, "--advertise-client-urls=" + client})
			}
			_ = m.Sleep(ctx, 200*time.Millisecond)
		}
		return ctx.Err()
	}
}

func (entrypoint) Inject(ringproof.Seams, string) error { return nil }

func (entrypoint) Ask(context.Context, ringproof.Op, []string) (string, error) {
	return "", ringproof.ErrRefused
}

func (entrypoint) Hear(host.Line) (ringproof.Event, bool) { return ringproof.Event{}, false }

func (entrypoint) Credentials(context.Context) (*tls.Config, error) { return nil, nil }

// A subject of one's own is killed with its etcd. The same plan is the same run, event
// by event.
func Example() {
	plan := ringproof.Plan{
		Cell: "example#1", Scenario: "example", Seed: 1, Subject: "entrypoint", World: "sim",
		Ring:       ringproof.RingSpec{Size: 1, Machines: 1, Version: "v3.6.16", Security: "plain"},
		Workload:   ringproof.Workload{Profile: "kv", Clients: 2, Keys: 4, Rate: 20},
		Invariants: []ringproof.Invariant{{Check: "linearizable"}, {Check: "converges"}},
		Steps:      []ringproof.Step{{Name: "crash", Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Target: "m1", Scope: "process"}}},
	}
	var traces []string
	for range 2 {
		h, err := harness.Run(context.Background(), plan, sim.New(plan.Seed, entrypoint{}), harness.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, f := range checks.Judge(&h) {
			fmt.Println(f.Check, f.Verdict)
		}
		traces = append(traces, h.Trace)
	}
	fmt.Println("the same run:", traces[0] == traces[1])
	// Output:
	// assumptions pass
	// linearizable pass
	// converges pass
	// assumptions pass
	// linearizable pass
	// converges pass
	// the same run: true
}
