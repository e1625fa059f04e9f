// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
)

const (
	tick     = ringproof.Instant(100 * time.Millisecond)
	lifetime = 5 * time.Second // of each lease
	overlong = 8 * time.Second // that a lease lives beyond its time at most
)

// expire ends leases whose time is over: some now, some later.
func (x *execution) expire() {
	for i := range x.granted {
		each := &x.granted[i]
		if x.at >= each.until && (x.IntN(3) == 0 || x.at >= each.until.Add(overlong)) {
			x.end(each.id)
		}
	}
}

// end takes the keys of a lease away, all at one revision.
func (x *execution) end(id int64) {
	if x.granted[id-1].over {
		return
	}
	x.granted[id-1].over = true
	before, wrote := x.revision, false
	for k := range x.keys {
		key := fmt.Sprintf("/w/%d", k)
		if x.now(key, before).tenancy() != id {
			continue
		}
		if !wrote {
			x.revision++
		}
		wrote = true
		x.change(key, "", 0, true)
	}
}

// lease puts leases that the client may know of into a request; those that are
// over too.
func (x *execution) lease(r *ringproof.Request, call ringproof.Instant) {
	var known []int64
	for _, each := range x.granted {
		if each.known < call {
			known = append(known, each.id)
		}
	}
	switch {
	case r.Kind == ringproof.RequestKeepAlive && len(known) == 0, r.Kind == ringproof.RequestRevoke && len(known) == 0:
		r.Kind = ringproof.RequestGrant
	case r.Kind == ringproof.RequestKeepAlive, r.Kind == ringproof.RequestRevoke:
		r.Lease = known[x.IntN(len(known))]
	case len(known) > 0:
		parts(r, func(each *ringproof.Request) {
			if each.Kind == ringproof.RequestPut && x.IntN(3) > 0 {
				each.Lease = known[x.IntN(len(known))]
			}
		})
	}
}

// wanting reports whether etcd refuses the request for want of a lease: of a
// transaction it looks at the branches taken.
func (x *execution) wanting(r *ringproof.Request, revision int64) bool {
	if !r.General() {
		return r.Lease != 0 && x.granted[r.Lease-1].over
	}
	branch := r.Then
	if slices.ContainsFunc(r.If, func(c ringproof.Comparison) bool { return !holds(&c, x.now(c.Key, revision)) }) {
		branch = r.Else
	}
	return slices.ContainsFunc(branch, func(each ringproof.Request) bool { return x.wanting(&each, revision) })
}

func withLeases(t *rapid.T) execution {
	x := transactions(t)
	x.leases, x.general = 4, rapid.SampledFrom([]int{0, 1}).Draw(t, "general")
	x.gaps = rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "gaps")
	return x
}

// TestLeasesOfACorrectEtcdPass: whoever writes under leases that run out and are
// revoked is never accused, and a watch that shows everything leaves no doubt.
func TestLeasesOfACorrectEtcdPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := withLeases(t)
		h := x.run()
		if h.Acked() == 0 {
			return
		}
		for _, c := range []Check{linearizable, watchGuarantees, acknowledgedWritesSurvive, revisionMonotone, leasesKeepTheirTime} {
			f := c.Finding(&h, nil)
			require.NotEqual(t, ringproof.Fail, f.Verdict, "%s\n%s", f, opsText(&h))
			if c.Name == linearizable.Name && x.watched && x.gaps == 0 {
				require.Equal(t, ringproof.Pass, f.Verdict, "%s\n%s", f, opsText(&h))
			}
		}
	})
}

// TestTwoEndsAtOneRevision: a lease that has lost its key to another is revoked
// after that one, without a write of its own.
func TestTwoEndsAtOneRevision(t *testing.T) {
	at := 0.0
	ask := func(r ringproof.Request, answer ringproof.Response) ringproof.Operation {
		at++
		return ringproof.Operation{Call: sec(at), Return: sec(at + 0.1), Request: r, Response: &answer}
	}
	h := ringproof.History{Operations: []ringproof.Operation{
		ask(ringproof.Request{Kind: ringproof.RequestGrant}, ringproof.Response{Revision: 1, Lease: 6, TTL: 600}),
		ask(ringproof.Request{Kind: ringproof.RequestGrant}, ringproof.Response{Revision: 1, Lease: 7, TTL: 600}),
		ask(ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/a", Value: "x", Lease: 6}, ringproof.Response{Revision: 2}),
		ask(ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/a", Value: "y", Lease: 7}, ringproof.Response{Revision: 3}),
		ask(ringproof.Request{Kind: ringproof.RequestRevoke, Lease: 7}, ringproof.Response{Revision: 4}),
		ask(ringproof.Request{Kind: ringproof.RequestRevoke, Lease: 6}, ringproof.Response{Revision: 4}),
		ask(ringproof.Request{Kind: ringproof.RequestGet, Key: "/w/a"}, ringproof.Response{Revision: 4}),
	}}
	f := linearizable.Finding(&h, nil)
	require.Equal(t, ringproof.Pass, f.Verdict, f.String())
}

// TestAMakerGivesWay to a revision that has no other.
func TestAMakerGivesWay(t *testing.T) {
	first, second := maker{op: 1}, maker{op: 2}
	chosen := assign([]orphan{{revision: 3, makers: []maker{first, second}}, {revision: 4, makers: []maker{first}}, {revision: 5, makers: []maker{second}}})
	require.Equal(t, []maker{second, first, {op: -1}}, chosen)
}
