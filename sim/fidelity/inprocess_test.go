// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package fidelity_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/framework/integration"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/sim/fidelity"
)

func init() {
	systems["in-process"] = func(t *testing.T) fidelity.System {
		needs.RealTime(t)
		integration.BeforeTestExternal(t)
		return &inProcess{t}
	}
}

// inProcess is etcd's own test framework: no command line, no process whose
// end could be seen, and what panics there takes the test with it.
type inProcess struct{ t *testing.T }

func (*inProcess) Name() string    { return "in-process" }
func (*inProcess) Release() string { return "v3.7.3" }

func (*inProcess) Lacks(need fidelity.Need) string {
	if need == fidelity.NeedPartition {
		return ""
	}
	return "etcd's test framework can't do this: " + string(need)
}

func (i *inProcess) Play(_ fidelity.Script, play func(context.Context, fidelity.Machines)) error {
	m := &inProcessMachines{t: i.t, hosts: map[string]*member{}}
	defer m.close()
	play(i.t.Context(), m)
	return nil
}

type inProcessMachines struct {
	wall
	t       *testing.T
	hosts   map[string]*member
	clients []*clientv3.Client
}

// member is a machine, and the member on it.
type member struct {
	*integration.Member
	logs *observer.ObservedLogs
	run  *launch // the last; nil before the first

	parted []*integration.Member // from these
}

// launch is one start of a member.
type launch struct {
	done chan struct{} // closed when the server stands, or failed is set
	fail error
	mine bool // the script ended it
	shut bool
}

func (l *launch) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (m *inProcessMachines) host(name string) *member {
	if h, ok := m.hosts[name]; ok {
		return h
	}
	h := &member{Member: integration.MustNewMember(silent{m.t}, integration.MemberConfig{Name: name, UseTCP: true, UseIP: true})}
	core, logs := observer.New(zap.WarnLevel)
	h.Logger, h.logs = zap.New(core), logs
	urls, err := types.NewURLs([]string{h.GRPCURL})
	require.NoError(m.t, err)
	h.ClientURLs = urls
	m.hosts[name] = h
	return h
}

func (m *inProcessMachines) URL(machine string, port fidelity.Port, secure bool) string {
	url := m.host(machine).GRPCURL
	if port == fidelity.PeerPort {
		url = m.host(machine).PeerURLs[0].String()
	}
	if port == fidelity.SecondPort { // never served here, but not to be taken for the others
		url += "1"
	}
	if secure { // the same
		scheme, rest, _ := strings.Cut(url, "://")
		return scheme + "s://" + rest
	}
	return url
}

func (m *inProcessMachines) DataDir(machine string) string { return m.host(machine).DataDir }
func (m *inProcessMachines) PeerTLS(string) []string       { return nil }

// silent doesn't print the framework's logs.
type silent struct{ *testing.T }

func (silent) Log(...any)          {}
func (silent) Logf(string, ...any) {}

// Start launches beside the script, since a new member asks the others whether
// it was there before, and waits for them.
func (m *inProcessMachines) Start(_ context.Context, machine, _ string, flags []string) error {
	h := m.host(machine)
	if err := h.configure(flags); err != nil {
		return err
	}
	start := h.Launch
	if h.run != nil {
		h.shut()
		h.Closed = false
		start = func() error { return h.Restart(silent{m.t}) }
	}
	run := &launch{done: make(chan struct{}), fail: errors.New("the framework gave up")}
	h.run = run
	go func() {
		defer close(run.done)
		run.fail = start()
	}()
	return nil
}

// shut closes what runs. What was never launched has nothing to verify on its
// disk.
func (h *member) shut() {
	if h.run == nil || h.run.shut {
		return
	}
	<-h.run.done
	h.Closed = h.run.fail != nil
	if h.run.fail != nil {
		h.Server = nil
		h.unlisten()
	}
	h.Close()
	h.ServerClosers = nil
	h.run.shut = true
}

func (h *member) unlisten() {
	for _, l := range append(slices.Clone(h.PeerListeners), h.ClientListeners...) {
		l.Close()
	}
	h.GRPCListener.Close()
}

