// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
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

// Tries is how often, a second apart, a person asks for a change that etcd refuses.
const Tries = 15

// At returns the member whose peer URL has the host.
func At(ctx context.Context, etcd clientv3.Cluster, host string) (member uint64, err error) {
	list, err := etcd.MemberList(ctx)
	if err != nil {
		return 0, err
	}
	for _, m := range list.Members {
		for _, peer := range m.PeerURLs {
			if u, err := url.Parse(peer); err == nil && u.Hostname() == host {
				return m.ID, nil
			}
		}
	}
	return 0, fmt.Errorf("no member of the ring is at %s", host)
}

// Remove removes the member, unless it is gone, and returns the evidence.
func Remove(ctx context.Context, etcd clientv3.Cluster, member uint64) (string, error) {
	_, err := etcd.MemberRemove(ctx, member)
	if errors.Is(err, rpctypes.ErrMemberNotFound) {
		err = nil // what was asked first was done, and its reply lost
	}
	return fmt.Sprintf("member %x was removed by hand", member), err
}
