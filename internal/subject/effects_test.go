// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	_ "github.com/ringproof/ringproof/internal/needs" // the seed, in CI
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/store"
)

// askable is an etcd that answers everything, and counts what it was asked.
type askable struct {
	host.Etcd
	asked int
	over  error // of the context of what was asked last
}

func (e *askable) MemberAdd(context.Context, []string) (*clientv3.MemberAddResponse, error) {
	e.asked++
	return &clientv3.MemberAddResponse{}, nil
}

func (e *askable) MemberAddAsLearner(ctx context.Context, _ []string) (*clientv3.MemberAddResponse, error) {
	e.asked++
	e.over = ctx.Err()
	return &clientv3.MemberAddResponse{}, nil
}

func (e *askable) MemberRemove(context.Context, uint64) (*clientv3.MemberRemoveResponse, error) {
	e.asked++
	return &clientv3.MemberRemoveResponse{}, nil
}

func (e *askable) MemberPromote(context.Context, uint64) (*clientv3.MemberPromoteResponse, error) {
	e.asked++
	return &clientv3.MemberPromoteResponse{}, nil
}

func (e *askable) MemberUpdate(context.Context, uint64, []string) (*clientv3.MemberUpdateResponse, error) {
	e.asked++
	return &clientv3.MemberUpdateResponse{}, nil
}

func (e *askable) MoveLeader(context.Context, uint64) (*clientv3.MoveLeaderResponse, error) {
	e.asked++
	return &clientv3.MoveLeaderResponse{}, nil
}

func (e *askable) Put(ctx context.Context, _, _ string, _ ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	e.asked++
	e.over = ctx.Err()
	return &clientv3.PutResponse{}, nil
}

func (e *askable) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	e.asked++
	return &clientv3.GetResponse{}, nil
}

func (e *askable) Delete(context.Context, string, ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	e.asked++
	return &clientv3.DeleteResponse{}, nil
}

func (e *askable) Compact(context.Context, int64, ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	e.asked++
	return &clientv3.CompactResponse{}, nil
}

func (e *askable) Do(context.Context, clientv3.Op) (clientv3.OpResponse, error) {
	e.asked++
	return clientv3.OpResponse{}, nil
}

func (e *askable) Txn(ctx context.Context) clientv3.Txn {
	e.over = ctx.Err()
	return countedTxn{fakeTxn{}, e}
}

type countedTxn struct {
	clientv3.Txn
	etcd *askable
}

func (t countedTxn) If(...clientv3.Cmp) clientv3.Txn  { return t }
func (t countedTxn) Then(...clientv3.Op) clientv3.Txn { return t }
func (t countedTxn) Else(...clientv3.Op) clientv3.Txn { return t }
func (t countedTxn) Commit() (*clientv3.TxnResponse, error) {
	t.etcd.asked++
	return &clientv3.TxnResponse{}, nil
}

func (e *askable) Grant(context.Context, int64) (*clientv3.LeaseGrantResponse, error) {
	e.asked++
	return &clientv3.LeaseGrantResponse{}, nil
}

func (e *askable) Revoke(context.Context, clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	e.asked++
	return &clientv3.LeaseRevokeResponse{}, nil
}

func (e *askable) KeepAliveOnce(context.Context, clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	e.asked++
	return &clientv3.LeaseKeepAliveResponse{}, nil
}

func (e *askable) KeepAlive(context.Context, clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	e.asked++
	return nil, nil
}

func (e *askable) Defragment(context.Context, string) (*clientv3.DefragmentResponse, error) {
	e.asked++
	return &clientv3.DefragmentResponse{}, nil
}

func (e *askable) AlarmDisarm(context.Context, *clientv3.AlarmMember) (*clientv3.AlarmResponse, error) {
	e.asked++
	return &clientv3.AlarmResponse{}, nil
}

func (e *askable) Downgrade(context.Context, clientv3.DowngradeAction, string) (*clientv3.DowngradeResponse, error) {
	e.asked++
	return &clientv3.DowngradeResponse{}, nil
}

func second[T any](_ T, err error) error { return err }

