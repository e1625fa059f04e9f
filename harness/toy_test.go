// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/client"
)

// How fast things go in the toy.
const (
	beat      = 20 * time.Millisecond  // of the toy
	observing = 30 * time.Millisecond  // an observation takes so long
	roundTrip = 2 * time.Millisecond   // and a request so
	vote      = 300 * time.Millisecond // without a leader, after one is gone
	restart   = 500 * time.Millisecond // of a process that was killed
)

// toy is a world that is small enough to read: an etcd of a map and a list of
// changes, machines of a few flags, and a subject that makes the ring what was
// asked for, one change after another. Faults really change it. It runs in the
// time of a synctest bubble.
type toy struct {
	// What a test may set before the run.
	pace      time.Duration                        // between two changes of the subject; 0: 200ms
	idle      bool                                 // the subject makes the first ring and nothing else
	asked     func(ringproof.Op) error             // what the subject says to an operation; nil: it takes it
	injecting func(ringproof.Step, []string) error // before a fault is applied
	healing   func(ringproof.Step, []string) error // before one is taken away
	looking   func(*ringproof.Observation)         // changes what was seen
	lacks     ringproof.FaultKind                  // what this world can't do
	fails     error                                // Start's
	left      error                                // Close's
	calls     []call                               // Do and Heal, in order
	closed    bool

	began    time.Time
	recorder ringproof.Recorder
	tasks    sync.WaitGroup

	mu       sync.Mutex
	machines []*machine
	members  []member
	leader   ringproof.MemberID
	term     uint64
	leadLost time.Time // since when nobody leads
	changed  time.Time // when the subject last did
	want     int
	leaving  map[string]bool
	outage   string // step of the fault at the store
	met      bool   // the subject has met it
	next     ringproof.MemberID
	keys     map[string]ringproof.KV
	log      []ringproof.WatchEvent
	revision int64
	compact  int64
	leases   map[int64]bool // those granted, and whether they live; none runs out
}

type machine struct {
	name                  string
	on, paused, lost, cut bool
	dead                  time.Time // its etcd was killed then
	disk                  int
}

type member struct {
	id      ringproof.MemberID
	machine string
	disk    int
	learner bool
	born    time.Time
}

// call is one Do or Heal.
type call struct {
	do      string // "do" or "heal"
	step    ringproof.Step
	targets string
	at      ringproof.Instant
}

var _ ringproof.World = (*toy)(nil)

func (w *toy) Name() string { return "toy" }

func (w *toy) Now() ringproof.Instant {
	if w.began.IsZero() {
		return 0
	}
	return ringproof.Instant(time.Since(w.began))
}

func (w *toy) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (w *toy) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

func (w *toy) Go(ctx context.Context, _ string, f func(context.Context)) {
	w.tasks.Go(func() { f(ctx) })
}

func (w *toy) Supports(s ringproof.Step) error {
	if s.Fault != nil && s.Fault.Kind == w.lacks {
		return errors.ErrUnsupported
	}
	return nil
}

func (w *toy) Tools() ringproof.Tools { return ringproof.Tools{Ringproof: "toy"} }

func (w *toy) Start(ctx context.Context, p ringproof.Plan, recorder ringproof.Recorder) error {
	if w.fails != nil {
		return w.fails
	}
	w.began, w.recorder, w.want = time.Now(), recorder, p.Ring.Size
	w.leaving, w.keys, w.next, w.revision = map[string]bool{}, map[string]ringproof.KV{}, 0xa0, 1
	for i := range p.Ring.Machines {
		w.machines = append(w.machines, &machine{name: fmt.Sprintf("m%d", i+1), on: true, disk: 1})
	}
	if w.pace == 0 {
		w.pace = 200 * time.Millisecond
	}
	w.Go(ctx, "ring", w.live)
	return nil
}

// live makes the ring and then keeps it.
func (w *toy) live(ctx context.Context) {
	_ = w.Sleep(ctx, w.pace)
	w.mu.Lock()
	for _, m := range w.machines[:w.want] {
		w.add(m, false)
	}
	w.leader, w.term = w.members[0].id, 1
	w.mu.Unlock()
	for w.Sleep(ctx, beat) == nil {
		w.elect()
		if !w.idle {
			w.keep(ctx)
		}
	}
}

