// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package host

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// Real is the Linux machine that the program runs on.
type Real struct {
	Name    string    // of the machine, in log lines
	Root    string    // its data filesystem
	Plain   bool      // the root needs no filesystem of its own: a directory will do
	Run     string    // a directory for pid files and etcd's output, not on the data filesystem
	Output  io.Writer // JSON log lines; nil: none
	process *process
	locks   []*os.File

	mu sync.Mutex
}

var _ Host = (*Real)(nil)

// NewReal returns the machine whose data filesystem is mounted at root and
// whose pid and log files go to run. The root is made absolute and clean, as it
// is what a process of an earlier agent is found by.
func NewReal(name, root, run string, output io.Writer) *Real {
	if absolute, err := filepath.Abs(root); err == nil {
		root = absolute
	}
	return &Real{Name: name, Root: root, Run: run, Output: output, process: &process{dir: run, root: root}}
}

// Lock keeps every other agent off this machine's data and its run directory,
// until the process ends: two agents of one disk would each clear, mark and start
// what the other does. A data filesystem that isn't mounted yet is left as it is:
// the run directory's lock stands for both.
func (r *Real) Lock() error {
	dirs := []string{r.Run}
	if _, err := os.Stat(filepath.Join(r.Root, "disk.json")); err == nil {
		dirs = append(dirs, r.Root)
	}
	if err := private(r.Run); err != nil {
		return err
	}
	for _, dir := range dirs {
		held, err := os.OpenFile(filepath.Join(dir, "agent.lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		if err := lock(held); err != nil {
			held.Close()
			return fmt.Errorf("%s is another agent's, which runs: stop that one, or give this one a directory of its own (%w)", dir, err)
		}
		r.locks = append(r.locks, held) // closed by the kernel
	}
	return nil
}

// Now returns the wall clock.
//
// It is the wall clock's time and nothing else: between two times that time.Now returns
// the monotonic clock counts, which a suspended machine's doesn't, and no jump of the wall
// clock shows. Certificates that ended in such a jump were not looked at for half a day.
func (r *Real) Now() time.Time { return time.Now().Round(0) }

var begun = time.Now()

// Monotonic returns the time since the process began, by CLOCK_MONOTONIC.
func (r *Real) Monotonic() time.Duration { return time.Since(begun) }

// Sleep sleeps, or returns ctx's error when that ends first.
func (r *Real) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Timeout is context.WithTimeout.
func (r *Real) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// Nonce returns 64 random bits in hex.
func (r *Real) Nonce() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Log writes one JSON line.
func (r *Real) Log(l Line) {
	if r.Output == nil {
		return
	}
	l.Time, l.Machine = time.Now().UTC(), r.Name
	text, err := json.Marshal(l)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Output.Write(append(text, '\n'))
}

// Disk returns the data filesystem.
func (r *Real) Disk() Disk { return disk{r.Root, r.Plain} }

// Process returns the etcd process.
func (r *Real) Process() Process { return r.process }

// connectWithin is how long one try to connect may take, though nobody waits for it any more:
// a look at the name, with its search path, and three round trips.
const connectWithin = 3 * time.Second

// Dial opens a client that neither retries nor waits: one endpoint, one
// attempt a request, so that the caller knows what was asked of whom. clientv3
// by itself holds a request until its endpoint can be reached; a launcher that
// looks for a ring that isn't there yet would spend its time on that.
func (r *Real) Dial(endpoint string, secure *tls.Config) (Etcd, error) {
	once := func(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return invoke(ctx, method, request, reply, c, append(opts, grpc.WaitForReady(false))...)
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{endpoint},
		TLS:                  secure,
		Logger:               zap.NewNop(),
		MaxUnaryRetries:      1,
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(once),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond},
				MinConnectTimeout: connectWithin,
			}),
		},
	})
	if err != nil {
		return nil, err
	}
	return dialed{c}, nil
}

// dialed is a client of one endpoint.
type dialed struct{ *clientv3.Client }

// Status asks on the connection that there is. The client's own dials anew each time, four
// round trips for one: a member 50 ms away has answered long after nobody waits any more.
func (d dialed) Status(ctx context.Context, _ string) (*clientv3.StatusResponse, error) {
	is, err := etcdserverpb.NewMaintenanceClient(d.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
	return (*clientv3.StatusResponse)(is), clientv3.ContextError(ctx, err)
}