// requests are all that can be asked of etcd, by the effect that each is.
func requests() map[string][]func(context.Context, host.Etcd) error {
	put, get := clientv3.OpPut("a", "1"), clientv3.OpGet("a")
	return map[string][]func(context.Context, host.Etcd) error{
		"etcd member-add": {
			func(ctx context.Context, c host.Etcd) error { return second(c.MemberAdd(ctx, nil)) },
			func(ctx context.Context, c host.Etcd) error { return second(c.MemberAddAsLearner(ctx, nil)) }},
		"etcd member-remove":  {func(ctx context.Context, c host.Etcd) error { return second(c.MemberRemove(ctx, 1)) }},
		"etcd member-promote": {func(ctx context.Context, c host.Etcd) error { return second(c.MemberPromote(ctx, 1)) }},
		"etcd member-update":  {func(ctx context.Context, c host.Etcd) error { return second(c.MemberUpdate(ctx, 1, nil)) }},
		"etcd move-leader":    {func(ctx context.Context, c host.Etcd) error { return second(c.MoveLeader(ctx, 1)) }},
		"etcd put": {
			func(ctx context.Context, c host.Etcd) error { return second(c.Put(ctx, "a", "1")) },
			func(ctx context.Context, c host.Etcd) error { return second(c.Do(ctx, put)) }},
		"etcd delete": {
			func(ctx context.Context, c host.Etcd) error { return second(c.Delete(ctx, "a")) },
			func(ctx context.Context, c host.Etcd) error { return second(c.Do(ctx, clientv3.OpDelete("a"))) }},
		"etcd txn": {
			func(ctx context.Context, c host.Etcd) error { return second(c.Txn(ctx).Then(put).Else(get).Commit()) },
			func(ctx context.Context, c host.Etcd) error {
				return second(c.Txn(ctx).If().Then(get).Else(put).Commit())
			},
			func(ctx context.Context, c host.Etcd) error {
				nested := clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpDelete("a")})
				return second(c.Txn(ctx).Then(nested).Commit())
			},
			func(ctx context.Context, c host.Etcd) error {
				return second(c.Do(ctx, clientv3.OpTxn(nil, []clientv3.Op{put}, nil)))
			}},
		"etcd compact": {func(ctx context.Context, c host.Etcd) error { return second(c.Compact(ctx, 1)) }},
		"etcd grant":   {func(ctx context.Context, c host.Etcd) error { return second(c.Grant(ctx, 1)) }},
		"etcd revoke":  {func(ctx context.Context, c host.Etcd) error { return second(c.Revoke(ctx, 1)) }},
		"etcd keep-alive": {
			func(ctx context.Context, c host.Etcd) error { return second(c.KeepAliveOnce(ctx, 1)) },
			func(ctx context.Context, c host.Etcd) error { return second(c.KeepAlive(ctx, 1)) }},
		"etcd defragment":   {func(ctx context.Context, c host.Etcd) error { return second(c.Defragment(ctx, "")) }},
		"etcd alarm-disarm": {func(ctx context.Context, c host.Etcd) error { return second(c.AlarmDisarm(ctx, nil)) }},
		"etcd downgrade":    {func(ctx context.Context, c host.Etcd) error { return second(c.Downgrade(ctx, 0, "")) }},
		"": {
			func(ctx context.Context, c host.Etcd) error { return second(c.Get(ctx, "a")) },
			func(ctx context.Context, c host.Etcd) error { return second(c.Do(ctx, get)) },
			func(ctx context.Context, c host.Etcd) error { return second(c.Txn(ctx).Then(get).Commit()) },
			func(ctx context.Context, c host.Etcd) error { return second(c.Txn(ctx).Commit()) }},
	}
}

// gated is a client behind gates with these faults.
func gated(set ...seam.Setting) (c host.Etcd, real *askable, x *injector) {
	real = &askable{}
	x = newInjector(func() (seam.Faults, error) { return seam.Faults{Set: set}, nil }, seam.Counters{}, func() {})
	x.host, x.journal = newHost(), &seam.Journal{}
	return gatedEtcd{real, x}, real, x
}

