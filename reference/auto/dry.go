// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/store"
)

// A dry run changes nothing: not because every step asks whether it is one, but
// because nothing that it holds can change anything. What it writes to the
// machine's disk stays in its memory, so that it goes on as if it were written:
// with a disk that has an identity, and certificates. All else is refused.

var errDry = errors.New("a dry run changes nothing")

type dryHost struct {
	host.Host
	written map[string][]byte
}

func newDryHost(h host.Host) host.Host { return dryHost{h, map[string][]byte{}} }

func (h dryHost) Disk() host.Disk { return dryDisk{h.Host.Disk(), h.written} }

func (h dryHost) Process() host.Process { return dryProcess{h.Host.Process()} }

func (h dryHost) Dial(endpoint string, secure *tls.Config) (host.Etcd, error) {
	c, err := h.Host.Dial(endpoint, secure)
	if err != nil {
		return nil, err
	}
	return dryEtcd{c}, nil
}

type dryDisk struct {
	host.Disk
	written map[string][]byte
}

func (d dryDisk) Read(name string) ([]byte, error) {
	if content, ok := d.written[path.Clean(name)]; ok {
		return content, nil
	}
	return d.Disk.Read(name)
}

func (d dryDisk) Write(name string, content []byte) error {
	d.written[path.Clean(name)] = content
	return nil
}

func (d dryDisk) Remove(name string) error {
	return &fs.PathError{Op: "remove", Path: d.Path(name), Err: errDry}
}

func (d dryDisk) Rename(old, _ string) error {
	return &fs.PathError{Op: "rename", Path: d.Path(old), Err: errDry}
}

type dryProcess struct{ host.Process }

func (dryProcess) Start(context.Context, []string) error {
	return fmt.Errorf("starting etcd: %w", errDry)
}

func (dryProcess) Stop(context.Context, time.Duration) error {
	return fmt.Errorf("stopping etcd: %w", errDry)
}

type dryStore struct{ store.Store }

func (dryStore) Create(_ context.Context, key string, _ []byte) error {
	return fmt.Errorf("create %s: %w", key, errDry)
}

// dryEtcd refuses every call that changes anything.
type dryEtcd struct{ host.Etcd }

func (dryEtcd) Put(context.Context, string, string, ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return nil, errDry
}

func (dryEtcd) Delete(context.Context, string, ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return nil, errDry
}

func (dryEtcd) Compact(context.Context, int64, ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return nil, errDry
}

func (dryEtcd) Do(context.Context, clientv3.Op) (clientv3.OpResponse, error) {
	return clientv3.OpResponse{}, errDry
}

func (dryEtcd) Txn(context.Context) clientv3.Txn { return dryTxn{} }

func (dryEtcd) MemberAdd(context.Context, []string) (*clientv3.MemberAddResponse, error) {
	return nil, errDry
}

func (dryEtcd) MemberAddAsLearner(context.Context, []string) (*clientv3.MemberAddResponse, error) {
	return nil, errDry
}

func (dryEtcd) MemberRemove(context.Context, uint64) (*clientv3.MemberRemoveResponse, error) {
	return nil, errDry
}

func (dryEtcd) MemberPromote(context.Context, uint64) (*clientv3.MemberPromoteResponse, error) {
	return nil, errDry
}

func (dryEtcd) MemberUpdate(context.Context, uint64, []string) (*clientv3.MemberUpdateResponse, error) {
	return nil, errDry
}

func (dryEtcd) MoveLeader(context.Context, uint64) (*clientv3.MoveLeaderResponse, error) {
	return nil, errDry
}

func (dryEtcd) Grant(context.Context, int64) (*clientv3.LeaseGrantResponse, error) {
	return nil, errDry
}

func (dryEtcd) Revoke(context.Context, clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return nil, errDry
}

func (dryEtcd) KeepAlive(context.Context, clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	return nil, errDry
}

func (dryEtcd) KeepAliveOnce(context.Context, clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	return nil, errDry
}

func (dryEtcd) Defragment(context.Context, string) (*clientv3.DefragmentResponse, error) {
	return nil, errDry
}

func (dryEtcd) AlarmDisarm(context.Context, *clientv3.AlarmMember) (*clientv3.AlarmResponse, error) {
	return nil, errDry
}

func (dryEtcd) Downgrade(context.Context, clientv3.DowngradeAction, string) (*clientv3.DowngradeResponse, error) {
	return nil, errDry
}

type dryTxn struct{}

func (t dryTxn) If(...clientv3.Cmp) clientv3.Txn  { return t }
func (t dryTxn) Then(...clientv3.Op) clientv3.Txn { return t }
func (t dryTxn) Else(...clientv3.Op) clientv3.Txn { return t }

func (dryTxn) Commit() (*clientv3.TxnResponse, error) { return nil, errDry }
