// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/store"
)

// fakeHost is a machine in memory; time passes only by sleeping.
type fakeHost struct {
	now     time.Time
	nonces  int
	lines   []host.Line
	disk    *fakeDisk
	process *fakeProcess
	etcd    *fakeEtcd
	slept   func() // nil: nothing happens meanwhile
}

func newHost() *fakeHost {
	return &fakeHost{now: time.Unix(1e9, 0), disk: &fakeDisk{files: map[string]string{}}, process: &fakeProcess{}, etcd: &fakeEtcd{}}
}

func (h *fakeHost) Now() time.Time           { return h.now }
func (h *fakeHost) Monotonic() time.Duration { return h.now.Sub(time.Unix(0, 0)) }

func (h *fakeHost) Sleep(ctx context.Context, d time.Duration) error {
	h.now = h.now.Add(d)
	if h.slept != nil {
		h.slept()
	}
	return ctx.Err()
}

func (h *fakeHost) Timeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (h *fakeHost) Nonce() string {
	h.nonces++
	return fmt.Sprintf("%016x", h.nonces)
}

func (h *fakeHost) Log(l host.Line)                             { h.lines = append(h.lines, l) }
func (h *fakeHost) Disk() host.Disk                             { return h.disk }
func (h *fakeHost) Process() host.Process                       { return h.process }
func (h *fakeHost) Dial(string, *tls.Config) (host.Etcd, error) { return h.etcd, nil }
func (h *fakeHost) events(of host.Event) (found []host.Line) {
	for _, l := range h.lines {
		if l.Event == of {
			found = append(found, l)
		}
	}
	return found
}

type fakeDisk struct {
	files map[string]string
	wal   bool
}

func (d *fakeDisk) Path(name string) string { return "/data/" + name }

func (d *fakeDisk) Read(name string) ([]byte, error) {
	text, ok := d.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

func (d *fakeDisk) Write(name string, content []byte) error {
	d.files[name] = string(content)
	return nil
}

func (d *fakeDisk) Remove(name string) error {
	delete(d.files, name)
	return nil
}

func (d *fakeDisk) Rename(old, name string) error {
	d.files[name] = d.files[old]
	delete(d.files, old)
	return nil
}

func (d *fakeDisk) Prepared() (bool, error) { return true, nil }

func (d *fakeDisk) Exists(name string) (bool, error) {
	_, ok := d.files[name]
	return ok, nil
}

func (d *fakeDisk) WAL(string) (host.WAL, error) {
	if !d.wal {
		return host.WAL{}, fs.ErrNotExist
	}
	return host.WAL{Member: 1, Cluster: 1}, nil
}

type fakeProcess struct{ args []string }

func (p *fakeProcess) Running() ([]string, error) { return p.args, nil }

func (p *fakeProcess) Start(_ context.Context, args []string) error {
	p.args = args
	return nil
}

func (p *fakeProcess) Stop(context.Context, time.Duration) error {
	p.args = nil
	return nil
}

func (p *fakeProcess) LastWords() string { return "" }

// fakeEtcd keeps a membership. All that is not here panics.
type fakeEtcd struct {
	host.Etcd
	members []*etcdserverpb.Member
	refuses error // learners, with this
	mute    bool
}

func (e *fakeEtcd) Close() error { return nil }

func (e *fakeEtcd) MemberList(context.Context, ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	if e.mute {
		return nil, errors.New("no leader")
	}
	return &clientv3.MemberListResponse{Members: e.members}, nil
}

func (e *fakeEtcd) MemberAdd(_ context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	return e.add(urls, false)
}

func (e *fakeEtcd) MemberAddAsLearner(_ context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	if e.refuses != nil {
		return nil, e.refuses
	}
	return e.add(urls, true)
}

func (e *fakeEtcd) add(urls []string, learner bool) (*clientv3.MemberAddResponse, error) {
	m := &etcdserverpb.Member{ID: uint64(len(e.members) + 1), PeerURLs: urls, IsLearner: learner}
	e.members = append(e.members, m)
	return &clientv3.MemberAddResponse{Member: m, Members: e.members}, nil
}

func (e *fakeEtcd) MemberRemove(_ context.Context, id uint64) (*clientv3.MemberRemoveResponse, error) {
	e.members = slices.DeleteFunc(e.members, func(m *etcdserverpb.Member) bool { return m.ID == id })
	return &clientv3.MemberRemoveResponse{Members: e.members}, nil
}

func (e *fakeEtcd) Grant(context.Context, int64) (*clientv3.LeaseGrantResponse, error) {
	return &clientv3.LeaseGrantResponse{}, nil
}

func (e *fakeEtcd) Revoke(context.Context, clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return &clientv3.LeaseRevokeResponse{}, nil
}

// Txn is one whose conditions hold.
func (e *fakeEtcd) Txn(context.Context) clientv3.Txn { return fakeTxn{} }

type fakeTxn struct{}

func (t fakeTxn) If(...clientv3.Cmp) clientv3.Txn  { return t }
func (t fakeTxn) Then(...clientv3.Op) clientv3.Txn { return t }
func (t fakeTxn) Else(...clientv3.Op) clientv3.Txn { return t }
func (t fakeTxn) Commit() (*clientv3.TxnResponse, error) {
	return &clientv3.TxnResponse{Succeeded: true}, nil
}

// fakeStore is a store in memory.
type fakeStore map[string]string

func (s fakeStore) Create(_ context.Context, key string, value []byte) error {
	if _, ok := s[key]; ok {
		return store.ErrExists
	}
	s[key] = string(value)
	return nil
}

func (s fakeStore) Get(_ context.Context, key string) ([]byte, error) {
	value, ok := s[key]
	if !ok {
		return nil, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return []byte(value), nil
}

func (s fakeStore) List(_ context.Context, prefix string) ([]string, error) {
	var keys []string
	for key := range s {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}
