// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reports"
	"github.com/ringproof/ringproof/scenarios"
)

func TestForget(t *testing.T) {
	for _, name := range []string{"ETCD_NAME", "ETCDCTL_ENDPOINTS", "ETCDUTL_X", "ETCD"} {
		t.Setenv(name, "x")
	}
	assert.ElementsMatch(t, []string{"ETCD_NAME", "ETCDCTL_ENDPOINTS", "ETCDUTL_X"}, forget())
	assert.Empty(t, os.Getenv("ETCD_NAME"))
	assert.Equal(t, "x", os.Getenv("ETCD"))
	assert.Empty(t, forget())
}

// TestParted: a saved plan that takes another way than it took is told of, and nothing else is.
func TestParted(t *testing.T) {
	p := ringproof.Plan{Cell: "own#7", Subject: "reference"}
	assert.Empty(t, parted(p, reports.Cell{Trace: "abc, 5 events"}), "nobody has saved it")
	p.Expect = &ringproof.Expect{Verdict: "fail", Hash: "abc"}
	assert.Empty(t, parted(p, reports.Cell{Trace: "abc, 5 events"}))
	assert.Empty(t, parted(p, reports.Cell{}), "in real time there is none")
	assert.Equal(t, "own#7 took another way than when its plan was saved: trace abd, and abc then. Another build may; where it is the same one, reference is not repeatable",
		parted(p, reports.Cell{Trace: "abd, 5 events"}))
}

// TestAnInterruptionIsTold: CI takes 3 for a run that could not be judged, and makes it a
// failure of the build that somebody cancelled.
func TestAnInterruptionIsTold(t *testing.T) {
	assert.Equal(t, 130, interrupted(exitInconclusive, syscall.SIGINT))
	assert.Equal(t, 143, interrupted(exitInconclusive, syscall.SIGTERM))
	assert.Equal(t, exitInconclusive, interrupted(exitInconclusive, 0))
	assert.Equal(t, exitFail, interrupted(exitFail, syscall.SIGINT), "what had failed by then has failed")
}

// TestListingCellsEnds: a million seeds were listed to the end before anybody looked for a
// signal.
func TestListingCellsEnds(t *testing.T) {
	c := &cobra.Command{}
	ended, end := context.WithCancel(t.Context())
	end()
	c.SetContext(ended)
	f := runFlags{program: &program{Registry: Registry{Worlds: []World{{Name: "sim", Simulated: true}}, Subjects: []Subject{{Name: "s"}}}}, world: "sim", subject: "s", seed: 1, seeds: 1e12}
	shipped, err := scenarios.Shipped()
	require.NoError(t, err)
	_, err = f.jobsOf(c, shipped, nil)
	assert.ErrorIs(t, err, context.Canceled)
}

// TestSeededNamesEachSeedOnce: those of the flags, and those that a pattern names beyond.
func TestSeededNamesEachSeedOnce(t *testing.T) {
	var seeds []uint64
	for cell := range (runFlags{seed: 3, seeds: 2}).seeded(&scenarios.Scenario{Name: "x"}, []scenarios.Cell{{Scenario: "x", Seed: 4, Seeded: true}, {Scenario: "x", Seed: 1, Seeded: true}}) {
		seeds = append(seeds, cell.Seed)
	}
	assert.Equal(t, []uint64{3, 4, 1}, seeds)
}