func cutAtEffect(effect, phase string, nth int) seam.Setting {
	return seam.Of(ringproof.Seams{Step: "cut", Fault: &ringproof.Fault{Kind: ringproof.FaultAgentCrash, Effect: effect, Phase: phase, Nth: nth}}, "m1")
}

func TestEveryRequestOfEtcdIsItsEffectInEachPhaseOnce(t *testing.T) {
	named := map[string]bool{}
	for effect, asks := range requests() {
		named[effect] = true
		for i, ask := range asks {
			c, real, x := gated()
			require.NoError(t, ask(t.Context(), c))
			assert.Equal(t, 1, real.asked, "%s %d", effect, i)
			if effect == "" {
				assert.Empty(t, x.journal.(*seam.Journal).Effects, "read %d is no effect", i)
				continue
			}
			assert.Equal(t, []ringproof.Effect{{Name: effect, Nth: 1, Done: 1, State: "0"}}, x.journal.(*seam.Journal).Effects, i)
			for phase, want := range map[string]error{seam.Before: errKilled, seam.After: errKilled, seam.ReplyLost: context.DeadlineExceeded, seam.Refused: rpctypes.ErrNoLeader} {
				c, real, _ := gated(cutAtEffect(effect, phase, 2))
				assert.NoError(t, ask(t.Context(), c), "%s %s: the first", effect, phase)
				assert.ErrorIs(t, ask(t.Context(), c), want, "%s %s", effect, phase)
				done := map[string]int{seam.Before: 1, seam.Refused: 1, seam.After: 2, seam.ReplyLost: 2}[phase]
				assert.Equal(t, done, real.asked, "%s %s", effect, phase)
				assert.NoError(t, ask(t.Context(), c), "%s %s fired twice", effect, phase)
			}
		}
	}
	for _, e := range faults.Effects() {
		if len(e.Form) > 5 && e.Form[:5] == "etcd " {
			assert.True(t, named[e.Form], "%s is an effect that nothing has", e.Form)
		}
	}
}

// TestALateRequestIsDoneAfterItsAskerHasGivenUp: its own deadline is over by then.
func TestALateRequestIsDoneAfterItsAskerHasGivenUp(t *testing.T) {
	for effect, asks := range requests() {
		if !faults.Delayable(effect) {
			continue
		}
		for i, ask := range asks {
			c, real, x := gated(cutAtEffect(effect, seam.Late, 1))
			var due func(context.Context)
			x.later = func(d time.Duration, do func(context.Context)) {
				assert.Equal(t, 10*time.Second, d)
				due = do
			}
			ctx, giveUp := context.WithCancel(t.Context())
			require.ErrorIs(t, ask(ctx, c), context.DeadlineExceeded, "%s %d", effect, i)
			giveUp()
			require.Zero(t, real.asked, "%s %d", effect, i)
			due(t.Context())
			assert.Equal(t, 1, real.asked, "%s %d", effect, i)
			assert.NoError(t, real.over, "%s %d: what is done late has the time of its own", effect, i)
			assert.NoError(t, ask(t.Context(), c), "%s %d fired twice", effect, i)
		}
	}
}

func TestWhatAMachineDoesIsNamedByWhatItIsDoneTo(t *testing.T) {
	for effect, do := range map[string]func(*rig) error{
		"write disk.json":      func(x *rig) error { return x.on.Disk().Write("disk.json", nil) },
		"write pki/server.key": func(x *rig) error { return x.on.Disk().Write("pki/server.key", nil) },
		"remove etcd":          func(x *rig) error { return x.on.Disk().Remove("etcd") },
		"start":                func(x *rig) error { return x.on.Process().Start(t.Context(), []string{"etcd"}) },
		"stop":                 func(x *rig) error { return x.on.Process().Stop(t.Context(), 0) },
		"create machines":      func(x *rig) error { return x.store.Create(t.Context(), "machines/m12/00000007.json", nil) },
		"create ringadm-store": func(x *rig) error { return x.store.Create(t.Context(), "ringadm-store/v2", nil) },
		"create lock-":         func(x *rig) error { return x.store.Create(t.Context(), "lock-17", nil) },
	} {
		assert.True(t, faults.IsEffect(effect), effect)
		x := newRig(t.TempDir(), "m1")
		x.injector.journal = &seam.Journal{}
		x.set(t, cutAtEffect(effect, seam.Refused, 1))
		err := do(x)
		assert.Error(t, err, effect)
		assert.Empty(t, x.disk.files, effect)
		assert.Equal(t, fakeStore{store.MarkerKey: "1"}, x.real, effect)
		assert.NoError(t, do(x), "%s fired twice", effect)
		assert.Equal(t, []ringproof.Effect{{Name: effect, Nth: 1, State: "0"}, {Name: effect, Nth: 2, Done: 1, State: "0"}}, x.injector.journal.(*seam.Journal).Effects)
	}
	x := newRig(t.TempDir(), "m1")
	x.set(t, cutAtEffect("write a", seam.Refused, 1))
	var path *fs.PathError
	assert.ErrorAs(t, x.on.Disk().Write("a", nil), &path, "a disk refuses as a disk does")
}

