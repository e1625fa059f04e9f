// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package observe makes an observation of what the members of a ring said, the
// same way in every world.
package observe

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// Answer is what one etcd said of itself.
type Answer struct {
	Machine string
	Status  *clientv3.StatusResponse
	Members *clientv3.MemberListResponse // as it knows them itself
	Fresh   *clientv3.MemberListResponse // read with a quorum; nil when it wasn't asked or had none
	Err     error
	Silent  bool // it took the question, and gave no answer in time
}

// Ring fills in the members of o, whether they were read with a quorum, and
// who could not be asked. Its machines are there already.
func Ring(o *ringproof.Observation, answers []Answer) {
	o.Members, o.Fresh = membership(answers)
	for i := range o.Members {
		m := &o.Members[i]
		place(m, o.Machines)
		describe(m, answers)
		m.Silent = slices.ContainsFunc(answers, func(a Answer) bool { return a.Silent && a.Machine == m.Machine })
	}
	for _, a := range answers {
		if a.Err != nil {
			o.Unknown = append(o.Unknown, fmt.Sprintf("%s: %v", a.Machine, a.Err))
		}
	}
}

// membership takes the list of the one that knows most: a list read with a
// quorum before any other, and the highest revision of those.
func membership(answers []Answer) ([]ringproof.MemberView, bool) {
	var best *clientv3.MemberListResponse
	var applied uint64
	fresh := false
	for _, a := range answers {
		list := cmp.Or(a.Fresh, a.Members)
		if list == nil || fresh && a.Fresh == nil {
			continue
		}
		if best == nil || a.Fresh != nil && !fresh || a.Status.RaftAppliedIndex >= applied {
			best, applied, fresh = list, a.Status.RaftAppliedIndex, a.Fresh != nil
		}
	}
	if best == nil {
		return nil, false
	}
	views := make([]ringproof.MemberView, 0, len(best.Members))
	for _, m := range best.Members {
		views = append(views, ringproof.MemberView{ID: ringproof.MemberID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, Learner: m.IsLearner})
	}
	slices.SortFunc(views, func(a, b ringproof.MemberView) int { return cmp.Compare(a.ID, b.ID) })
	return views, fresh
}

// place says on which machine the member is, by its peer URLs.
func place(m *ringproof.MemberView, machines []ringproof.MachineView) {
	for _, peer := range m.PeerURLs {
		_, address, _ := strings.Cut(peer, "://")
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}
		for _, on := range machines {
			if on.Is(host) {
				m.Machine = on.Name
			}
		}
	}
}

// describe adds what the member said of itself.
func describe(m *ringproof.MemberView, answers []Answer) {
	for _, a := range answers {
		if a.Status == nil || ringproof.MemberID(a.Status.Header.MemberId) != m.ID {
			continue
		}
		s := a.Status
		m.Serving = a.Err == nil && s.Leader != 0
		m.Leader = s.Leader == s.Header.MemberId
		m.ClusterID, m.Version, m.Term = s.Header.ClusterId, s.Version, s.RaftTerm
		m.Index, m.Applied, m.Revision, m.DBSize = s.RaftIndex, s.RaftAppliedIndex, s.Header.Revision, s.DbSize
		for _, e := range s.Errors {
			if e != "etcdserver: no leader" {
				m.Alarms = append(m.Alarms, e)
			}
		}
		if a.Members != nil {
			m.Peers = make([]ringproof.MemberID, 0, len(a.Members.Members))
			for _, p := range a.Members.Members {
				m.Peers = append(m.Peers, ringproof.MemberID(p.ID))
			}
			slices.Sort(m.Peers)
		}
	}
}

// Roll has one member after another restarted, the leader last, as observe shows them
// now, and says how many.
func Roll(ctx context.Context, observe func(context.Context) (ringproof.Observation, error), restart func(ctx context.Context, machine string) (string, error)) (string, error) {
	o, err := observe(ctx)
	if err != nil {
		return "", err
	}
	members := Rolled(o)
	for _, m := range members {
		if _, err := restart(ctx, m.Machine); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d members", len(members)), nil
}

// Rolled is the members of the ring in the order in which they are restarted:
// the leader last, so that leadership is handed over once.
func Rolled(o ringproof.Observation) []ringproof.MemberView {
	members := slices.Clone(o.Members)
	slices.SortFunc(members, func(a, b ringproof.MemberView) int {
		switch {
		case a.Leader && !b.Leader:
			return 1
		case b.Leader && !a.Leader:
			return -1
		}
		return faults.CompareMachines(a.Machine, b.Machine)
	})
	return members
}
