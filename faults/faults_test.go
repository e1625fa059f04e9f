// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
		"spare": "m7", "m10": "m10", "m10,m2": "m2 m10", "machine/10": "m10", "machine/2": "m2",
		"minority": "m1 m3", "leader-minority": "m1 m2", "majority": "m1 m2 m3",
		"all": "m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11 m12",
	} {
		got, err := faults.Resolve(selector, o)
		require.NoError(t, err, selector)
		assert.Equal(t, want, strings.Join(got, " "), selector)
	}
}

func TestSelectSaysWhatThereWas(t *testing.T) {
	o := ring(3, 3, 0)
	for selector, want := range map[string]string{
		"learner":    "selecting learner: found 0 of 1; there was voters m1 m2 m3, no learners, machines m1 m2 m3",
		"follower/3": "selecting follower/3: found 2 of 3; there was voters m1 m2 m3, no learners, machines m1 m2 m3",
		"m2,m9":      "selecting m2,m9: found 1 of 2; there was voters m1 m2 m3, no learners, machines m1 m2 m3",
		"m2,m2":      "selecting m2,m2: found 1 of 2; there was voters m1 m2 m3, no learners, machines m1 m2 m3",
		"m9":         "selecting m9: found 0 of 1; there was voters m1 m2 m3, no learners, machines m1 m2 m3",
		"random":     "selecting random: it is drawn when a scenario is resolved, a plan holds none; there was voters m1 m2 m3, no learners, machines m1 m2 m3",
		"lead":       "selecting lead: no process of the subject has said that it leads; there was voters m1 m2 m3, no learners, machines m1 m2 m3",
		"leadr":      `selecting leadr: "leadr" is no selector; there was voters m1 m2 m3, no learners, machines m1 m2 m3`,
	} {
		_, err := faults.Resolve(selector, o)
		assert.EqualError(t, err, want)
	}
	o.Members[1].Leader = false
	_, err := faults.Resolve("leader", o)
	assert.ErrorContains(t, err, "no member says that it leads")
	_, err = faults.Resolve("minority", ring(2, 2, 0))
	assert.ErrorContains(t, err, "it is empty")
}

func TestAnUnstartedMemberIsJoining(t *testing.T) {
	o := ring(4, 4, 0)
	o.Members[3].Name = ""
	got, err := faults.Resolve("joining", o)
	require.NoError(t, err)
	assert.Equal(t, []string{"m4"}, got)
}

func TestForm(t *testing.T) {
	for selector, want := range map[string]string{
		"leader": "leader", "follower/2": "follower/N", "m12": "mN", "m1,m2": "mN,mN", "m1,m2,m3": "", "m1,": "", "machine/1": "machine/N",
		"follower/0": "", "m0": "", "mN": "", "machine/N": "", "m": "", "machine/x": "", "": "", "step/lose-1": "step/NAME", "step/": "", "step/NAME": "step/NAME", "step/a b": "", "leader/2": "",
	} {
		assert.Equal(t, want, faults.Form(selector), selector)
	}
}

func TestCatalogueIsWhole(t *testing.T) {
	kinds := []ringproof.FaultKind{
		ringproof.FaultKill, ringproof.FaultPause, ringproof.FaultMachineLoss, ringproof.FaultVolumeLoss, ringproof.FaultDiskFull,
		ringproof.FaultPartition, ringproof.FaultStoreOutage, ringproof.FaultStoreStale, ringproof.FaultStoreLost, ringproof.FaultAgentCrash,
		ringproof.FaultStaleView, ringproof.FaultSkippedView, ringproof.FaultReplyLoss, ringproof.FaultSlowNetwork, ringproof.FaultPacketLoss,
		ringproof.FaultClockSkew, ringproof.FaultDiskSwap, ringproof.FaultTimePasses,
		ringproof.FaultStartFailure, ringproof.FaultVolumeUnmounted, ringproof.FaultVolumeCopy,
		ringproof.FaultWrongRing, ringproof.FaultDuplicate, ringproof.FaultDryRun, ringproof.FaultKeysDamaged, ringproof.FaultAPIOutage,
		ringproof.FaultForeignHand, ringproof.FaultAlarmRaised, ringproof.FaultSlowDisk, ringproof.FaultNameStale, ringproof.FaultSleep,
		ringproof.FaultKubeDelete, ringproof.FaultForeignFinalizer, ringproof.FaultDrain, ringproof.FaultKubeKill, ringproof.FaultKubePause, ringproof.FaultStatusEmptied, ringproof.FaultSetDeleted,
		ringproof.FaultSetScaled, ringproof.FaultObjectsDeleted, ringproof.FaultObjectsEmptied, ringproof.FaultRecordsDeleted, ringproof.FaultRingDeleted, ringproof.FaultUpgraded, ringproof.FaultAdmissionDenied,
	}
	require.Len(t, faults.Kinds(), len(kinds))
	for _, kind := range kinds {
		e, ok := faults.Lookup(kind)
		require.True(t, ok, kind)
		assert.NotEmpty(t, e.Doc, kind)
		assert.NotEmpty(t, e.Fairness, kind)
		assert.NotEmpty(t, e.Heals, kind)
		assert.NotEmpty(t, e.Worlds, kind)
		_, takes := e.Param("target")
		assert.Equal(t, takes, len(e.Targets) > 0, kind)
		for _, name := range e.OneOf {
			_, takes := e.Param(name)
			assert.True(t, takes, "%s: %s", kind, name)
		}
		for _, form := range e.Targets {
			assert.Contains(t, fmt.Sprint(faults.Selectors()), "{"+form+" ", kind)
		}
	}
}

