// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"os"
	"slices"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness/explore"
)

// toyWorld, when it is set, has the workers of a script run a toy in the place
// of the simulated world: "fair" is one that can be repeated, "fickle" isn't,
// "broken" dies.
const toyWorld = "RINGPROOF_TOY"

func init() {
	if kind := os.Getenv(toyWorld); kind != "" {
		registry.Simulation = toySimulation(kind)
	}
}

// toySimulation fails plans that lose a volume and, anywhere in the same plan,
// cut the network.
func toySimulation(kind string) explore.Simulate {
	return func(_ context.Context, p ringproof.Plan, o explore.Options) (explore.Outcome, error) {
		if kind == "broken" && p.Seed == 3 {
			panic("the toy is broken")
		}
		outcome := explore.Outcome{Verdict: ringproof.Pass, Events: 100, Hash: toyHash(p), SimSeconds: 60, WallSeconds: 0.01, Tuples: []string{p.Ring.Version}}
		if kind == "fickle" && p.Seed == 2 {
			outcome.Hash += uint64(os.Getpid())
			outcome.TraceLines = []string{"1.0s  m1  starts", "1.5s  m1  leads in process " + string(rune('A'+os.Getpid()%26))}
		}
		if o.Journal {
			outcome.Journal = &ringproof.Journal{
				Effects:   []ringproof.Effect{{Machine: "m1", Name: "etcd member-add", Nth: 1, Done: 1}, {Machine: "m1", Name: "etcd put", Nth: 1, Done: 1, State: "s"}, {Machine: "m1", Name: "etcd put", Nth: 2, Done: 2, State: "s"}},
				Decisions: []ringproof.Decision{{Machine: "m1", What: "next", Nth: 1}},
			}
		}
		if does(p, ringproof.FaultVolumeLoss, "") && does(p, ringproof.FaultPartition, "") || does(p, ringproof.FaultAgentCrash, "etcd member-add") {
			outcome.Verdict = ringproof.Fail
			outcome.Findings = []ringproof.Finding{{Check: "converges", Verdict: ringproof.Fail, Message: "expected the ring to converge, it did not"}}
		}
		return outcome, nil
	}
}

func toyHash(p ringproof.Plan) uint64 {
	p.Expect = nil
	text, _ := json.Marshal(p)
	h := fnv.New64a()
	h.Write(text)
	return h.Sum64()
}

func does(p ringproof.Plan, kind ringproof.FaultKind, effect string) bool {
	return slices.ContainsFunc(p.Steps, func(s ringproof.Step) bool {
		return s.Fault != nil && s.Fault.Kind == kind && (effect == "" || s.Fault.Effect == effect && s.Fault.Phase == "after")
	})
}