// What a journal numbers is what a fault counts: a cut that is set at an entry
// hits that one. The bug that this catches is a phase that counts attempts
// where another counts successes: a sweep would cut elsewhere than it says, and
// leave effects out.
func TestACutHitsTheEffectThatTheJournalNumbered(t *testing.T) {
	effects, dir := []string{"etcd put", "etcd txn", "write a"}, t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		type call struct {
			machine, effect string
			fails           bool
		}
		calls := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) call {
			return call{rapid.SampledFrom([]string{"m1", "m2"}).Draw(t, "machine"), rapid.SampledFrom(effects).Draw(t, "effect"), rapid.Bool().Draw(t, "fails")}
		}), 1, 30).Draw(t, "calls")
		play := func(journal seam.Recorder, set func(machine string) seam.Faults) (hit []int) {
			shared := seam.Counters{}
			agents := map[string]*injector{}
			for _, name := range []string{"m1", "m2"} {
				x := newInjector(func() (seam.Faults, error) { return set(name), nil }, shared, func() {})
				x.machine, x.journal, x.host = name, journal, newHost()
				_, x.probed = journal.(*seam.Pages)
				agents[name] = x
			}
			for i, c := range calls {
				before := len(agents[c.machine].host.(*fakeHost).lines)
				_ = agents[c.machine].around(t.Context(), point{effect: c.effect}, func(context.Context) error {
					if c.fails {
						return errOutage
					}
					return nil
				})
				if len(agents[c.machine].host.(*fakeHost).lines) > before {
					hit = append(hit, i)
				}
			}
			return hit
		}
		journal := &seam.Journal{}
		require.Empty(t, play(journal, func(string) seam.Faults { return seam.Faults{} }))
		require.Len(t, journal.Effects, len(calls))
		file := filepath.Join(dir, "journal")
		_ = os.Remove(file) // of the draw before
		require.Empty(t, play(&seam.Pages{File: file}, func(machine string) seam.Faults {
			return seam.Faults{Set: []seam.Setting{seam.Of(ringproof.Seams{Step: "probe", Fault: new(seam.Probe())}, machine)}}
		}))
		read, err := seam.Read(file)
		require.NoError(t, err)
		require.Equal(t, journal.Effects, read.Effects, "processes write what one process remembers")
		at := rapid.IntRange(0, len(calls)-1).Draw(t, "at")
		phase, entry := rapid.SampledFrom([]string{seam.Before, seam.After, seam.ReplyLost, seam.Refused}).Draw(t, "phase"), journal.Effects[at]
		nth := entry.Nth
		if phase == seam.After || phase == seam.ReplyLost {
			nth = entry.Done
		}
		require.Equal(t, calls[at].fails, entry.Done == 0)
		if nth == 0 {
			return // it has no reply to lose
		}
		cut := cutAtEffect(entry.Name, phase, nth)
		cut.Fault.Target = entry.Machine
		hit := play((*seam.Journal)(nil), func(machine string) seam.Faults {
			if machine != entry.Machine {
				return seam.Faults{}
			}
			return seam.Faults{Set: []seam.Setting{cut}}
		})
		require.Equal(t, []int{at}, hit)
	})
}
