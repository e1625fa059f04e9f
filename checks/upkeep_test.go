// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// operated is what operators of a ring of two members of 3.6 were answered.
func operated() *ringproof.History {
	h := &ringproof.History{Plan: ringproof.Plan{Ring: ringproof.RingSpec{Version: "v3.6.16",
		Members: map[string]ringproof.Own{"m2": {Flags: map[string]string{"quota-backend-bytes": "0x100000"}}}}}}
	ask := func(machine string, member ringproof.MemberID, kind ringproof.RequestKind, u ringproof.UpkeepAnswer) {
		at := ringproof.Instant(10 * (len(h.Operations) + 1))
		h.Operations = append(h.Operations, ringproof.Operation{ID: len(h.Operations), Endpoint: machine, Call: at, Return: at + 5,
			Request: ringproof.Request{Kind: kind}, Response: &ringproof.Response{Member: member, Revision: int64(at), Upkeep: &u}})
	}
	ask("m1", 1, ringproof.RequestStatus, ringproof.UpkeepAnswer{Version: "3.6.16", Quota: defaultQuota, Term: 2})
	ask("m2", 2, ringproof.RequestStatus, ringproof.UpkeepAnswer{Version: "3.6.16", Quota: 1 << 20, Term: 2})
	ask("m1", 1, ringproof.RequestHash, ringproof.UpkeepAnswer{Hash: 7, At: 9, Compacted: 4})
	ask("m2", 2, ringproof.RequestHash, ringproof.UpkeepAnswer{Hash: 7, At: 9, Compacted: 4})
	ask("m1", 1, ringproof.RequestAlarms, ringproof.UpkeepAnswer{Alarms: []ringproof.Alarm{{Member: 2, Kind: "NOSPACE"}}})
	ask("m1", 1, ringproof.RequestSnapshot, ringproof.UpkeepAnswer{Size: 4128, Whole: true})
	ask("m2", 2, ringproof.RequestStatus, ringproof.UpkeepAnswer{Version: "3.6.16", Quota: 1 << 20, Term: 3})
	return h
}

func TestUpkeep(t *testing.T) {
	noSpace := ringproof.Operation{Err: "etcdserver: mvcc: database space exceeded"}
	for name, c := range map[string]struct {
		change func(h *ringproof.History)
		says   string // "": it passes
	}{
		"as it should be":                   {func(*ringproof.History) {}, ""},
		"a status without its quota":        {func(h *ringproof.History) { h.Operations[0].Response.Upkeep.Quota = 0 }, "the quota that it was given, 2147483648 bytes; saw 0"},
		"another's quota":                   {func(h *ringproof.History) { h.Operations[1].Response.Upkeep.Quota = defaultQuota }, "1048576 bytes"},
		"a quota that a restart changes":    {func(h *ringproof.History) { h.Operations[0].Response.Upkeep.Quota = 5; requota(h) }, ""},
		"a release that says nothing of it": {func(h *ringproof.History) { h.Plan.Ring.Version = "v3.5.21"; release(h, "3.5.21") }, ""},
		"another release":                   {func(h *ringproof.History) { release(h, "3.6.15") }, "expected release v3.6.16, saw 3.6.15"},
		"another hash":                      {func(h *ringproof.History) { h.Operations[3].Response.Upkeep.Hash = 8 }, "expected equal hashes at revision 9"},
		"a hash of another compaction": {func(h *ringproof.History) {
			h.Operations[3].Response.Upkeep.Hash, h.Operations[3].Response.Upkeep.Compacted = 8, 5
		}, ""},
		"an alarm by hand": {func(h *ringproof.History) {
			h.Operations[4].Response.Upkeep.Alarms[0].Kind = "CORRUPT"
			event(h, ringproof.Event{Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultAlarmRaised, Text: "the alarm CORRUPT of member 2 was raised by hand"})
		}, ""},
		"a corrupt member beside an alarm by hand": {func(h *ringproof.History) {
			h.Operations[4].Response.Upkeep.Alarms[0].Kind = "CORRUPT"
			event(h, ringproof.Event{Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultAlarmRaised, Text: "the alarm CORRUPT of member 3 was raised by hand"})
		}, "the alarm of 2"},
		"a corrupt member":        {func(h *ringproof.History) { h.Operations[4].Response.Upkeep.Alarms[0].Kind = "CORRUPT" }, "the alarm of 2"},
		"a backup that broke off": {func(h *ringproof.History) { h.Operations[5].Response.Upkeep.Whole = false }, "4128 bytes that don't"},
		"an older term":           {func(h *ringproof.History) { h.Operations[6].Response.Upkeep.Term = 1 }, "in term 2 or later, saw 1"},
		"an older revision":       {func(h *ringproof.History) { h.Operations[6].Response.Revision = 3 }, "at revision 20 or later, saw 3"},
		"after a restart": {func(h *ringproof.History) {
			h.Operations[6].Response.Revision = 3
			h.Events = []ringproof.Event{{At: 40, Kind: ringproof.EventProcessExited, Machine: "m2"}}
		}, ""},
		"asked at the same time": {func(h *ringproof.History) { h.Operations[6].Response.Revision, h.Operations[6].Call = 3, 24 }, ""},
		"a read refused for space": {func(h *ringproof.History) {
			o := noSpace
			o.Request = ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{{Kind: ringproof.RequestRange, Key: "/w/"}, {Kind: ringproof.RequestDelete, Key: "/w/a"}}}
			h.Operations = append(h.Operations, o)
		}, "writes nothing"},
		"a write refused for space": {func(h *ringproof.History) {
			o := noSpace
			o.Request = ringproof.Request{Kind: ringproof.RequestTxn, Then: []ringproof.Request{{Kind: ringproof.RequestPut, Key: "/w/a", Value: "v"}}}
			h.Operations = append(h.Operations, o)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := operated()
			c.change(h)
			f := upkeep.Finding(h, nil)
			if c.says == "" {
				require.Equal(t, ringproof.Pass, f.Verdict, f.String())
				return
			}
			require.Equal(t, ringproof.Fail, f.Verdict, f.String())
			require.Contains(t, f.Message, c.says)
		})
	}
	c, known := Lookup("upkeep")
	require.True(t, known)
	require.Equal(t, ringproof.Inconclusive, c.Finding(&ringproof.History{}, nil).Verdict)
}

