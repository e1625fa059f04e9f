// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build unix

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/needs"
)

// server is a ring of one.
type server struct {
	url     string
	process *os.Process
}

func start(t *testing.T, flags ...string) server {
	t.Helper()
	path, host := needs.Etcd(t).Etcd, loopback()
	url, peer := host+":2379", host+":2380"
	dir := t.TempDir()
	cmd := exec.Command(path, append([]string{
		"--name", "m1", "--data-dir", filepath.Join(dir, "etcd"), "--initial-cluster", "m1=" + peer,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--listen-client-urls", url, "--advertise-client-urls", url,
		"--unsafe-no-fsync", "--log-outputs", filepath.Join(dir, "log"),
	}, flags...)...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := open(t, url)
	require.Eventually(t, func() bool {
		_, err := c.Do(t.Context(), ringproof.Request{Kind: ringproof.RequestGet, Key: "k"})
		return err == nil
	}, 2*time.Minute, 50*time.Millisecond, "etcd does not serve")
	return server{url, cmd.Process}
}

// loopback is a URL of an address that nobody else has: of a port that is free now,
// nobody knows whose it is by the time etcd wants it.
func loopback() string {
	return fmt.Sprintf("http://127.%d.%d.%d", 64+rand.IntN(128), rand.IntN(256), 1+rand.IntN(254))
}

func open(t *testing.T, url string) *Client {
	t.Helper()
	c, err := Dial(url, nil)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &Client{Etcd: c, Streams: Watcher{c}, Machine: "m1", Shut: c.Close}
}

func do(t *testing.T, c *Client, r ringproof.Request) ringproof.Response {
	t.Helper()
	response, err := c.Do(t.Context(), r)
	require.NoError(t, err, "%v", r)
	return response
}

// TestResponses is one history of a ring of one, told by its answers.
func TestResponses(t *testing.T) {
	c := open(t, start(t).url)
	put := do(t, c, ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/a", Value: "1"})
	assert.NotZero(t, put.ClusterID)
	assert.NotZero(t, put.Member)
	assert.NotZero(t, put.Term)
	first := put.Revision
	blank := ringproof.Response{ClusterID: put.ClusterID, Member: put.Member, Term: put.Term, Revision: first}
	assert.Equal(t, blank, put)
	at := func(revision int64, more func(*ringproof.Response)) ringproof.Response {
		r := blank
		r.Revision = first + revision
		if more != nil {
			more(&r)
		}
		return r
	}
	kvs := func(all ...ringproof.KV) func(*ringproof.Response) {
		return func(r *ringproof.Response) { r.KVs = all }
	}
	a := ringproof.KV{Key: "/w/a", Value: "1", CreateRevision: first, ModRevision: first, Version: 1}
	a2 := ringproof.KV{Key: "/w/a", Value: "2", CreateRevision: first, ModRevision: first + 1, Version: 2}
	b := ringproof.KV{Key: "/w/b", Value: "3", CreateRevision: first + 2, ModRevision: first + 2, Version: 1}
	for _, each := range []struct {
		what    string
		request ringproof.Request
		want    ringproof.Response
	}{
		{"get", ringproof.Request{Kind: ringproof.RequestGet, Key: "/w/a"}, at(0, kvs(a))},
		{"get of a prefix of a key", ringproof.Request{Kind: ringproof.RequestGet, Key: "/w/"}, at(0, nil)},
		{"put again", ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/a", Value: "2"}, at(1, nil)},
		{"txn whose comparison fails", ringproof.Request{Kind: ringproof.RequestTxn, Key: "/w/a", Value: "x", Compare: first}, at(1, kvs(a2))},
		{"txn on a key that is absent", ringproof.Request{Kind: ringproof.RequestTxn, Key: "/w/b", Value: "3"}, at(2, func(r *ringproof.Response) { r.Succeeded = true })},
		{"txn on a key that is there", ringproof.Request{Kind: ringproof.RequestTxn, Key: "/w/b", Value: "x"}, at(2, kvs(b))},
		{"range", ringproof.Request{Kind: ringproof.RequestRange, Key: "/w/"}, at(2, kvs(a2, b))},
		{"serializable", ringproof.Request{Kind: ringproof.RequestGet, Key: "/w/b", Serializable: true}, at(2, kvs(b))},
		{"the past", ringproof.Request{Kind: ringproof.RequestRange, Key: "/w/", Revision: first}, at(2, kvs(a))},
		{"delete", ringproof.Request{Kind: ringproof.RequestDelete, Key: "/w/a"}, at(3, func(r *ringproof.Response) { r.Deleted = 1 })},
		{"delete of nothing", ringproof.Request{Kind: ringproof.RequestDelete, Key: "/w/a"}, at(3, nil)},
		{"txn that fails on nothing", ringproof.Request{Kind: ringproof.RequestTxn, Key: "/w/a", Value: "x", Compare: first}, at(3, nil)},
		{"compact", ringproof.Request{Kind: ringproof.RequestCompact, Revision: first + 2}, at(3, nil)},
	} {
		got := do(t, c, each.request)
		if each.request.Serializable || each.request.Kind == ringproof.RequestCompact {
			got.Term = each.want.Term // these go around raft
		}
		assert.Equal(t, each.want, got, each.what)
	}
	assert.Equal(t, "m1", c.Endpoint())

	for what, r := range map[string]ringproof.Request{
		"read of what was compacted": {Kind: ringproof.RequestGet, Key: "/w/a", Revision: first},
		"read of the future":         {Kind: ringproof.RequestGet, Key: "/w/a", Revision: first + 1000},
		"compacted twice":            {Kind: ringproof.RequestCompact, Revision: first + 2},
		"no key":                     {Kind: ringproof.RequestPut, Value: "x"},
		"too large":                  {Kind: ringproof.RequestPut, Key: "k", Value: strings.Repeat("x", 1900<<10)},
	} {
		_, err := c.Do(t.Context(), r)
		require.ErrorIs(t, err, ringproof.ErrRefused, what)
	}
	_, err := c.Do(t.Context(), ringproof.Request{Kind: "lock"})
	require.ErrorContains(t, err, "there is no such kind")
}

// TestRefused: what is refused was surely not applied. Everything else is
// unknown, however plain the error looks.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{rpctypes.ErrCompacted, true},
		{rpctypes.ErrRequestTooLarge, true},
		{rpctypes.ErrTooManyRequests, true},
		{rpctypes.ErrCorrupt, true},
		// The member whose store the write fills applies it, and then says that
		// there is no space (quotaApplierV3 in etcd's apply/quota.go).
		{rpctypes.ErrNoSpace, false},
		{rpctypes.ErrTimeout, false},
		{rpctypes.ErrTimeoutDueToLeaderFail, false},
		{rpctypes.ErrTimeoutDueToConnectionLost, false},
		{rpctypes.ErrLeaderChanged, false},
		{rpctypes.ErrStopped, false},
		{rpctypes.ErrNoLeader, false},
		{context.DeadlineExceeded, false},
		{context.Canceled, false},
		{io.EOF, false},
		{status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp: connection refused"`), true},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), false},
		{status.Error(codes.Unavailable, "transport is closing"), false},
		{status.Error(codes.Unknown, "Error while dialing"), false},
	} {
		assert.Equal(t, c.want, refused(c.err), "%v", c.err)
	}
}

// TestAFullStore shows the claim above on a real etcd: writes that were told
// that there is no space are there.
func TestAFullStore(t *testing.T) {
	needs.RealTime(t) // etcd gives a slow write up after seven seconds
	c := open(t, start(t, "--quota-backend-bytes", "8000000").url)
	var all sync.WaitGroup
	var mu sync.Mutex
	told := map[string]error{}
	for i := range 30 { // at once: some pass the look at the quota before the store grows
		all.Go(func() {
			for n := 0; n < 50; n++ {
				key := fmt.Sprintf("%d/%d", i, n)
				_, err := c.Do(t.Context(), ringproof.Request{Kind: ringproof.RequestPut, Key: key, Value: strings.Repeat("x", 50<<10)})
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					told[key] = err
					return
				}
			}
		})
	}
	all.Wait()
	require.Len(t, told, 30, "the store never was full")
	written := 0
	for key, err := range told {
		require.ErrorIs(t, err, rpctypes.ErrNoSpace)
		got := do(t, c, ringproof.Request{Kind: ringproof.RequestGet, Key: key})
		if len(got.KVs) > 0 {
			written++
			assert.NotErrorIs(t, err, ringproof.ErrRefused, "key %s was written", key)
		}
	}
	t.Logf("of 30 writes that met no space %d were written", written)
}

func TestNobodyListens(t *testing.T) {
	c := open(t, loopback()+":2379")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := c.Do(ctx, ringproof.Request{Kind: ringproof.RequestPut, Key: "k", Value: "v"})
	require.ErrorIs(t, err, ringproof.ErrRefused, "a dialer that waits hides who was asked")
}

// stop returns when every thread of the child stands. kill returns before: an
// etcd that runs on another core answers a whole request in that time.
func stop(t *testing.T, process *os.Process) {
	require.NoError(t, process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped(), "%v", status)
}

// TestAStoppedEtcd: a request that was sent and not answered may yet be
// applied, and it is sent once.
func TestAStoppedEtcd(t *testing.T) {
	s := start(t)
	l := between(t, s)
	c := open(t, l.url)
	do(t, c, ringproof.Request{Kind: ringproof.RequestPut, Key: "k", Value: "before"})
	sent := l.requests.Load()
	require.Positive(t, sent)

	stop(t, s.process)
	asking, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	go func() { // who asked goes away once it is sent
		for l.requests.Load() == sent && asking.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := c.Do(asking, ringproof.Request{Kind: ringproof.RequestPut, Key: "k", Value: "during"})
	require.Error(t, err)
	require.NotErrorIs(t, err, ringproof.ErrRefused)
	require.NoError(t, s.process.Signal(syscall.SIGCONT))

	fresh := open(t, s.url)
	got := do(t, fresh, ringproof.Request{Kind: ringproof.RequestGet, Key: "k"})
	require.Len(t, got.KVs, 1)
	time.Sleep(300 * time.Millisecond) // for a second attempt to come
	got = do(t, fresh, ringproof.Request{Kind: ringproof.RequestGet, Key: "k"})
	assert.LessOrEqual(t, got.KVs[0].Version, int64(2), "it was applied more than once")
	assert.EqualValues(t, 1, l.requests.Load()-sent, "one request is one attempt")
}

// TestABrokenConnection breaks while etcd has the request. Nobody knows what
// became of it, and nobody tries again, though a second attempt would succeed.
func TestABrokenConnection(t *testing.T) {
	l := between(t, start(t))
	c := open(t, l.url)
	for _, r := range []ringproof.Request{{Kind: ringproof.RequestGet, Key: "k"}, {Kind: ringproof.RequestPut, Key: "k", Value: "v"}} {
		do(t, c, ringproof.Request{Kind: ringproof.RequestGet, Key: "k"})
		sent := l.requests.Load()
		l.cut.Store(true)
		_, err := c.Do(t.Context(), r)
		require.Error(t, err, "the %s was tried again", r.Kind)
		require.NotErrorIs(t, err, ringproof.ErrRefused)
		assert.EqualValues(t, 1, l.requests.Load()-sent)
	}
}

// line passes bytes on between clients and an etcd, and counts the requests on
// their way there.
type line struct {
	url      string
	requests atomic.Int64
	cut      atomic.Bool // the next request is passed on, and its connection closed
}

func between(t *testing.T, s server) *line {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { at.Close() })
	l := &line{url: "http://" + at.Addr().String()}
	go func() {
		for {
			from, err := at.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				from.Close()
				continue
			}
			go func() { _, _ = io.Copy(from, to); from.Close() }()
			go func() { l.pass(from, to); from.Close(); to.Close() }()
		}
	}()
	return l
}

