// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// Asked is a member by its own word.
type Asked struct {
	ID       ring.ID
	Name     string // "" until it has started
	Endpoint string // where it was asked; "" when it advertises no address
	PeerURLs []string
	Cluster  uint64 // the ID of its ring
	Learner  bool
	Leader   bool
	Version  ring.Version // that it runs
	Revision int64        // up to which it has applied the keyspace
	Bytes    int64        // of its keyspace file
	InUse    int64        // of those, what keys take
	Err      error        // why it gave no word
}

// String prints m2 (8e9e05c52164694d).
func (a Asked) String() string {
	return ring.Member{ID: a.ID, Machine: a.Name}.String()
}

// Ask asks each member of the list, which is read with a quorum, how it is: followers by
// name, then who leads.
func (r *Ring) Ask(ctx context.Context) ([]Asked, error) {
	list, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []Asked
	for _, m := range list.Members {
		all = append(all, r.askMember(ctx, m))
	}
	slices.SortStableFunc(all, func(a, b Asked) int {
		switch {
		case a.Leader == b.Leader:
			return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name)) // m2 before m10
		case a.Leader:
			return 1
		}
		return -1
	})
	return all, nil
}

func (r *Ring) askMember(ctx context.Context, m *etcdserverpb.Member) Asked {
	a := Asked{ID: ring.ID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, Learner: m.IsLearner, Err: errors.New("it has not started")}
	for _, url := range m.ClientURLs {
		a.Endpoint = url
		a.Err = r.ask(ctx, url, func(ctx context.Context, c host.Etcd) error {
			s, err := c.Status(ctx, url)
			if err != nil {
				return err
			}
			if s.Header.MemberId != m.ID {
				return fmt.Errorf("member %x answers there", s.Header.MemberId)
			}
			a.Cluster, a.Version = s.Header.ClusterId, ring.Version("v"+s.Version)
			a.Leader, a.Revision, a.Bytes, a.InUse = s.Leader == m.ID, s.Header.Revision, s.DbSize, s.DbSizeInUse
			return nil
		})
		if a.Err == nil {
			break
		}
	}
	return a
}

// Revision is the ring's, read with a quorum.
func (r *Ring) Revision(ctx context.Context) (revision int64, err error) {
	err = r.read(ctx, func(ctx context.Context, c host.Etcd) error {
		answer, err := c.Get(ctx, membersPrefix, clientv3.WithCountOnly())
		if err == nil {
			revision = answer.Header.Revision
			err = r.ours(answer.Header.ClusterId)
		}
		return err
	})
	return revision, err
}

// Newest lists the members that hold all that the ring had acknowledged when this was
// called, followers first. A snapshot is of one member alone: of one that is cut off, or
// has just joined, it would be old, and nobody would know before it is needed; of one whose
// data differ from the others' it would be wrong.
func (r *Ring) Newest(ctx context.Context) (all []Asked, revision int64, err error) {
	if revision, err = r.Revision(ctx); err != nil {
		return nil, 0, err
	}
	asked, err := r.Ask(ctx)
	if err != nil {
		return nil, 0, err
	}
	corrupt, err := r.corrupt(ctx)
	if err != nil {
		return nil, 0, err
	}
	why := []error{fmt.Errorf("no member is known to hold revision %d", revision)}
	for _, a := range asked {
		switch {
		case a.Err != nil:
			why = append(why, fmt.Errorf("%s: %w", a, a.Err))
		case slices.Contains(corrupt, a.ID):
			why = append(why, fmt.Errorf("%s holds other data than the rest (alarm %s)", a, ring.Corrupt))
		case a.Learner || a.Revision < revision:
			why = append(why, fmt.Errorf("%s has come to revision %d", a, a.Revision))
		default:
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return nil, 0, errors.Join(why...)
	}
	return all, revision, nil
}

// Backup has the ring's keyspace copied from a member that holds all that was acknowledged when this
// was called: from the first of which copy makes something whole. It returns whose it is, and the
// revision that it has at least.
func (r *Ring) Backup(ctx context.Context, copy func(context.Context, Asked) error) (from Asked, revision int64, err error) {
	all, revision, err := r.Newest(ctx)
	if err != nil {
		return Asked{}, 0, err
	}
	failures := []error{errors.New("no member gave a whole snapshot")}
	for _, from := range all {
		err := copy(ctx, from)
		if err == nil {
			return from, revision, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", from, err))
		if ctx.Err() != nil {
			break
		}
	}
	return Asked{}, 0, errors.Join(failures...)
}

// corrupt lists the members of which etcd has found that they hold other data than the rest,
// by what the ring has committed. It fails where that doesn't tell who is right.
func (r *Ring) corrupt(ctx context.Context) (all []ring.ID, err error) {
	err = r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		alarms, err := c.AlarmList(ctx)
		if err != nil {
			return fmt.Errorf("who holds other data than the rest is not known: reading the alarms: %w", err)
		}
		for _, a := range alarms.Alarms {
			if a.Alarm == etcdserverpb.AlarmType_CORRUPT {
				all = append(all, ring.ID(a.MemberID))
			}
		}
		return nil
	})
	if slices.Contains(all, 0) {
		err = fmt.Errorf("the members hold different data (alarm %s), and who holds the right ones etcd can't say: compare them by etcdctl endpoint hashkv --cluster, and save that of one whose are right by etcdctl --endpoints=URL snapshot save FILE", ring.Corrupt)
	}
	return all, err
}

