// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/trial"
)

// replaceByStranger cuts the machine's power, and lets an etcd of another ring
// answer at its address. Only the machines reach it: what a client of the
// workload wrote there would be lost through no fault of the subject.
func (w *World) replaceByStranger(ctx context.Context, n *node, step string) (machines.Evidence, error) {
	if !n.machine.On() {
		return machines.Evidence{}, fmt.Errorf("%s is off already", n.name)
	}
	w.mark(n, func() { n.taken = true })
	if _, err := n.machine.PowerOff(); err != nil {
		w.mark(n, func() { n.taken = false })
		return machines.Evidence{}, err
	}
	if _, err := n.machine.PowerOn(ctx); err != nil {
		return machines.Evidence{}, err
	}
	if _, err := n.machine.Block(machines.Traffic{}, w.lab.Gateway()); err != nil {
		return machines.Evidence{}, err
	}
	ports := w.Subject.Etcd()
	peer, client := "http://"+n.at(ports.Peer), "http://"+n.at(ports.Client)
	dir := filepath.Join(w.dir, n.name+"-other-"+step)
	err := n.machine.Start(ctx, machines.Command{Tag: "other", Log: dir + ".log", Args: []string{w.Releases[w.plan.Ring.Version].Etcd,
		"--name=other", "--data-dir=" + dir, "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--initial-cluster=other=" + peer, "--initial-cluster-token=another-ring-" + step, "--initial-cluster-state=new"}})
	return machines.Evidence{What: n.name, Detail: "an etcd of another ring answers at " + n.machine.Addr().String()}, err
}

// dismissStranger gives the machine its address back, and tells what was done to
// the ring that was there.
func (w *World) dismissStranger(ctx context.Context, n *node) error {
	if !n.taken {
		return nil
	}
	if what := w.touched(ctx, n); what != "" {
		w.recorder.Record(ringproof.Event{At: w.Now(), Kind: ringproof.EventTrespass, Machine: n.name, Text: what})
	}
	_, off := n.machine.PowerOff()
	_, free := n.machine.Unblock(ctx)
	w.mark(n, func() { n.taken = false })
	if n.lost {
		return errors.Join(off, free)
	}
	if _, err := n.machine.PowerOn(ctx); err != nil {
		return errors.Join(off, free, err)
	}
	return errors.Join(off, free, w.afterBoot(ctx, n))
}

// touched tells what is not as the other ring was made: it had no keys, and one
// member. It is asked from the machine itself.
func (w *World) touched(ctx context.Context, n *node) string {
	endpoint := "http://" + n.at(w.Subject.Etcd().Client)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop(), MaxUnaryRetries: 1,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return n.machine.DialContext(ctx, "tcp", address)
		})}})
	if err != nil {
		return ""
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	// Who was given a second voter that isn't there has no quorum, and says so by itself.
	members, err := c.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return "" // it had no time to come up
	}
	if len(members.Members) != 1 {
		return fmt.Sprintf("the other ring has %d members, it had 1", len(members.Members))
	}
	if status, err := c.Status(ctx, endpoint); err == nil && status.Header.Revision > 1 {
		return fmt.Sprintf("in the other ring keys were written: it is at revision %d", status.Header.Revision)
	}
	return ""
}

// duplicate brings up a second machine of the same name.
func (w *World) duplicate(ctx context.Context, n *node, step string) (machines.Evidence, error) {
	name := n.name + "-twin-" + step
	m, err := w.lab.Add(ctx, name)
	if err != nil {
		return machines.Evidence{}, err
	}
	w.mark(n, func() { w.twins[name] = m })
	twin := &node{name: name, machine: m, run: filepath.Join(w.dir, name)}
	if err := os.MkdirAll(twin.run, 0o700); err != nil {
		return machines.Evidence{}, err
	}
	p := w.Subject.Agent(trial.Machine{Name: w.plan.Ring.Host(n.name), Address: m.Addr().String(), DataDir: m.DataDir(), Run: twin.run,
		Etcd: map[string]string{"v3.0.0": w.Releases[w.plan.Ring.Version].Etcd}}) // which no ring runs
	err = w.start(ctx, m, twin, p, w.overhear)
	return machines.Evidence{What: n.name, Detail: fmt.Sprintf("a second one is at %v", m.Addr())}, err
}

// overhear hears a machine that is none of the plan's, by a name of its own.
func (w *World) overhear(twin *node, line string) {
	if e, ok := w.Subject.Hear(line); ok {
		e.Machine, e.At = twin.name, w.Now()
		w.recorder.Record(e)
	}
}

func (w *World) dismissTwin(n *node, step string) error {
	name := n.name + "-twin-" + step
	w.mu.Lock()
	m := w.twins[name]
	delete(w.twins, name)
	w.mu.Unlock()
	if m == nil {
		return nil
	}
	_, err := m.Destroy()
	return err
}

// runDry starts the agent again, told to change nothing.
func (w *World) runDry(n *node, step string) (machines.Evidence, error) {
	w.mark(n, func() { n.dry[step] = true })
	e, err := w.signalAgent(n, syscall.SIGKILL)
	e.What, e.Detail = n.name, "the agent is started again in a dry run"
	return e, err
}

// asking lists who can be asked by somebody else: each machine's etcd, with two seconds'
// patience.
func (w *World) asking() (all []client.Asking) {
	for _, n := range w.present() {
		all = append(all, func(ctx context.Context, what func(context.Context, client.Etcd) error) error {
			c, err := w.dial(n, w.url(n))
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			return what(ctx, struct {
				*clientv3.Client
				pb.MaintenanceClient
			}{c, pb.NewMaintenanceClient(c.ActiveConnection())})
		})
	}
	return all
}
