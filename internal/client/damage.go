// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// Prefix is where the workload's keys are. Every other key is the subject's.
const Prefix = "/w/"

// pastPrefix is the first key after all that begin with Prefix.
const pastPrefix = "/w0"

// Damage takes every key that is not the workload's away, or leaves nonsense in
// them and beside them, and returns the evidence.
func Damage(ctx context.Context, etcd clientv3.KV, leave string) (string, error) {
	if leave == "nonsense" {
		return overwrite(ctx, etcd)
	}
	gone, err := etcd.Txn(ctx).Then(clientv3.OpDelete("\x00", clientv3.WithRange(Prefix)), clientv3.OpDelete(pastPrefix, clientv3.WithFromKey())).Commit()
	if err != nil {
		return "", err
	}
	n := int64(0)
	for _, r := range gone.Responses {
		n += r.GetResponseDeleteRange().GetDeleted()
	}
	return evidence(int(n), "deleted")
}

func overwrite(ctx context.Context, etcd clientv3.KV) (string, error) {
	found, err := etcd.Txn(ctx).Then(clientv3.OpGet("\x00", clientv3.WithRange(Prefix), clientv3.WithKeysOnly()),
		clientv3.OpGet(pastPrefix, clientv3.WithFromKey(), clientv3.WithKeysOnly())).Commit()
	if err != nil {
		return "", err
	}
	n, folder := 0, ""
	var puts []clientv3.Op
	for _, r := range found.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			key := string(kv.GetKey())
			puts = append(puts, clientv3.OpPut(key, "x"))
			if n++; path.Dir(key) != folder {
				folder = path.Dir(key)
				puts = append(puts, clientv3.OpPut(folder+"/zz", "x"))
			}
		}
	}
	if _, err := etcd.Txn(ctx).Then(puts...).Commit(); err != nil {
		return "", err
	}
	return evidence(n, "overwritten")
}

func evidence(n int, done string) (string, error) {
	if n == 0 {
		return "", errors.New("there is no key but the clients'")
	}
	return fmt.Sprintf("%d keys %s", n, done), nil
}

// Etcd is what somebody else than the subject asks a ring with.
type Etcd interface {
	clientv3.KV
	clientv3.Cluster
	// Alarm is etcd's own request: clientv3 lists alarms and takes them back, and raises none.
	Alarm(context.Context, *pb.AlarmRequest, ...grpc.CallOption) (*pb.AlarmResponse, error)
}

// Asking opens a client of one machine's etcd, has it asked, and closes it. How long it
// waits for an answer is its own.
type Asking func(ctx context.Context, what func(context.Context, Etcd) error) error

// DamageBy has one machine after another asked for [Damage], until one has done it.
func DamageBy(ctx context.Context, machines []Asking, leave string) (evidence string, err error) {
	err = anyone(ctx, machines, "nobody damages the keys of a ring that doesn't answer", func(ctx context.Context, c Etcd) (err error) {
		evidence, err = Damage(ctx, c, leave)
		return err
	})
	return evidence, err
}

// HandBy has a person change the membership at a host, as with etcdctl, and returns the
// evidence, which begins with "member ID was". adds is as [ringproof.Fault.Adds].
func HandBy(ctx context.Context, machines []Asking, adds, host string, sleep func(context.Context, time.Duration) error) (evidence string, err error) {
	var member uint64
	what, done := removal(host, &member), "removed"
	if adds != "" {
		what, done = addition(host, adds == "add-learner", &member), "added"
	}
	if err := insist(ctx, machines, tries, what, sleep); err != nil {
		return "", err
	}
	return fmt.Sprintf("member %x was %s by hand", member, done), nil
}

// tries is how often, a second apart, a person asks for a change that etcd refuses. It does
// as long as somebody was not connected for five seconds (--strict-reconfig-check).
const tries = 15

// insist asks one machine after another, and again while etcd refuses.
func insist(ctx context.Context, machines []Asking, tries int, what func(context.Context, Etcd) error, sleep func(context.Context, time.Duration) error) (err error) {
	for range tries {
		if err = anyone(ctx, machines, "nobody changes a ring that doesn't answer", what); err == nil {
			return nil
		}
		if stopped := sleep(ctx, time.Second); stopped != nil {
			return stopped
		}
	}
	return err
}

// removal takes away the member at a host. Which it is they look up once: who comes back at
// that host is another.
func removal(host string, member *uint64) func(context.Context, Etcd) error {
	return func(ctx context.Context, c Etcd) (err error) {
		if *member == 0 {
			*member, err = memberAt(ctx, c, host)
		}
		if err == nil {
			_, err = c.MemberRemove(ctx, *member)
		}
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil // what was asked first was done, and its reply lost
		}
		return err
	}
}

// addition adds a member at a host, which is to be reached there as the others are at theirs. One
// that is there by now is the one whose reply was lost. While etcd refuses it others may leave the
// ring, and a voter that has not started costs a smaller one its quorum: a person who finds fewer
// than there were adds none.
func addition(host string, learner bool, member *uint64) func(context.Context, Etcd) error {
	of := 0
	return func(ctx context.Context, c Etcd) error {
		list, err := c.MemberList(ctx)
		if err != nil {
			return err
		}
		found, peer, err := at(list, host)
		if *member = found; found != 0 || peer == "" {
			return err
		}
		n := voters(list)
		if of = max(of, n); !learner && n < of {
			return fmt.Errorf("the ring has %d voters, and had %d as it was asked to take one more", n, of)
		}
		add := c.MemberAdd
		if learner {
			add = c.MemberAddAsLearner
		}
		added, err := add(ctx, []string{peer})
		if err == nil {
			*member = added.Member.ID
		}
		return err
	}
}

// anyone asks one machine after another, until one has done it.
func anyone(ctx context.Context, machines []Asking, otherwise string, what func(context.Context, Etcd) error) error {
	failures := []error{errors.New(otherwise)}
	for _, ask := range machines {
		err := ask(ctx, what)
		if err == nil {
			return nil
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

func voters(list *clientv3.MemberListResponse) (n int) {
	for _, m := range list.Members {
		if !m.IsLearner {
			n++
		}
	}
	return n
}

func memberAt(ctx context.Context, etcd clientv3.Cluster, host string) (uint64, error) {
	list, err := etcd.MemberList(ctx)
	if err != nil {
		return 0, err
	}
	member, _, err := at(list, host)
	return member, err
}

// at returns the member whose peer URL has the host, and the URL that one there would have.
func at(list *clientv3.MemberListResponse, host string) (member uint64, peer string, err error) {
	for _, m := range list.Members {
		for _, text := range m.PeerURLs {
			u, err := url.Parse(text)
			if err != nil {
				continue
			}
			if u.Hostname() == host {
				return m.ID, text, nil
			}
			u.Host = net.JoinHostPort(host, u.Port())
			peer = u.String()
		}
	}
	return 0, peer, fmt.Errorf("no member of the ring is at %s", host)
}