// Snapshot writes the keyspace of the member at an endpoint, with the sum that etcd puts at
// its end, and checks that sum. tell is called with the bytes written so far. It takes as
// long as it takes: the caller ends ctx.
func (r *Ring) Snapshot(ctx context.Context, endpoint string, to io.Writer, tell func(int64)) (int64, error) {
	c, err := r.client(endpoint)
	if err != nil {
		return 0, err
	}
	from, err := c.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	s := &summed{to: to, tell: tell, hash: sha256.New()}
	if _, err := io.Copy(s, from); err != nil {
		return s.bytes, err
	}
	return s.bytes, s.check()
}

// summed passes on what is written, and sums all but the last 32 bytes, which are the sum.
type summed struct {
	to    io.Writer
	tell  func(int64)
	bytes int64
	held  []byte
	hash  hash.Hash
}

func (s *summed) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.bytes += int64(n)
	s.tell(s.bytes)
	s.held = append(s.held, p[:n]...)
	if over := len(s.held) - sha256.Size; over > 0 {
		s.hash.Write(s.held[:over])
		s.held = slices.Delete(s.held, 0, over)
	}
	return n, err
}

// check compares the sums. A snapshot that was cut short is refused by it too.
func (s *summed) check() error {
	if !bytes.Equal(s.hash.Sum(nil), s.held) {
		return fmt.Errorf("the %d bytes that came are not those that were sent, by their sum", s.bytes)
	}
	return nil
}

// Defragmented is what a member's keyspace file took, before and after.
type Defragmented struct {
	Member        Asked
	Before, After int64
}

// Defragment has each member write its keyspace file anew, one after the other, who leads
// last: a member serves nobody meanwhile. It begins, and goes on, only while every voter
// serves, and gives leadership away before it comes to who leads. done is told of each.
func (r *Ring) Defragment(ctx context.Context, limit time.Duration, done func(Defragmented)) error {
	asked, err := r.Ask(ctx)
	if err != nil {
		return err
	}
	for i, a := range asked {
		if err := r.serving(ctx); err != nil {
			return fmt.Errorf("%s is not defragmented, nor are %d after it: %w", a, len(asked)-i-1, err)
		}
		if err := r.defragment(ctx, a, limit, slices.Concat(asked[:i], asked[i+1:])); err != nil {
			return fmt.Errorf("defragmenting %s: %w; %d after it are not", a, err, len(asked)-i-1)
		}
		after, err := r.back(ctx, a)
		if err != nil {
			return fmt.Errorf("%s was defragmented, and does not answer since: %w", a, err)
		}
		done(Defragmented{Member: a, Before: a.Bytes, After: after.Bytes})
	}
	return nil
}

// looks is how often, a second apart, a member is asked that doesn't answer: one answer
// may just be late.
const looks = 30

// serving waits until every voter answers, and none is far behind, so that a member may be busy for a
// while: who is behind can be part of a quorum, and takes no leadership before it has caught up.
func (r *Ring) serving(ctx context.Context) (err error) {
	for range looks {
		var asked []Asked
		asked, err = r.Ask(ctx)
		newest := int64(0)
		for _, a := range asked {
			newest = max(newest, a.Revision)
		}
		for _, a := range asked {
			switch {
			case a.Learner:
			case a.Err != nil:
				err = errors.Join(err, fmt.Errorf("%s does not answer: %w", a, a.Err))
			case newest-a.Revision > ring.InStep:
				err = errors.Join(err, fmt.Errorf("%s is %d revisions behind", a, newest-a.Revision))
			}
		}
		if err == nil || ctx.Err() != nil {
			break
		}
		_ = r.Host.Sleep(ctx, patience) // ended early, ctx says so
	}
	return err
}

// defragment hands over first to one whose turn has been, if it can: leadership moves once. An
// election since the order was made may have come to the first, and whoever has his turn after
// takes it then.
func (r *Ring) defragment(ctx context.Context, a Asked, limit time.Duration, others []Asked) error {
	if a.Learner && a.Err != nil {
		return a.Err
	}
	voters := slices.DeleteFunc(others, func(b Asked) bool { return b.Learner })
	if now, err := r.back(ctx, a); err != nil {
		return err
	} else if now.Leader && len(voters) > 0 {
		if err := r.handOver(ctx, a, voters[0]); err != nil {
			return err
		}
	}
	return r.askFor(ctx, limit, a.Endpoint, func(ctx context.Context, c host.Etcd) error {
		_, err := c.Defragment(ctx, a.Endpoint)
		return err
	})
}

func (r *Ring) handOver(ctx context.Context, from, to Asked) error {
	return r.askFor(ctx, 5*patience, from.Endpoint, func(ctx context.Context, c host.Etcd) error {
		_, err := c.MoveLeader(ctx, uint64(to.ID))
		return err
	})
}

// back waits until the member answers, and returns its word.
func (r *Ring) back(ctx context.Context, a Asked) (now Asked, err error) {
	for range looks {
		now = r.askMember(ctx, &etcdserverpb.Member{ID: uint64(a.ID), Name: a.Name, IsLearner: a.Learner, ClientURLs: []string{a.Endpoint}})
		if now.Err == nil || ctx.Err() != nil {
			break
		}
		_ = r.Host.Sleep(ctx, patience)
	}
	return now, now.Err
}
