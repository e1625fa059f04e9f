// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var memberCommands = map[string]command{
	"add":             {(*stage).add, 1, 1, "on peer"},
	"add-learner":     {(*stage).addLearner, 1, 1, "on peer"},
	"promote":         {(*stage).promote, 1, 1, "on"},
	"promote-in-sync": {(*stage).promoteInSync, 1, 1, "on"},
	"remove":          {(*stage).remove, 1, 1, "on"},
	"update":          {(*stage).update, 1, 1, "on peer"},
	"members":         {(*stage).members, 0, 2, "on"},
	"leader":          {(*stage).leader, 1, 1, ""},
	"move-leader":     {(*stage).moveLeader, 1, 1, "on"},
	"wait-leader":     {(*stage).waitLeader, 0, 9, ""},
	"wait-leaderless": {(*stage).waitLeaderless, 1, 1, ""},
}

// learn takes the names of members and of the ring from an answer.
func (s *stage) learn(header *etcdserverpb.ResponseHeader, members []*etcdserverpb.Member) {
	s.names.ring(header.GetClusterId())
	s.names.current = nil
	for _, m := range members {
		s.names.member(m, s.machineAt)
		s.names.current = append(s.names.current, m.ID)
	}
}

// relearn takes the names from a machine's own member list.
func (s *stage) relearn(ctx context.Context, machine string) {
	ctx, cancel := s.Timeout(ctx, probeTimeout)
	defer cancel()
	if got, err := s.client(machine).MemberList(ctx, clientv3.WithSerializable()); err == nil {
		s.learn(got.Header, got.Members)
	}
}

// peerURLs is what peer= says ("http://a.peer"), or the URL of the machine.
func (s *stage) peerURLs(c call) []string {
	given, ok := c.opts["peer"]
	if !ok {
		return []string{s.URL(s.machine(c.words[0]), PeerPort, s.secure)}
	}
	var urls []string
	for _, each := range strings.Split(given, ",") {
		urls = append(urls, s.expand(each))
	}
	return urls
}

// expand is the URL of a machine, for its name: "http://a.peer".
func (s *stage) expand(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	name, port, found := strings.Cut(rest, ".")
	if !found || !slices.Contains(ports, Port(port)) {
		return url
	}
	return s.URL(s.machine(name), Port(port), scheme == "https")
}

var machineURL = regexp.MustCompile(`https?://\w+\.(peer|second|client)`)

func (s *stage) expandAll(flag string) string { return machineURL.ReplaceAllStringFunc(flag, s.expand) }

func (s *stage) add(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).MemberAdd(ctx, s.peerURLs(c))
	if err != nil {
		return failed(err)
	}
	s.learn(got.Header, got.Members)
	return s.added(got.Member, got.Members)
}

func (s *stage) addLearner(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).MemberAddAsLearner(ctx, s.peerURLs(c))
	if err != nil {
		return failed(err)
	}
	s.learn(got.Header, got.Members)
	return s.added(got.Member, got.Members)
}

func (s *stage) added(m *etcdserverpb.Member, all []*etcdserverpb.Member) string {
	return fmt.Sprintf("added %s as a %s; %s", s.names.members[m.ID], role(m), s.ofAll(all))
}

func role(m *etcdserverpb.Member) string {
	if m.IsLearner {
		return "learner"
	}
	return "voter"
}

// ofAll is "4 members: a, b, c and d".
func (s *stage) ofAll(all []*etcdserverpb.Member) string {
	var words []string
	for _, m := range all {
		words = append(words, s.names.members[m.ID])
	}
	slices.Sort(words)
	return fmt.Sprintf("%d %s: %s", len(words), plural("member", len(words)), list(words))
}

// id is the ID of a member by its name. A name that no member ever had is an
// ID that no member ever had.
func (s *stage) id(name string) uint64 {
	if id, ok := s.names.ids[name]; ok {
		return id
	}
	return 0xdead
}

func (s *stage) promote(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).MemberPromote(ctx, s.id(c.words[0]))
	if err != nil {
		return failed(err)
	}
	s.learn(got.Header, got.Members)
	return "promoted " + c.words[0]
}

// promoteInSync asks until the leader takes the learner to be in sync: it hears
// of what the learner has after the learner has applied it, and of a short log
// one entry is more than the tenth that may be missing.
func (s *stage) promoteInSync(ctx context.Context, c call) string {
	var said string
	s.await(ctx, c.within(s.patient()), func(ctx context.Context) bool {
		said = s.promote(ctx, c)
		return said != failed(rpctypes.ErrMemberLearnerNotReady)
	})
	return said
}

