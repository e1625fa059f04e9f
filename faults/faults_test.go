// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// ring is an observation of machines m1…, members 1… on them in that order.
func ring(machines, voters, learners int) ringproof.Observation {
	o := ringproof.Observation{At: 1, Fresh: true}
	for i := 1; i <= machines; i++ {
		o.Machines = append(o.Machines, ringproof.MachineView{Name: fmt.Sprintf("m%d", i), Up: true, Disk: 1})
	}
	for i := 1; i <= voters+learners; i++ {
		name := fmt.Sprintf("m%d", i)
		o.Members = append(o.Members, ringproof.MemberView{
			ID: ringproof.MemberID(i), Name: name, Machine: name, Learner: i > voters, Leader: i == 2, Serving: true,
		})
	}
	return o
}

func TestSelect(t *testing.T) {
	o := ring(12, 5, 1)
	for selector, want := range map[string]string{
		"leader": "m2", "follower": "m1", "follower/2": "m3", "follower/4": "m5",
		"voter": "m1", "voter/5": "m5", "learner": "m6", "joining": "m6",
		"spare": "m7", "m10": "m10", "machine/10": "m10", "machine/2": "m2",
		"minority": "m1 m3", "leader-minority": "m1 m2", "majority": "m1 m2 m3",
		"all": "m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11 m12",
	} {
		got, err := faults.Select(selector, o)
		require.NoError(t, err, selector)
		assert.Equal(t, want, strings.Join(got, " "), selector)
	}
}

func TestSelectSaysWhatThereWas(t *testing.T) {
	o := ring(3, 3, 0)
	for selector, want := range map[string]string{
		"learner":    "selecting learner: found 0 of 1; there was voters m1 m2 m3, no learners, machines m1 m2 m3",
		"follower/3": "selecting follower/3: found 2 of 3; there was voters m1 m2 m3, no learners, machines m1 m2 m3",
		"m9":         "selecting m9: found 0 of 1; there was voters m1 m2 m3, no learners, machines m1 m2 m3",
		"random":     "selecting random: it is drawn when a scenario is resolved, a plan holds none; there was voters m1 m2 m3, no learners, machines m1 m2 m3",
		"leadr":      `selecting leadr: "leadr" is no selector; there was voters m1 m2 m3, no learners, machines m1 m2 m3`,
	} {
		_, err := faults.Select(selector, o)
		assert.EqualError(t, err, want)
	}
	o.Members[1].Leader = false
	_, err := faults.Select("leader", o)
	assert.ErrorContains(t, err, "no member says that it leads")
	_, err = faults.Select("minority", ring(2, 2, 0))
	assert.ErrorContains(t, err, "it is empty")
}

func TestAnUnstartedMemberIsJoining(t *testing.T) {
	o := ring(4, 4, 0)
	o.Members[3].Name = ""
	got, err := faults.Select("joining", o)
	require.NoError(t, err)
	assert.Equal(t, []string{"m4"}, got)
}

func TestForm(t *testing.T) {
	for selector, want := range map[string]string{
		"leader": "leader", "follower/2": "follower/N", "m12": "mN", "machine/1": "machine/N",
		"follower/0": "", "m0": "", "mN": "", "machine/N": "", "m": "", "machine/x": "", "": "", "leader/2": "",
	} {
		assert.Equal(t, want, faults.Form(selector), selector)
	}
}

func TestCatalogueIsWhole(t *testing.T) {
	kinds := []ringproof.FaultKind{
		ringproof.FaultKill, ringproof.FaultPause, ringproof.FaultMachineLoss, ringproof.FaultVolumeLoss, ringproof.FaultDiskFull,
		ringproof.FaultPartition, ringproof.FaultStoreOutage, ringproof.FaultStoreStale, ringproof.FaultAgentCrash,
	}
	assert.Len(t, faults.All(), len(kinds))
	for _, kind := range kinds {
		e, ok := faults.Lookup(kind)
		require.True(t, ok, kind)
		assert.NotEmpty(t, e.Doc, kind)
		assert.NotEmpty(t, e.Fairness, kind)
		assert.NotEmpty(t, e.Heals, kind)
		assert.NotEmpty(t, e.Worlds, kind)
		_, takes := e.Param("target")
		assert.Equal(t, takes, len(e.Targets) > 0, kind)
		for _, form := range e.Targets {
			assert.Contains(t, fmt.Sprint(faults.Selectors()), "{"+form+" ", kind)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		fault ringproof.Fault
		want  []string
	}{
		{ringproof.Fault{Kind: "kill", Target: "leader"}, nil},
		{ringproof.Fault{Kind: "kill", Target: "random", Scope: "machine", For: 1, Stagger: 1}, nil},
		{ringproof.Fault{Kind: "store-outage"}, nil},
		{ringproof.Fault{Kind: "kil"}, []string{`kind: unknown fault "kil"`}},
		{ringproof.Fault{Kind: "kill"}, []string{"target: kill needs target: which machines it hits"}},
		{ringproof.Fault{Kind: "kill", Target: "follower/0"}, []string{`target: kill can't target "follower/0"`}},
		{ringproof.Fault{Kind: "disk-full", Target: "majority"}, []string{`target: disk-full can't target "majority"`}},
		{ringproof.Fault{Kind: "kill", Target: "m1", Scope: "pod"}, []string{`scope: unknown scope "pod"`}},
		{ringproof.Fault{Kind: "pause", Target: "m1"}, []string{"for: pause needs for: how long it is stopped"}},
		{ringproof.Fault{Kind: "pause", Target: "m1", For: -1}, []string{"for: -1ns is negative"}},
		{ringproof.Fault{Kind: "machine-loss", Target: "m1", Shape: "split", For: 5}, []string{
			"shape: machine-loss takes no shape; it takes target", "for: machine-loss takes no for; it takes target",
		}},
		{ringproof.Fault{Kind: "agent-crash"}, []string{
			"action: agent-crash needs action: the subject's action, such as add-learner",
			"phase: agent-crash needs phase: before the call, after its reply, or between (done, and the reply lost)",
		}},
	} {
		var got []string
		for _, p := range faults.Validate(test.fault) {
			got = append(got, p.Error())
		}
		assert.Equal(t, test.want, got, "%+v", test.fault)
	}
}
