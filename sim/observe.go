// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/observe"
)

// observeTimeout is how long a list read with a quorum may take to come; the last observation
// of a run, which decides, takes longer.
const (
	observeTimeout = 500 * time.Millisecond
	finalTimeout   = 3 * time.Second
)

// Observe asks every machine at once.
func (w *World) Observe(ctx context.Context) (ringproof.Observation, error) {
	return w.observe(ctx, observeTimeout)
}

// observe asks the members as a client would, but from beside them: their
// answers need no network.
func (w *World) observe(ctx context.Context, within time.Duration) (ringproof.Observation, error) {
	w.engine.alive()
	o := ringproof.Observation{At: w.Now(), Machines: make([]ringproof.MachineView, 0, len(w.machines))}
	for _, m := range w.machines {
		o.Machines = append(o.Machines, m.view())
	}
	present := w.present()
	answers := make([]observe.Answer, len(present))
	for i, m := range present {
		answers[i] = m.asked()
	}
	w.readFresh(ctx, within, present, answers)
	o.Until = w.Now()
	observe.Ring(&o, answers)
	return o, ctx.Err()
}

// confirmed is a leader that gave a list read with a quorum. No other can be
// elected within an election timeout of that, so that for a part of one, while
// nothing keeps it from its followers, its own list is as good: by the same
// reasoning raft allows reads by lease.
type confirmed struct {
	machine *Machine
	term    uint64
	at      ringproof.Instant
}

// leased reports whether the leader's list needs no quorum.
func (w *World) leased(m *Machine, a *observe.Answer) bool {
	if w.work.Ask {
		return false
	}
	election := cmp.Or(w.plan.Ring.Election.Std(), time.Second) // etcd's default
	c := w.confirmed
	return c.machine == m && c.term == a.Status.RaftTerm && w.engine.now.Sub(c.at) < election/2 && w.undisturbed()
}

// undisturbed reports whether every machine runs and every packet gets through.
func (w *World) undisturbed() bool {
	for _, steps := range w.network.cuts { // order: all are looked at
		if len(steps) > 0 {
			return false
		}
	}
	return !slices.ContainsFunc(w.machines, func(m *Machine) bool { return !m.on || m.lost || m.paused() })
}

// readFresh asks who leads for a list read with a quorum. Without a leader it
// takes no time, and gives nobody else the thread.
func (w *World) readFresh(ctx context.Context, within time.Duration, present []*Machine, answers []observe.Answer) {
	var wait *waiter
	waiting, over := 0, false
	for i, m := range present {
		a := &answers[i]
		if a.Err != nil || a.Status.Leader != a.Status.Header.MemberId || outdone(a, answers) {
			continue
		}
		if w.leased(m, a) {
			a.Fresh = a.Members
			continue
		}
		if waiting++; wait == nil {
			asking, cancel := w.engine.timeout(ctx, within)
			defer cancel()
			wait = w.engine.begin(asking)
		}
		asked, term := w.engine.now, a.Status.RaftTerm
		m.etcd.fresh(func(list *clientv3.MemberListResponse) {
			if over {
				return
			}
			a.Fresh = list
			if list != nil {
				w.confirmed = confirmed{m, term, asked}
			}
			if waiting--; waiting == 0 {
				wait.wake()
			}
		})
	}
	if wait != nil {
		_ = w.engine.pause(wait)
	}
	over = true
}

// fresh asks the server for a list read with a quorum; nil: it has none.
func (s *server) fresh(answer func(*clientv3.MemberListResponse)) {
	s.hear(func() {
		s.etcd.Call(nil, &pb.MemberListRequest{Linearizable: true}, func(reply any, err error) {
			if err != nil {
				answer(nil)
				return
			}
			answer((*clientv3.MemberListResponse)(reply.(*pb.MemberListResponse)))
		})
	})
}

// outdone reports whether another member leads in a later term: who was deposed
// and doesn't know can't give a list read with a quorum.
func outdone(a *observe.Answer, all []observe.Answer) bool {
	return slices.ContainsFunc(all, func(o observe.Answer) bool { return o.Status != nil && o.Status.RaftTerm > a.Status.RaftTerm })
}

// view is the machine as it is.
func (m *Machine) view() ringproof.MachineView {
	disk := m.disk
	switch {
	case m.etcd != nil && m.below != nil:
		disk = m.etcd.home // it goes on where it was started, whatever was mounted over it
	case m.away != nil:
		disk = m.away // an empty directory is no disk until somebody uses it
	}
	open := 0
	if m.etcd != nil {
		open = m.etcd.unlinked
	}
	return ringproof.MachineView{Name: m.name, Open: open, Address: m.address, Lost: m.lost, Disk: disk.numbers[m], Up: m.on && !m.lost && !m.paused(),
		Etcd: m.on && m.etcd != nil, Clear: m.inClear(), Agent: m.on && m.agent != nil && !m.agent.ended}
}

// inClear is whether the machine's etcd listens for peers without TLS, where peers are moved.
func (m *Machine) inClear() ringproof.Answer {
	switch {
	case m.etcd == nil || m.world.plan.Ring.Peers != "plain":
		return ""
	case slices.Contains(slices.Collect(maps.Values(m.etcd.ports)), false):
		return ringproof.Yes
	}
	return ringproof.No
}

func (m *Machine) paused() bool { return m.asleep() || m.etcd != nil && m.etcd.process.paused }

var (
	errOff  = errors.New("the machine is off or paused")
	errDown = errors.New("no etcd serves clients there")
)

// asked is what the machine's etcd says without asking its peers.
func (m *Machine) asked() observe.Answer {
	a := observe.Answer{Machine: m.name}
	switch s := m.etcd; {
	case !m.on || m.lost || m.paused():
		a.Err = errOff
	case s == nil || s.etcd == nil || !s.clients():
		a.Err = errDown
	default:
		status, members, err := s.etcd.Look()
		a.Status, a.Err = (*clientv3.StatusResponse)(status), err
		if err == nil {
			a.Members = (*clientv3.MemberListResponse)(members)
		}
		m.world.members[m] = true
	}
	return a
}