func (s *stage) remove(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).MemberRemove(ctx, s.id(c.words[0]))
	if err != nil {
		return failed(err)
	}
	s.learn(got.Header, got.Members)
	return fmt.Sprintf("removed %s; %s", c.words[0], s.ofAll(got.Members))
}

func (s *stage) update(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).MemberUpdate(ctx, s.id(c.words[0]), s.peerURLs(c))
	if err != nil {
		return failed(err)
	}
	s.learn(got.Header, got.Members)
	return "updated " + c.words[0]
}

func (s *stage) members(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	var opts []clientv3.OpOption
	if c.is("serializable") {
		opts = append(opts, clientv3.WithSerializable())
	}
	got, err := s.asked(c).MemberList(ctx, opts...)
	if err != nil {
		return failed(err)
	}
	s.learn(got.Header, got.Members)
	var lines []string
	for _, m := range got.Members {
		lines = append(lines, s.describe(m))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// describe is "a: voter at http://a.peer, serves at http://a.client". etcd has
// no client URL for a member that never served, and a name only for those of
// the first list.
func (s *stage) describe(m *etcdserverpb.Member) string {
	line := fmt.Sprintf("%s: %s at %s", s.names.members[m.ID], role(m), strings.Join(m.PeerURLs, ","))
	if m.Name == "" && len(m.ClientURLs) == 0 {
		return line + ", never started"
	}
	if len(m.ClientURLs) == 0 {
		return line + ", serves nowhere yet"
	}
	if m.Name != s.names.machine(m.ID) {
		line += fmt.Sprintf(", named %q", m.Name)
	}
	return line + ", serves at " + strings.Join(m.ClientURLs, ",")
}

// leader gives the lead to a member, so that what follows doesn't depend on
// who was elected.
func (s *stage) leader(ctx context.Context, c call) string {
	want := s.id(c.words[0])
	ok := s.await(ctx, s.patient(), func(ctx context.Context) bool {
		up := s.running()
		if len(up) == 0 {
			return false
		}
		status, err := s.status(ctx, up[0])
		if err != nil || status.Leader == 0 {
			return false
		}
		if status.Leader == want {
			s.term = status.RaftTerm
			return s.agreed(ctx, s.running(), want)
		}
		ctx, cancel := s.Timeout(ctx, probeTimeout)
		defer cancel()
		_, _ = s.client(s.names.machine(status.Leader)).MoveLeader(ctx, want)
		return false
	})
	if !ok {
		return c.words[0] + " doesn't lead"
	}
	return c.words[0] + " leads"
}

// agreed reports whether all of some members take the same one for their leader.
func (s *stage) agreed(ctx context.Context, among []string, leader uint64) bool {
	for _, name := range among {
		if status, err := s.status(ctx, name); err != nil || status.Leader != leader {
			return false
		}
	}
	return true
}

func (s *stage) moveLeader(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	if _, err := s.asked(c).MoveLeader(ctx, s.id(c.words[0])); err != nil {
		return failed(err)
	}
	return "the lead moves to " + c.words[0]
}

// waitLeader waits until the running members, or those that are named, have one
// leader, which is of them, and can read through it.
func (s *stage) waitLeader(ctx context.Context, c call) string {
	among := func() []string {
		if len(c.words) > 0 {
			return c.words
		}
		return s.running()
	}
	ok := s.await(ctx, c.within(s.patient()), func(ctx context.Context) bool {
		up := among()
		if len(up) == 0 {
			return false
		}
		status, err := s.status(ctx, up[0])
		if err == nil && s.names.members[status.Leader] == "" {
			s.relearn(ctx, up[0])
		}
		if err != nil || !slices.Contains(up, s.names.machine(status.Leader)) || !s.agreed(ctx, up, status.Leader) {
			return false
		}
		ctx, cancel := s.Timeout(ctx, probeTimeout)
		defer cancel()
		_, err = s.client(s.names.machine(status.Leader)).Get(ctx, "k")
		return err == nil
	})
	if !ok {
		return "no leader"
	}
	return verb(among(), "has", "have") + " a leader"
}

// waitLeaderless waits until a member gives up its leader. One that leads alone
// takes writes into its log until then, and may have them written later.
func (s *stage) waitLeaderless(ctx context.Context, c call) string {
	if s.leaderless(ctx, c) {
		return c.words[0] + " has no leader"
	}
	return c.words[0] + " keeps its leader"
}

func (s *stage) leaderless(ctx context.Context, c call) bool {
	return s.await(ctx, c.within(s.patient()), func(ctx context.Context) bool {
		status, err := s.status(ctx, c.words[0])
		return err == nil && status.Leader == 0
	})
}