// pass passes HTTP/2 frames on. One of headers opens a request.
func (l *line) pass(from io.Reader, to io.Writer) {
	const preface, frame, headers = 24, 9, 1
	if _, err := io.CopyN(to, from, preface); err != nil {
		return
	}
	for head := make([]byte, frame); ; {
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		_, _ = to.Write(head)
		if _, err := io.CopyN(to, from, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
			return
		}
		if head[3] == headers {
			l.requests.Add(1)
			if l.cut.Swap(false) {
				return
			}
		}
	}
}

// watch opens a stream and returns its events, and how it ended.
func watch(t *testing.T, c ringproof.Client, prefix string, start int64) (events <-chan ringproof.WatchEvent, ended <-chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	seen, over := make(chan ringproof.WatchEvent, 100), make(chan error, 1)
	go func() {
		over <- c.Watch(ctx, prefix, start, func(e ringproof.WatchEvent) { seen <- e })
	}()
	return seen, over, cancel
}

func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func TestWatch(t *testing.T) {
	s := start(t, "--watch-progress-notify-interval", "200ms")
	c := open(t, s.url)
	first := do(t, c, ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/a", Value: "1"}).Revision
	do(t, c, ringproof.Request{Kind: ringproof.RequestPut, Key: "/x", Value: "not watched"})
	do(t, c, ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/a", Value: "2"})
	do(t, c, ringproof.Request{Kind: ringproof.RequestDelete, Key: "/w/a"})
	do(t, c, ringproof.Request{Kind: ringproof.RequestPut, Key: "/w/a", Value: "3"})

	a1 := ringproof.KV{Key: "/w/a", Value: "1", CreateRevision: first, ModRevision: first, Version: 1}
	a2 := ringproof.KV{Key: "/w/a", Value: "2", CreateRevision: first, ModRevision: first + 2, Version: 2}
	gone := ringproof.KV{Key: "/w/a", ModRevision: first + 3}
	a3 := ringproof.KV{Key: "/w/a", Value: "3", CreateRevision: first + 4, ModRevision: first + 4, Version: 1}
	events, ended, stop := watch(t, c, "/w/", first)
	for _, want := range []ringproof.WatchEvent{
		{Revision: first, Create: true, KV: a1},
		{Revision: first + 2, KV: a2, Prev: &a1},
		{Revision: first + 3, Delete: true, KV: gone, Prev: &a2},
		{Revision: first + 4, Create: true, KV: a3},
	} {
		assert.Equal(t, want, next(t, events))
	}
	assert.Equal(t, ringproof.WatchEvent{Bookmark: true, Revision: first + 4}, next(t, events), "a bookmark is of the whole store")
	stop()
	require.NoError(t, next(t, ended), "who ends a watch meets no error")

	everything, _, _ := watch(t, c, "", first+1)
	assert.Equal(t, "/x", next(t, everything).KV.Key)
	onward, _, _ := watch(t, c, "/w/", 0)
	for next(t, onward).Bookmark == false {
		t.Error("a watch from now on shows no past")
	}

	do(t, c, ringproof.Request{Kind: ringproof.RequestCompact, Revision: first + 3})
	_, ended, _ = watch(t, c, "/w/", first)
	var compacted Compacted
	require.ErrorAs(t, next(t, ended), &compacted)
	assert.Equal(t, first+3, compacted.Revision)
	events, _, _ = watch(t, c, "/w/", first+3)
	assert.True(t, next(t, events).Delete, "the oldest that there is may be asked for")
}

// TestBookmarksOnDemand: Progress reaches the stream that was opened alike.
func TestBookmarksOnDemand(t *testing.T) {
	c := open(t, start(t).url)
	revision := do(t, c, ringproof.Request{Kind: ringproof.RequestPut, Key: "k", Value: "v"}).Revision
	for what, asker := range map[string]interface {
		ringproof.Client
		Progress(context.Context) error
	}{"plain": c, "patient": c.Patient().(*Client)} {
		events, _, stop := watch(t, asker, "", revision)
		require.Equal(t, "k", next(t, events).KV.Key, what)
		require.NoError(t, asker.Progress(t.Context()), what)
		assert.Equal(t, ringproof.WatchEvent{Bookmark: true, Revision: revision}, next(t, events), what)
		stop()
	}
}

func TestAWatchOfNobody(t *testing.T) {
	c := open(t, loopback()+":2379")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := c.Watch(ctx, "", 1, func(ringproof.WatchEvent) { t.Error("an event of nobody") })
	if err != nil {
		require.False(t, errors.As(err, &Compacted{}), "%v", err)
	}
	require.NoError(t, c.Close())
	require.Error(t, c.Watch(t.Context(), "", 1, func(ringproof.WatchEvent) {}), "the client is closed")
}