func (w *toy) add(m *machine, learner bool) {
	w.next++
	w.members = append(w.members, member{id: w.next, machine: m.name, disk: m.disk, learner: learner, born: time.Now()})
}

// elect has the first voter lead that can, a while after the last one is gone.
func (w *toy) elect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.member(w.leader); m != nil && w.works(*m) && w.quorum() {
		return
	}
	if w.leader != 0 {
		w.leader, w.leadLost = 0, time.Now()
	}
	if time.Since(w.leadLost) < vote || !w.quorum() {
		return
	}
	i := slices.IndexFunc(w.members, func(m member) bool { return !m.learner && w.works(m) })
	w.leader, w.term = w.members[i].id, w.term+1
}

func (w *toy) member(id ringproof.MemberID) *member {
	for i := range w.members {
		if w.members[i].id == id {
			return &w.members[i]
		}
	}
	return nil
}

func (w *toy) on(name string) *machine {
	i := slices.IndexFunc(w.machines, func(m *machine) bool { return m.name == name })
	return w.machines[i]
}

// reaches reports whether clients get an answer of the machine.
func (m machine) reaches() bool {
	return m.on && !m.paused && !m.lost && (m.dead.IsZero() || time.Since(m.dead) >= restart)
}

// works reports whether the member takes part.
func (w *toy) works(m member) bool {
	on := w.on(m.machine)
	return on.reaches() && !on.cut && on.disk == m.disk
}

func (w *toy) quorum() bool {
	voters, working := 0, 0
	for _, m := range w.members {
		if !m.learner {
			voters++
			if w.works(m) {
				working++
			}
		}
	}
	return working >= ringproof.Quorum(voters)
}