func TestEffectsAreNamedByTheirForms(t *testing.T) {
	for _, e := range faults.Effects() {
		assert.NotEmpty(t, e.Doc, e.Form)
		name := strings.NewReplacer("NAME", "pki/ca.crt", "PREFIX", "machines").Replace(e.Form)
		assert.True(t, faults.IsEffect(name), name)
	}
	for _, name := range []string{"", "write", "write ", "etcd", "etcd range", "start etcd", "create a b", "Etcd put", "add-learner"} {
		assert.False(t, faults.IsEffect(name), name)
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
			"phase: agent-crash needs phase: before the call, after its reply, between (done, and the reply lost), refused (not done, and an error), late (a request to etcd, the store or the API server is on its way: the subject is told that time ran out, and it is done after that, 10s when for is absent), or unseen (a write to the API server is done, and not shown by the subject's cache for a while, 5s when for is absent)",
			"action: agent-crash needs action or effect",
		}},
		{ringproof.Fault{Kind: "agent-crash", Action: "bind", Phase: "refused"}, nil},
		{ringproof.Fault{Kind: "agent-crash", Effect: "write pki/peer.key", Phase: "before"}, nil},
		{ringproof.Fault{Kind: "agent-crash", Effect: "kube delete pod", Phase: "unseen", Scope: "controller"}, nil},
		{ringproof.Fault{Kind: "agent-crash", Effect: "create machines", Phase: "late", For: ringproof.Duration(5e9)}, nil},
		{ringproof.Fault{Kind: "agent-crash", Effect: "etcd keep-alive", Phase: "late"}, []string{"phase: only a request is on its way: late takes an effect that begins with etcd (but for keep-alive), kube or create"}},
		{ringproof.Fault{Kind: "agent-crash", Effect: "start", Phase: "unseen"}, []string{"phase: only a write to the API server is heard of by a cache: unseen takes an effect that begins with kube"}},
		{ringproof.Fault{Kind: "stale-view", Scope: "controller", Target: "m1"}, []string{"target: a controller is on no machine of the plan: stale-view takes a target or scope controller, not both"}},
		{ringproof.Fault{Kind: "agent-crash", Effect: "write", Phase: "before"}, []string{`effect: unknown effect "write"`}},
		{ringproof.Fault{Kind: "agent-crash", Effect: "start", Action: "launch", Phase: "before"}, []string{"effect: agent-crash takes action or effect, not both"}},
		{ringproof.Fault{Kind: "stale-view"}, nil},
		{ringproof.Fault{Kind: "stale-view", Decision: "boot", Nth: 3, Back: 100, Count: 1000, Target: "m1"}, nil},
		{ringproof.Fault{Kind: "stale-view", Decision: "do", Back: 101, Count: -1}, []string{`decision: unknown decision "do"`, "back: back is 101; it may be 1 to 100", "count: -1 is negative"}},
		{ringproof.Fault{Kind: "clock-skew", Target: "m1", By: -5}, nil},
		{ringproof.Fault{Kind: "time-passes", By: ringproof.Duration(4000 * 24 * time.Hour), For: ringproof.Duration(200 * time.Second)}, []string{"by: 96000h0m0s is longer than ten years: the ring's authority is not outlived"}},
		{ringproof.Fault{Kind: "volume-loss", Target: "m1", Leave: "copy-of-before", By: 5}, nil},
		{ringproof.Fault{Kind: "volume-loss", Target: "m1", Leave: "damaged-log", By: 5}, []string{"by: only a copy-of-before has an age"}},
		{ringproof.Fault{Kind: "volume-loss", Target: "m1", Leave: "identity", How: "removed"}, nil},
		{ringproof.Fault{Kind: "volume-loss", Target: "m1", Leave: "damaged-log", How: "removed"}, []string{"how: files that are removed while they are in use leave nothing, or the identity of the disk, and no machine is off for it"}},
		{ringproof.Fault{Kind: "volume-loss", Target: "m1", For: 5, How: "removed"}, []string{"how: files that are removed while they are in use leave nothing, or the identity of the disk, and no machine is off for it"}},
		{ringproof.Fault{Kind: "partition", Target: "leader", Shape: "pair", From: "follower"}, nil},
		{ringproof.Fault{Kind: "partition", Target: "leader", Shape: "pair"}, []string{"from: a pair has two ends: partition takes from with shape pair, and with no other"}},
		{ringproof.Fault{Kind: "partition", Target: "leader", Shape: "split", From: "follower"}, []string{"from: a pair has two ends: partition takes from with shape pair, and with no other"}},
		{ringproof.Fault{Kind: "kube-pause", Scope: "kubelet", Target: "m1", For: 5}, nil},
		{ringproof.Fault{Kind: "kube-pause", Scope: "kubelet", For: 5}, []string{"target: a kubelet is one of many: kube-pause takes target with scope kubelet, and with no other"}},
		{ringproof.Fault{Kind: "kube-pause", Scope: "controller", Target: "m1", For: 5}, []string{"target: a kubelet is one of many: kube-pause takes target with scope kubelet, and with no other"}},
		{ringproof.Fault{Kind: "kube-delete", Object: "pod", Target: "leader", How: "forced"}, nil},
		{ringproof.Fault{Kind: "kube-delete", Object: "claim", Target: "leader", How: "forced"}, []string{"how: only a pod has a grace that it can be denied, and a kubelet that evicts it"}},
		{ringproof.Fault{Kind: "slow-network", Target: "m1", By: -5}, []string{"by: -5ns is negative"}},
		{ringproof.Fault{Kind: "reply-loss", Percent: 101}, []string{"percent: percent is 101; it may be 1 to 100"}},
		{ringproof.Fault{Kind: "disk-swap", Target: "m1,m2"}, nil},
		{ringproof.Fault{Kind: "disk-swap", Target: "m1"}, []string{`target: disk-swap can't target "m1"`}},
	} {
		var got []string
		for _, p := range faults.Validate(test.fault) {
			got = append(got, p.Error())
		}
		assert.Equal(t, test.want, got, "%+v", test.fault)
	}
}