// configure takes the flags that the framework has a setting for.
func (h *member) configure(flags []string) (err error) {
	h.BootstrapTimeout = 300 * time.Millisecond
	for _, flag := range flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		number, _ := strconv.Atoi(value)
		switch name {
		case "initial-cluster":
			h.InitialPeerURLsMap, err = types.NewURLsMap(value)
		case "initial-cluster-state":
			h.NewCluster = value == "new"
		case "initial-cluster-token":
			h.InitialClusterToken = value
		case "snapshot-count":
			h.SnapshotCount = uint64(number)
		case "snapshot-catchup-entries":
			h.SnapshotCatchUpEntries = uint64(number)
		case "quota-backend-bytes":
			h.QuotaBackendBytes = int64(number)
		case "max-learners":
			h.MaxLearners = number
		case "max-request-bytes":
			h.MaxRequestBytes = uint(number)
		case "max-txn-ops":
			h.MaxTxnOps = uint(number)
		case "strict-reconfig-check":
			h.StrictReconfigCheck = value == "true"
		case "heartbeat-interval":
			h.TickMs = uint(number)
		case "watch-progress-notify-interval":
			h.WatchProgressNotifyInterval, err = time.ParseDuration(value)
		case "name":
			h.Name = value
		case "auto-compaction-mode":
			h.AutoCompactionMode = value
		case "auto-compaction-retention":
			h.AutoCompactionMode = cmp.Or(h.AutoCompactionMode, "periodic")
			h.AutoCompactionRetention, err = time.ParseDuration(value)
			if h.AutoCompactionMode == "revision" {
				h.AutoCompactionRetention, err = time.Duration(number), nil
			}
		case "advertise-client-urls":
			h.ClientURLs, err = types.NewURLs(strings.Split(value, ","))
		case "initial-advertise-peer-urls", "listen-peer-urls", "listen-client-urls", "data-dir", "election-timeout":
			// The framework's own are given: an election takes ten ticks.
		default:
			err = fmt.Errorf("etcd's test framework has no flag --%s", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *inProcessMachines) Ended(machine string) (fidelity.End, bool) {
	h := m.host(machine)
	if h.run == nil || h.run.mine || !h.run.over() {
		return fidelity.End{}, false
	}
	if h.run.fail != nil {
		return fidelity.End{Code: 1, Why: strings.TrimPrefix(h.run.fail.Error(), "failed to initialize the etcd server: ")}, true
	}
	select {
	case <-h.Server.StopNotify():
		end := fidelity.End{}
		for _, entry := range h.logs.FilterMessage("server error").All() {
			end.Why = fmt.Sprint(entry.ContextMap()["error"])
		}
		return end, true
	default:
		return fidelity.End{}, false
	}
}

func (m *inProcessMachines) Stop(_ context.Context, machine string) error { return m.Kill(machine) }

func (m *inProcessMachines) Tell(context.Context, string) error { return errors.ErrUnsupported }

func (m *inProcessMachines) Kill(machine string) error {
	h := m.host(machine)
	if h.run != nil {
		h.run.mine = true
		h.shut()
	}
	return nil
}

func (m *inProcessMachines) PowerOff(machines ...string) error {
	for _, name := range machines {
		_ = m.Kill(name)
	}
	return nil
}

func (m *inProcessMachines) Wipe(machine string) error {
	h := m.host(machine)
	h.shut()
	return os.RemoveAll(h.DataDir)
}

func (m *inProcessMachines) Cut(machine string) error {
	m.host(machine).Pause()
	return nil
}

func (m *inProcessMachines) Part(machine, other string) error {
	h := m.host(machine)
	h.InjectPartition(silent{m.t}, m.host(other).Member)
	h.parted = append(h.parted, m.host(other).Member)
	return nil
}

func (m *inProcessMachines) Unlink(string) error                { return errors.New("no files here") }
func (m *inProcessMachines) Lose(string, string) error          { return errors.New("no files here") }
func (m *inProcessMachines) Damage(string, string) error        { return errors.New("no files here") }
func (m *inProcessMachines) Occupy(string, fidelity.Port) error { return errors.New("no ports here") }

func (m *inProcessMachines) Join(machine string) error {
	h := m.host(machine)
	h.RecoverPartition(silent{m.t}, h.parted...)
	h.parted = nil
	h.Resume()
	return nil
}

// ready reports whether a released etcd would serve clients: it waits until the
// member has written its name into the ring. The framework doesn't.
func (h *member) ready() bool {
	if h.run == nil || h.run.mine || !h.run.over() || h.run.fail != nil {
		return false
	}
	select {
	case <-h.Server.ReadyNotify():
		return true
	default:
		return false
	}
}

func (m *inProcessMachines) ClusterVersion(_ context.Context, machine string) (string, error) {
	h := m.host(machine)
	if !h.ready() || h.Server.ClusterVersion() == nil {
		return "", errors.New("it is not known yet")
	}
	return h.Server.ClusterVersion().String(), nil
}

func (m *inProcessMachines) close() {
	for _, h := range m.hosts {
		h.shut()
		if h.Client != nil {
			h.Client.Close()
		}
		h.unlisten()
		os.RemoveAll(h.DataDir)
	}
	for _, c := range m.clients {
		c.Close()
	}
}

func (m *inProcessMachines) Client(machine string) (fidelity.Client, error) {
	h := m.host(machine)
	c, err := m.dial(h.GRPCURL)
	return inProcessClient{c, h}, err
}

func (m *inProcessMachines) dial(endpoint string) (*real, error) {
	c, err := client.Dial(endpoint, nil)
	if err != nil {
		return nil, err
	}
	m.clients = append(m.clients, c)
	return &real{c, func() (*clientv3.Client, error) { return client.Dial(endpoint, nil) }}, nil
}

// inProcessClient doesn't see a member before it is ready.
type inProcessClient struct {
	*real
	of *member
}

func (c inProcessClient) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	if !c.of.ready() {
		return nil, errors.New("it doesn't serve yet")
	}
	return c.real.Status(ctx, endpoint)
}