// keep makes one change if one is due.
func (w *toy) keep(ctx context.Context) {
	w.mu.Lock()
	action, target, apply := w.due()
	if apply == nil || time.Since(w.changed) < w.pace || w.leader == 0 {
		w.mu.Unlock()
		return
	}
	if w.outage != "" {
		if !w.met {
			w.met = true
			w.recorder.Record(ringproof.Event{Kind: ringproof.EventFaultLanded, Step: w.outage, Fault: ringproof.FaultStoreOutage, Text: "a call failed"})
		}
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	w.recorder.Record(ringproof.Event{Kind: ringproof.EventActionBegun, Action: action, Machine: target})
	if w.Sleep(ctx, w.pace/2) != nil {
		return
	}
	w.mu.Lock()
	apply()
	w.changed = time.Now()
	w.mu.Unlock()
	w.recorder.Record(ringproof.Event{Kind: ringproof.EventActionDone, Action: action, Machine: target})
}

// due is the next change that makes the ring what was asked for.
func (w *toy) due() (action, target string, apply func()) {
	voters := 0
	for _, m := range w.members {
		on := w.on(m.machine)
		if on.lost || on.disk != m.disk {
			return "remove", m.machine, func() { w.remove(m.id) }
		}
		if m.learner {
			return "promote", m.machine, func() { w.member(m.id).learner = false }
		}
		voters++
	}
	for _, m := range w.members {
		if voters > w.want && (w.leaving[m.machine] || len(w.leaving) == 0 && m.id != w.leader) {
			return "remove", m.machine, func() { w.remove(m.id); delete(w.leaving, m.machine) }
		}
	}
	if voters < w.want || len(w.leaving) > 0 {
		for _, m := range w.machines {
			if m.on && !m.lost && !slices.ContainsFunc(w.members, func(e member) bool { return e.machine == m.name }) {
				return "add-learner", m.name, func() { w.add(m, true) }
			}
		}
	}
	return "", "", nil
}

func (w *toy) remove(id ringproof.MemberID) {
	w.members = slices.DeleteFunc(w.members, func(m member) bool { return m.id == id })
}

func (w *toy) Do(ctx context.Context, s ringproof.Step, targets []string) (string, error) {
	w.note("do", s, targets)
	if s.Op != nil {
		return "", w.operate(*s.Op, targets)
	}
	if w.injecting != nil {
		var partial *ringproof.PartialError
		if err := w.injecting(s, targets); errors.As(err, &partial) {
			return string(s.Fault.Kind), err
		} else if err != nil {
			return "", err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Fault.Kind == ringproof.FaultStoreOutage {
		w.outage = s.Name
		return "", nil
	}
	for _, name := range targets {
		w.change(w.on(name), *s.Fault, true)
	}
	return string(s.Fault.Kind) + " of " + strings.Join(targets, " "), ctx.Err()
}

func (w *toy) Heal(ctx context.Context, s ringproof.Step, targets []string) error {
	w.note("heal", s, targets)
	if w.healing != nil {
		if err := w.healing(s, targets); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outage = ""
	for _, name := range targets {
		w.change(w.on(name), *s.Fault, false)
	}
	return ctx.Err()
}

func (w *toy) note(do string, s ringproof.Step, targets []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call{do, s, strings.Join(targets, " "), w.Now()})
}

// change applies a fault to a machine, or takes it away.
func (w *toy) change(m *machine, f ringproof.Fault, begins bool) {
	switch f.Kind {
	case ringproof.FaultKill:
		if f.Scope == "machine" {
			m.on = !begins
		} else if begins {
			m.dead = time.Now()
		}
	case ringproof.FaultPause:
		m.paused = begins
	case ringproof.FaultPartition:
		m.cut = begins
	case ringproof.FaultMachineLoss:
		m.lost = true
	case ringproof.FaultVolumeLoss:
		m.disk++
	}
}

func (w *toy) operate(op ringproof.Op, targets []string) error {
	if w.asked != nil {
		if err := w.asked(op); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch op.Kind {
	case ringproof.OpScale:
		w.want = op.To
	case ringproof.OpReplace:
		w.leaving[targets[0]] = true
	case ringproof.OpRestart:
		w.on(targets[0]).dead = time.Now()
	case ringproof.OpMoveLeader:
		for _, m := range w.members {
			if m.machine == targets[0] {
				w.leader, w.term = m.id, w.term+1
			}
		}
	}
	return nil
}

// Observe is of the moment at which it begins.
func (w *toy) Observe(ctx context.Context) (ringproof.Observation, error) {
	w.mu.Lock()
	o := ringproof.Observation{At: w.Now(), Fresh: w.leader != 0 && w.quorum()}
	for _, m := range w.machines {
		o.Machines = append(o.Machines, ringproof.MachineView{Name: m.name, Up: m.on && !m.paused && !m.lost, Lost: m.lost, Disk: m.disk, Agent: m.on && !m.lost})
	}
	for _, m := range w.members {
		v := ringproof.MemberView{ID: m.id, Name: m.machine, Machine: m.machine, PeerURLs: []string{"http://" + m.machine}, Learner: m.learner}
		if v.Serving = w.works(m) && w.leader != 0; v.Serving {
			v.Leader, v.Term, v.Revision, v.Version, v.Applied = m.id == w.leader, w.term, w.revision, "3.6.16", uint64(w.revision)
		}
		o.Members = append(o.Members, v)
	}
	if w.looking != nil {
		w.looking(&o)
	}
	w.mu.Unlock()
	return o, w.Sleep(ctx, observing)
}

// Evidence takes no time: what is not recorded by now is lost.
func (w *toy) Evidence(context.Context) (ringproof.Evidence, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return ringproof.Evidence{Revision: w.revision, Changes: []ringproof.ConfChange{{Index: 1, At: ringproof.Forever}, {Index: 1e9, At: ringproof.Forever}}}, nil
}

func (w *toy) Close() error {
	w.tasks.Wait()
	w.closed = true
	return w.left
}

func (w *toy) Client(_ context.Context, i int) (ringproof.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.members) == 0 {
		return nil, errors.New("there is no member")
	}
	return &toyClient{w, w.machines[i%len(w.machines)]}, nil
}

type toyClient struct {
	w  *toy
	on *machine
}

func (c *toyClient) Endpoint() string { return c.on.name }
func (c *toyClient) Close() error     { return nil }

// Do is refused by a machine that is off, and never answered by one that is
// stopped or in a ring without a leader.
func (c *toyClient) Do(ctx context.Context, r ringproof.Request) (ringproof.Response, error) {
	if err := c.w.Sleep(ctx, roundTrip); err != nil {
		return ringproof.Response{}, err
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	switch {
	case !c.on.on || c.on.lost || !c.on.paused && !c.on.reaches():
		return ringproof.Response{}, fmt.Errorf("dialing %s: %w", c.on.name, ringproof.ErrRefused)
	case c.on.paused || c.w.leader == 0 || c.on.cut:
		c.w.mu.Unlock()
		<-ctx.Done()
		c.w.mu.Lock()
		return ringproof.Response{}, ctx.Err()
	}
	return c.w.apply(r)
}

func (w *toy) apply(r ringproof.Request) (ringproof.Response, error) {
	if r.Kind.Operates() {
		return ringproof.Response{Revision: w.revision, Upkeep: &ringproof.UpkeepAnswer{Whole: true}}, nil
	}
	if r.General() { // all of its comparisons hold here
		answer := ringproof.Response{Succeeded: true}
		for _, each := range r.Then {
			result, err := w.apply(each)
			if err != nil {
				return answer, err
			}
			answer.Results = append(answer.Results, result)
		}
		answer.Revision = w.revision
		return answer, nil
	}
	before, exists := w.keys[r.Key]
	var response ringproof.Response
	switch r.Kind {
	case ringproof.RequestGet:
		if exists {
			response.KVs = []ringproof.KV{before}
		}
	case ringproof.RequestRange:
		for _, kv := range w.keys {
			response.KVs = append(response.KVs, kv)
		}
		slices.SortFunc(response.KVs, func(a, b ringproof.KV) int { return strings.Compare(a.Key, b.Key) })
	case ringproof.RequestPut:
		if r.Lease != 0 && !w.leases[r.Lease] {
			return response, errNoLease
		}
		w.put(r.Key, r.Value, r.Lease)
	case ringproof.RequestGrant:
		if w.leases == nil {
			w.leases = map[int64]bool{}
		}
		response.Lease, response.TTL = int64(len(w.leases)+1), r.TTL
		w.leases[response.Lease] = true
	case ringproof.RequestKeepAlive, ringproof.RequestRevoke:
		if !w.leases[r.Lease] {
			return response, errNoLease
		}
		w.leases[r.Lease] = r.Kind == ringproof.RequestKeepAlive
	case ringproof.RequestTxn:
		if response.Succeeded = before.ModRevision == r.Compare; response.Succeeded {
			w.put(r.Key, r.Value, 0)
		} else if exists {
			response.KVs = []ringproof.KV{before}
		}
	case ringproof.RequestCompact:
		w.compact = max(w.compact, r.Revision)
	case ringproof.RequestDelete:
		if exists {
			response.Deleted = 1
			w.revision++
			delete(w.keys, r.Key)
			w.log = append(w.log, ringproof.WatchEvent{Revision: w.revision, Delete: true, KV: ringproof.KV{Key: r.Key, ModRevision: w.revision}, Prev: &before})
		}
	}
	response.Revision = w.revision
	return response, nil
}

// errNoLease is what whoever names a lease is told that is no more.
var errNoLease = fmt.Errorf("%w: %w", ringproof.ErrRefused, rpctypes.ErrLeaseNotFound)

func (w *toy) put(key, value string, lease int64) {
	before, exists := w.keys[key]
	w.revision++
	kv := ringproof.KV{Key: key, Value: value, CreateRevision: w.revision, ModRevision: w.revision, Version: 1, Lease: lease}
	if exists {
		kv.CreateRevision, kv.Version = before.CreateRevision, before.Version+1
	}
	w.keys[key] = kv
	w.log = append(w.log, ringproof.WatchEvent{Revision: w.revision, Create: !exists, KV: kv})
}

func (c *toyClient) Watch(ctx context.Context, prefix string, start int64, see func(ringproof.WatchEvent)) error {
	for next := start; c.w.Sleep(ctx, beat) == nil; {
		c.w.mu.Lock()
		if !c.on.reaches() {
			c.w.mu.Unlock()
			return errors.New("the stream broke")
		}
		if next < c.w.compact {
			c.w.mu.Unlock()
			return client.Compacted{Revision: c.w.compact}
		}
		var news []ringproof.WatchEvent
		for _, e := range c.w.log {
			if e.Revision >= next && strings.HasPrefix(e.KV.Key, prefix) {
				news = append(news, e)
			}
		}
		next = max(next, c.w.revision+1)
		c.w.mu.Unlock()
		for _, e := range news {
			see(e)
		}
	}
	return nil
}

// ring is a plan of a ring of three with two spare machines and no load.
func ring(steps ...ringproof.Step) ringproof.Plan {
	return ringproof.Plan{
		Seed: 7, Ring: ringproof.RingSpec{Size: 3, Machines: 5}, Workload: ringproof.Workload{Profile: "none"}, Steps: steps,
	}
}

// loaded is the same under load.
func loaded(clients int, steps ...ringproof.Step) ringproof.Plan {
	p := ring(steps...)
	p.Workload = ringproof.Workload{Profile: "kv-txn-watch", Clients: clients, Keys: 3, Rate: 30}
	return p
}

// play runs the plan in a bubble of virtual time, and wants it carried out and
// the world closed.
func play(t *testing.T, w *toy, p ringproof.Plan) ringproof.History {
	t.Helper()
	return playIn(t, w, w, p)
}

// playIn does so in a world that is the toy, and more.
func playIn(t *testing.T, world ringproof.World, w *toy, p ringproof.Plan) ringproof.History {
	t.Helper()
	var h ringproof.History
	synctest.Test(t, func(t *testing.T) {
		var err error
		h, err = Run(t.Context(), p, world, Options{})
		require.NoError(t, err)
		require.True(t, w.closed, "the world was left open")
	})
	if t.Failed() {
		t.FailNow()
	}
	for _, e := range h.Events {
		t.Log(e)
	}
	return h
}

func scale(name string, to int) ringproof.Step {
	return ringproof.Step{Name: name, Op: &ringproof.Op{Kind: ringproof.OpScale, To: to}}
}

func detached(s ringproof.Step) ringproof.Step {
	s.Detach = true
	return s
}

func after(s ringproof.Step, trigger ringproof.Trigger) ringproof.Step {
	s.After = &trigger
	return s
}

func faulty(name string, f ringproof.Fault) ringproof.Step {
	return ringproof.Step{Name: name, Fault: &f}
}

func seconds(n float64) ringproof.Duration { return ringproof.Duration(n * float64(time.Second)) }

// sleep is a step that takes two seconds and fails: the ring has three voters.
func sleep(name string) ringproof.Step {
	return ringproof.Step{Name: name, Assert: &ringproof.Assert{Within: seconds(2), Voters: 9}}
}

// of are the events of a kind and, unless it is "", a step.
func of(h ringproof.History, kind ringproof.EventKind, step string) []ringproof.Event {
	var found []ringproof.Event
	for _, e := range h.Events {
		if e.Kind == kind && (step == "" || e.Step == step) {
			found = append(found, e)
		}
	}
	return found
}

// only is the one such event.
func only(t *testing.T, h ringproof.History, kind ringproof.EventKind, step string) ringproof.Event {
	t.Helper()
	found := of(h, kind, step)
	require.Len(t, found, 1, "%s of %q", kind, step)
	return found[0]
}

// done are the calls of the world that a test looks for: "do" or "heal" of a step.
func (w *toy) done(do, step string) []call {
	var found []call
	for _, c := range w.calls {
		if c.do == do && c.step.Name == step {
			found = append(found, c)
		}
	}
	return found
}
