// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// full is a history with something of each kind in it.
func full() History {
	learners := 0
	return History{
		Plan: Plan{
			Cell: "grow[etcd=v3.6.16]#7", Scenario: "grow", Matrix: map[string]string{"etcd": "v3.6.16"}, Seed: 7, World: "sim",
			Ring:        RingSpec{Size: 3, Machines: 5, Version: "v3.6.16", ReplaceAfter: Duration(30 * time.Second)},
			Assumptions: Assumptions{MinAcked: 1, FaultsFired: true},
			Invariants:  []Invariant{{Check: "quorum-margin", Params: map[string]string{"min": "0"}}},
			Steps: []Step{
				{Name: "grow", Op: &Op{Kind: OpScale, To: 5}, Detach: true},
				{Name: "lose", After: &Trigger{Event: EventMemberAdded, Timeout: Duration(time.Minute)}, Fault: &Fault{Kind: FaultVolumeLoss, Target: "m2"}},
				{Name: "settle", Join: []string{"grow"}, Assert: &Assert{Voters: 5, Learners: &learners, HashKV: "equal"}},
			},
		},
		Tools:  Tools{Ringproof: "v0.1.0", Go: "go1.26", Etcd: map[string]string{"v3.6.16": "sha256:00"}},
		Events: []Event{{Seq: 1, At: Instant(time.Second), Kind: EventMemberAdded, Member: 0x8e9e05c52164694d, Learner: true}},
		Operations: []Operation{
			{ID: 1, Call: 10, Return: 20, Request: Request{Kind: RequestPut, Key: "/w/0", Value: "v1"}, Response: &Response{Revision: 2, Member: 1}},
			{ID: 2, Call: 15, Return: Forever, Request: Request{Kind: RequestTxn, Key: "/w/0", Value: "v2", Compare: 2}, Err: "deadline"},
		},
		Watches: []Watch{{Endpoint: "m1", Start: 1, Events: []WatchEvent{
			{Revision: 2, Create: true, KV: KV{Key: "/w/0", Value: "v1"}},
			{Revision: 3, Delete: true, KV: KV{Key: "/w/0"}, Prev: &KV{Key: "/w/0", Value: "v1"}},
		}}},
		Observations: []Observation{{At: 30, Machines: []MachineView{{Name: "m1", Disk: 1}}, Members: []MemberView{{ID: 1, Peers: []MemberID{1, 2}}}, Fresh: true}},
		Evidence: Evidence{Spec: 3, Changes: []ConfChange{{Kind: "add-voter", Member: 1, At: Forever, Initial: true}}, Revision: 3,
			Budget: []Budget{{At: 25, What: "volume-loss of m2", Used: 1}, {At: 30, What: "machine-loss of m3 refused", Used: 1, Left: -1}}},
		Measures: map[string]float64{"wall": 1.5},
		Trace:    "9f86d081884c7d65, 48213 events",
	}
}

func written(t testing.TB, h History) []byte {
	var out bytes.Buffer
	require.NoError(t, h.Write(&out))
	return out.Bytes()
}

func TestHistoryRoundTrip(t *testing.T) {
	want := full()
	got, err := ReadHistory(bytes.NewReader(written(t, want)))
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, 1, got.Acked())
}

func TestReadHistoryRefuses(t *testing.T) {
	whole := string(written(t, full()))
	for name, test := range map[string]struct{ text, says string }{
		"nothing":          {"", "is this a history.jsonl"},
		"another format":   {`{"format":"ringproof-history/v9"}`, "is this a history.jsonl"},
		"a cut file":       {whole[:strings.LastIndex(strings.TrimSpace(whole), "\n")+1], "before its evidence"},
		"a cut line":       {whole[:len(whole)/2], "record"},
		"an unknown field": {`{"format":"ringproof-history/v1"}` + "\n" + `{"event":{"colour":"red"}}`, "colour"},
		"an empty record":  {`{"format":"ringproof-history/v1"}` + "\n" + `{}`, "record 2"},
		"a bad instant":    {`{"format":"ringproof-history/v1"}` + "\n" + `{"event":{"at":"soon"}}`, "1.25s"},
		"a bad member":     {`{"format":"ringproof-history/v1"}` + "\n" + `{"event":{"member":"m1"}}`, "hex"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			_, err := ReadHistory(strings.NewReader(test.text))
			require.ErrorContains(t, err, test.says)
		})
	}
}

// FuzzReadHistory: what is read can be written, and reads the same again.
func FuzzReadHistory(f *testing.F) {
	f.Add(written(f, full()))
	f.Fuzz(func(t *testing.T, saved []byte) {
		h, err := ReadHistory(bytes.NewReader(saved))
		if err != nil {
			return
		}
		first := written(t, h)
		again, err := ReadHistory(bytes.NewReader(first))
		require.NoError(t, err)
		require.Equal(t, string(first), string(written(t, again)))
	})
}

func TestMerge(t *testing.T) {
	for _, test := range []struct {
		want     Verdict
		verdicts []Verdict
	}{
		{Inconclusive, nil},
		{Pass, []Verdict{Pass, Pass}},
		{Inconclusive, []Verdict{Pass, Inconclusive, Pass}},
		{Fail, []Verdict{Inconclusive, Fail, Pass}},
		{Fail, []Verdict{Pass, Fail}},
		{Inconclusive, []Verdict{Verdict(9), Pass}},
	} {
		require.Equal(t, test.want, Merge(test.verdicts...), "%v", test.verdicts)
	}
	var unjudged Finding
	require.Equal(t, Inconclusive, unjudged.Verdict, "what nobody judged has not passed")
}

func TestVerdictText(t *testing.T) {
	for _, v := range []Verdict{Inconclusive, Pass, Fail} {
		text, err := v.MarshalText()
		require.NoError(t, err)
		var back Verdict
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, v, back)
	}
	var v Verdict
	require.ErrorContains(t, v.UnmarshalText([]byte("passed")), "pass, fail, inconclusive")
}