func requota(h *ringproof.History) {
	h.Plan.Steps = []ringproof.Step{{Op: &ringproof.Op{Kind: ringproof.OpRestart, Flags: map[string]string{"quota-backend-bytes": "5"}}}}
}

func release(h *ringproof.History, version string) {
	for i := range h.Operations {
		if u := h.Operations[i].Response.Upkeep; u.Version != "" {
			u.Version, u.Quota = version, 0
		}
	}
}

func TestNoPanic(t *testing.T) {
	exit := ringproof.Event{At: 9, Kind: ringproof.EventProcessExited, Machine: "m1", Text: "etcd, pid 12, panic: unexpected error during txn"}
	h := &ringproof.History{Events: []ringproof.Event{{Kind: ringproof.EventProcessStarted, Machine: "m1"}, exit}}
	f := noPanic.Finding(h, nil)
	require.Equal(t, ringproof.Fail, f.Verdict)
	require.Contains(t, f.Message, "m1 ended in: unexpected error during txn")

	full := ringproof.Event{At: 3, Kind: ringproof.EventFaultLanded, Fault: ringproof.FaultDiskFull, Machine: "m2"}
	h.Events = append(h.Events, full)
	require.Equal(t, ringproof.Fail, noPanic.Finding(h, nil).Verdict, "another's disk")
	h.Events[2].Machine = "m1"
	require.Equal(t, ringproof.Pass, noPanic.Finding(h, nil).Verdict, "it had no room to write")
	h.Events = []ringproof.Event{{At: 9, Kind: ringproof.EventProcessExited, Machine: "m1", Text: "etcd, pid 12, panic: " + removed}}
	require.Equal(t, ringproof.Pass, noPanic.Finding(h, nil).Verdict, "it was removed")
	h.Events = []ringproof.Event{{At: 9, Kind: ringproof.EventProcessExited, Machine: "m1", Text: "etcd, pid 12"}}
	require.Equal(t, ringproof.Pass, noPanic.Finding(h, nil).Verdict)
	c, known := Lookup("no-panic")
	require.True(t, known)
	require.Equal(t, ringproof.Inconclusive, c.Finding(&ringproof.History{}, nil).Verdict)
}
