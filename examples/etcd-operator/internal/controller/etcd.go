// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	clientPort = 2379
	peerPort   = 2380

	dialTimeout = 2 * time.Second
	askTimeout  = 5 * time.Second
)

// Etcd asks clusters.
type Etcd struct{}

// member is one of a cluster's.
type member struct {
	id      uint64
	ordinal int
	learner bool
	started bool
}

// membership is what a cluster said of itself.
type membership struct {
	members []member // by ordinal
	leader  uint64
	serving int // members that answered
}

// whole reports whether every member serves, and votes.
func (m membership) whole() bool {
	return m.serving == len(m.members) && !slices.ContainsFunc(m.members, func(m member) bool { return m.learner })
}

func (m membership) has(ordinal int) bool {
	return slices.ContainsFunc(m.members, func(m member) bool { return m.ordinal == ordinal })
}

// open connects to the members at these addresses.
func (Etcd) open(hosts []string) (*clientv3.Client, error) {
	var endpoints []string
	for _, h := range hosts {
		endpoints = append(endpoints, fmt.Sprintf("http://%s:%d", h, clientPort))
	}
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: dialTimeout, Logger: zap.NewNop()})
}

// look reads the list of members with a quorum, and asks each whether it serves.
func (Etcd) look(ctx context.Context, c *clientv3.Client) (all membership, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	list, err := c.MemberList(ctx)
	if err != nil {
		return all, err
	}
	for _, m := range list.Members {
		ordinal, err := ordinalOf(m)
		if err != nil {
			return all, err
		}
		all.members = append(all.members, member{m.ID, ordinal, m.IsLearner, m.Name != ""})
	}
	slices.SortFunc(all.members, func(a, b member) int { return cmp.Compare(a.ordinal, b.ordinal) })
	for _, endpoint := range c.Endpoints() {
		asking, done := context.WithTimeout(ctx, dialTimeout)
		if s, err := c.Status(asking, endpoint); err == nil && len(s.Errors) == 0 {
			all.serving++
			all.leader = s.Leader
		}
		done()
	}
	return all, nil
}

// ordinalOf is the last number in the name of the member's pod.
func ordinalOf(m *etcdserverpb.Member) (int, error) {
	if len(m.PeerURLs) == 0 {
		return 0, fmt.Errorf("member %x has no peer URL", m.ID)
	}
	u, err := url.Parse(m.PeerURLs[0])
	if err != nil {
		return 0, err
	}
	pod, _, _ := strings.Cut(u.Hostname(), ".")
	return strconv.Atoi(pod[strings.LastIndex(pod, "-")+1:])
}

// handOver has another member lead than the one that is to go.
func (Etcd) handOver(ctx context.Context, hosts []string, all membership, from, to member) error {
	if all.leader != from.id {
		return nil
	}
	c, err := Etcd{}.open(hosts)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err = c.MoveLeader(ctx, to.id)
	return err
}