func TestSentences(t *testing.T) {
	none := 0
	for want, step := range map[string]ringproof.Step{
		"cut the power of all, for 2s, ended one by one, 3s apart": {Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Target: "all", Scope: "machine", For: ringproof.Duration(2e9), Stagger: ringproof.Duration(3e9)}},
		"kill etcd on leader":                                                           {Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Target: "leader", Scope: "process"}},
		"fail every store call of all, for 8s":                                          {Fault: &ringproof.Fault{Kind: ringproof.FaultStoreOutage, For: ringproof.Duration(8e9)}},
		"empty the store, for 8s":                                                       {Fault: &ringproof.Fault{Kind: ringproof.FaultStoreLost, For: ringproof.Duration(8e9)}},
		"put the store back as it was made":                                             {Fault: &ringproof.Fault{Kind: ringproof.FaultStoreLost, Leave: "as-made"}},
		"make the store anew":                                                           {Fault: &ringproof.Fault{Kind: ringproof.FaultStoreLost, Leave: "made-anew"}},
		"keep the others from hearing leader":                                           {Fault: &ringproof.Fault{Kind: ringproof.FaultPartition, Target: "leader", Shape: "one-way"}},
		"crash the agent before promote number 2, started again after 5s":               {Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Action: "promote", Phase: "before", Nth: 2, For: ringproof.Duration(5e9)}},
		"lose the reply of promote to the agent":                                        {Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Action: "promote", Phase: "reply-lost", For: ringproof.Duration(5e9)}},
		"refuse the agent on m1 etcd put":                                               {Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Effect: "etcd put", Phase: "refused", Target: "m1"}},
		"show the agent a view 1 decision old at decision 3 about the ring":             {Fault: &ringproof.Fault{Kind: ringproof.FaultStaleView, Nth: 3}},
		"show the agent on m2 a view 4 decisions old at decisions 1 to 2 about a start": {Fault: &ringproof.Fault{Kind: ringproof.FaultStaleView, Target: "m2", Decision: "boot", Back: 4, Count: 2}},
		"keep the agent from decisions 2 to 4 about the ring":                           {Fault: &ringproof.Fault{Kind: ringproof.FaultSkippedView, Decision: "next", Nth: 2, Count: 3}},
		"lose 30 of 100 replies to all, for 5s":                                         {Fault: &ringproof.Fault{Kind: ringproof.FaultReplyLoss, Percent: 30, For: ringproof.Duration(5e9)}},
		"delay every packet from and to leader by 200ms":                                {Fault: &ringproof.Fault{Kind: ringproof.FaultSlowNetwork, Target: "leader", By: ringproof.Duration(2e8)}},
		"lose 20 of 100 packets from and to all, for 5s":                                {Fault: &ringproof.Fault{Kind: ringproof.FaultPacketLoss, Target: "all", Percent: 20, For: ringproof.Duration(5e9)}},
		"set the clock of follower 5m ahead":                                            {Fault: &ringproof.Fault{Kind: ringproof.FaultClockSkew, Target: "follower", By: ringproof.Duration(300e9)}},
		"set the clock of follower 5m back":                                             {Fault: &ringproof.Fault{Kind: ringproof.FaultClockSkew, Target: "follower", By: ringproof.Duration(-300e9)}},
		"let 400d pass by all clocks, for 40s":                                          {Fault: &ringproof.Fault{Kind: ringproof.FaultTimePasses, By: ringproof.Duration(400 * 24 * 3600e9), For: ringproof.Duration(40e9)}},
		"swap the disks of m1,m2":                                                       {Fault: &ringproof.Fault{Kind: ringproof.FaultDiskSwap, Target: "m1,m2"}},
		"have the members' StatefulSet keep no pods":                                    {Fault: &ringproof.Fault{Kind: ringproof.FaultSetScaled, How: ringproof.ScaledToNone}},
		"have the members' StatefulSet keep a minority of its pods":                     {Fault: &ringproof.Fault{Kind: ringproof.FaultSetScaled, How: ringproof.ScaledToMinority}},
		"have the members' StatefulSet keep one pod fewer":                              {Fault: &ringproof.Fault{Kind: ringproof.FaultSetScaled, How: ringproof.ScaledFewer}},
		"let nobody update secrets, for 20s":                                            {Fault: &ringproof.Fault{Kind: ringproof.FaultAdmissionDenied, Object: "secrets", Does: ringproof.DeniesUpdate, For: ringproof.Duration(20e9)}},
		"delete what asks for the ring and leave what it owns, for 20s":                 {Fault: &ringproof.Fault{Kind: ringproof.FaultRingDeleted, How: ringproof.Orphan, For: ringproof.Duration(20e9)}},
		"lose the disk of leader, for good, off for 20s first":                          {Fault: &ringproof.Fault{Kind: ringproof.FaultVolumeLoss, Target: "leader", For: ringproof.Duration(20e9)}},
		"1s after a member stopped answering (step dark), ask for 4 voters, which must be refused": {
			After: &ringproof.Trigger{Event: ringproof.EventMemberDown, Step: "dark", Delay: ringproof.Duration(1e9)}, Op: &ringproof.Op{Kind: ringproof.OpScale, To: 4, Refused: true}},
		"at the end of grow and crash, expect within 1m 1 voter, 0 learners, equal data everywhere": {
			Join: []string{"grow", "crash"}, Assert: &ringproof.Assert{Within: ringproof.Duration(60e9), Voters: 1, Learners: &none, HashKV: "equal"}},
	} {
		assert.Equal(t, want, faults.Sentence(step))
	}
}

func TestSentenceOfEnd(t *testing.T) {
	assert.Equal(t, "delete the ring, and expect within 2m that nothing of it is left", faults.SentenceOfEnd(ringproof.End{Within: ringproof.Duration(120e9)}))
	assert.Equal(t, "cut the power of m2, for 10m; meanwhile delete the ring, and expect within 2m that nothing of it is left",
		faults.SentenceOfEnd(ringproof.End{Within: ringproof.Duration(120e9), Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Scope: "machine", Target: "m2", For: ringproof.Duration(600e9)}}))
}

// A fault at the subject's seams is on machines where nobody says that its controller is
// meant.
func TestCompletedLeavesBareWordsOut(t *testing.T) {
	crash := faults.Completed(ringproof.Fault{Kind: ringproof.FaultAgentCrash, Action: "add-learner"})
	assert.Empty(t, crash.Scope)
	assert.Equal(t, "agent", faults.Completed(ringproof.Fault{Kind: ringproof.FaultPause, Scope: "agent"}).Scope)
	assert.NotEmpty(t, faults.Completed(ringproof.Fault{Kind: ringproof.FaultPause}).Scope)
}
