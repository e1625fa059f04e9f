// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringproof/ringproof"
)

// Each of these does one thing wrong, once: what only one check can know of
// shows whether that check looks.

// nth counts to n, and is true then and only then.
func nth(n int) func() bool {
	return func() bool { n--; return n == 0 }
}

var staleRead = Mutant{
	Name:     "stale-read",
	Hazard:   "A read that asks for a quorum is answered from a member's own past.",
	Source:   "etcd#741: reads were not linearizable before a quorum confirmed them; Jepsen's first look at etcd",
	Check:    "linearizable",
	Scenario: "create[etcd=v3.6.16,size=3]",
	flaw: func() flaw {
		seen := map[string][][]ringproof.KV{} // what reads of a key have shown, the oldest first
		return flaw{answer: func(w *beneath, r question, a *ringproof.Response) {
			if r.Kind != ringproof.RequestGet || r.Serializable || r.Revision != 0 || w.told {
				return
			}
			past := seen[r.Key]
			if len(past) == 0 || !slices.Equal(past[len(past)-1], a.KVs) {
				seen[r.Key] = append(past, a.KVs)
			}
			// What is two values old was overwritten, and read as such, before this was asked.
			if len(past) > 3 {
				a.KVs = past[0]
				w.did()
			}
		}}
	},
}

var forgottenValue = Mutant{
	Name:     "forgotten-value",
	Hazard:   "A value that was acknowledged is gone when all has come to rest, and no member says so.",
	Source:   "etcd#14370, #13766: acknowledged writes missing after a crash",
	Check:    "acknowledged-writes-survive",
	Scenario: "create[etcd=v3.6.16,size=3]",
	flaw: func() flaw {
		last := ""
		return flaw{
			answer: func(_ *beneath, r question, _ *ringproof.Response) {
				if r.Kind == ringproof.RequestPut {
					last = r.Key
				}
			},
			over: func(ctx context.Context, w *beneath) {
				c, err := w.World.Client(ctx, 0)
				if err != nil {
					return
				}
				defer c.Close()
				if gone, err := c.Do(ctx, ringproof.Request{Kind: ringproof.RequestDelete, Key: last}); err == nil && gone.Deleted > 0 {
					w.did()
				}
			},
		}
	},
}

var lostEvent = Mutant{
	Name:     "lost-event",
	Hazard:   "A watch leaves an event out and goes on as if nothing had been.",
	Source:   "etcd#15220, #18089: watches that miss events",
	Check:    "watch",
	Scenario: "create[etcd=v3.6.16,size=3]",
	flaw: func() flaw {
		now := nth(20)
		return flaw{watched: func(w *beneath, e *ringproof.WatchEvent) bool {
			if e.Bookmark || !now() {
				return true
			}
			w.did()
			return false
		}}
	},
}

var forgetsItsTerm = Mutant{
	Name:     "forgets-its-term",
	Hazard:   "A member answers in an earlier term than it has answered in before.",
	Source:   "raft: a term is kept on the disk before anything is said in it",
	Check:    "revision-monotone",
	Scenario: "create[etcd=v3.6.16,size=3]",
	flaw: func() flaw {
		now := nth(100)
		return flaw{answer: func(w *beneath, _ question, a *ringproof.Response) {
			if a.Term > 1 && now() {
				a.Term--
				w.did()
			}
		}}
	},
}

var hashesOtherwise = Mutant{
	Name:     "hashes-otherwise",
	Hazard:   "One member's keyspace has another hash than the others' at the same revision.",
	Source:   "the etcd 3.5 data inconsistency postmortem",
	Check:    "hash-equal",
	Scenario: "create[etcd=v3.6.16,size=3]",
	flaw: func() flaw {
		return flaw{evidence: func(w *beneath, e *ringproof.Evidence) {
			if len(e.Hashes) > 0 && e.Hashes[0].Err == "" {
				e.Hashes[0].Hash++
				w.did()
			}
		}}
	},
}

var halfBackup = Mutant{
	Name:     "half-backup",
	Hazard:   "A backup ends early, and the stream as if it were whole.",
	Source:   "etcd#9352: snapshots that were cut off and saved as good",
	Check:    "upkeep",
	Scenario: "operators-ask",
	flaw: func() flaw {
		return flaw{answer: func(w *beneath, r question, a *ringproof.Response) {
			if r.Kind == ringproof.RequestSnapshot && a.Upkeep != nil && a.Upkeep.Whole {
				a.Upkeep.Whole = false
				w.did()
			}
		}}
	},
}

var oldBackup = Mutant{
	Name:     "old-backup",
	Hazard:   "A backup is taken of whoever answers, and lacks what was acknowledged before it was asked for.",
	Source:   "etcd's disaster recovery guide: a snapshot is of the member that is asked, which may have been cut off for long",
	Check:    "backup-whole",
	Scenario: "backup[victim=1]",
	flaw: func() flaw {
		return flaw{evidence: func(w *beneath, e *ringproof.Evidence) {
			if len(e.Backups) > 0 {
				b := &e.Backups[0]
				b.Revision /= 2
				b.Keys = slices.DeleteFunc(b.Keys, func(kv ringproof.KV) bool { return kv.ModRevision > b.Revision })
				w.did()
			}
		}}
	},
}

var leaseCutShort = Mutant{
	Name:     "lease-cut-short",
	Hazard:   "A lease ends long before the time for which its client was told that it lives.",
	Source:   "etcd#15247: leases revoked by a leader of the past; etcd#9888: lifetimes that a change of leader takes for others",
	Check:    "leases",
	Scenario: "leased-keys",
	flaw: func() flaw {
		return flaw{answer: func(w *beneath, r question, a *ringproof.Response) {
			if r.Kind == ringproof.RequestGrant || r.Kind == ringproof.RequestKeepAlive {
				a.TTL *= 10
				w.did()
			}
		}}
	},
}

var discardsNothing = Mutant{
	Name:     "discards-nothing",
	Hazard:   "A compaction is acknowledged, and what it was to discard can be read as before.",
	Source:   "etcd's API guide: a read of a revision that was compacted is refused, with ErrCompacted",
	Check:    "linearizable",
	Scenario: "leased-keys",
	flaw: func() flaw {
		return flaw{
			instead: func(r ringproof.Request) ringproof.Request {
				if r.Kind == ringproof.RequestCompact {
					return ringproof.Request{Kind: ringproof.RequestGet, Key: "/nothing"}
				}
				return r
			},
			answer: func(w *beneath, r question, a *ringproof.Response) {
				if r.Kind == ringproof.RequestCompact {
					a.KVs = nil
					w.did()
				}
			},
		}
	},
}

var anotherAnswers = Mutant{
	Name:     "another-answers",
	Hazard:   "One answer comes from another ring than all others.",
	Source:   "an address given to another machine; two rings behind one name",
	Check:    "one-cluster-identity",
	Scenario: "create[etcd=v3.6.16,size=3]",
	flaw: func() flaw {
		now := nth(100)
		return flaw{answer: func(w *beneath, _ question, a *ringproof.Response) {
			if now() {
				a.ClusterID++
				w.did()
			}
		}}
	},
}

var listsOtherwise = Mutant{
	Name:     "lists-otherwise",
	Hazard:   "One member's own list of the ring lacks a member that the others have.",
	Source:   "etcd#13196: members that come back with an old membership",
	Check:    "no-ghost-members",
	Scenario: "create[etcd=v3.6.16,size=3]",
	flaw: func() flaw {
		return flaw{evidence: func(w *beneath, e *ringproof.Evidence) {
			if all := e.Final.Members; len(all) > 0 && len(all[0].Peers) > 1 {
				all[0].Peers = all[0].Peers[1:]
				w.did()
			}
		}}
	},
}

// Only at the end: a ring that never becomes what was asked for never rests either,
// so whoever fails to converge under way is noticed by more than one.
var fallenBack = Mutant{
	Name:     "fallen-back",
	Hazard:   "A voter is a learner again when all has come to rest.",
	Source:   "etcd#19557: members whose promotion reached one of two stores, and learners again after an upgrade",
	Check:    "converges",
	Scenario: "create[etcd=v3.6.16,size=3]",
	flaw: func() flaw {
		return flaw{evidence: func(w *beneath, e *ringproof.Evidence) {
			if len(e.Final.Members) > 0 {
				e.Final.Members[0].Learner = true
				w.did()
			}
		}}
	},
}

// An answer is judged by who gives it: whoever left the ring some seconds ago has
// no quorum to ask.
var answersAfterRemoval = Mutant{
	Name:     "answers-after-removal",
	Hazard:   "A member that was removed goes on answering as if it were one.",
	Source:   "etcd#14272 and others: a removed member that still serves",
	Check:    "no-identity-reuse",
	Scenario: "replace-planned[victim=follower]",
	flaw: func() flaw {
		var mu sync.Mutex
		var left ringproof.MemberID
		var since ringproof.Instant
		return flaw{
			event: func(_ *beneath, e *ringproof.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == ringproof.EventActionDone && e.Action == "remove" && left == 0 {
					left, since = e.Member, e.At
				}
			},
			answer: func(w *beneath, _ question, a *ringproof.Response) {
				mu.Lock()
				defer mu.Unlock()
				if left != 0 && w.Now().Sub(since) > 4*time.Second {
					a.Member = left
					w.did()
				}
			},
		}
	},
}

// The scenario's own fault takes a process too, so that one end more is no end
// that nobody explains; and it comes later.
var panicsOnRequest = Mutant{
	Name:     "panics-on-request",
	Hazard:   "A member panics over a request, and comes back.",
	Source:   "etcd#14110, #14382: requests that a member doesn't survive",
	Check:    "no-panic",
	Scenario: "wrong-ring[security=plain]",
	flaw: func() flaw {
		now := nth(40)
		var victim atomic.Value // the machine whose etcd is about to end
		return flaw{
			answer: func(w *beneath, r question, _ *ringproof.Response) {
				if !now() {
					return
				}
				victim.Store(r.machine)
				end := ringproof.Step{Name: "panic", Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Target: r.machine, Scope: "process"}}
				_, _ = w.World.Do(context.Background(), end, []string{r.machine})
			},
			event: func(w *beneath, e *ringproof.Event) {
				if e.Kind == ringproof.EventProcessExited && victim.CompareAndSwap(e.Machine, "") {
					e.Text = "panic: runtime error: index out of range [0] with length 0"
					w.did()
				}
			},
		}
	},
}

var harmless = Mutant{
	Name:     "harmless",
	Hazard:   "The faults that a plan asks for are not injected, and all goes well.",
	Source:   "etcd#21033: a suite that ran nothing for two weeks was green",
	Check:    "assumptions",
	Scenario: "leader-killed",
	Undrawn:  "the check doubts and never fails",
	flaw: func() flaw {
		return flaw{done: func(ctx context.Context, w *beneath, s ringproof.Step, targets []string) (string, error) {
			if s.Fault == nil {
				return w.World.Do(ctx, s, targets)
			}
			w.did()
			return "", nil
		}}
	},
}

// What an operator is refused must not have been begun. Leadership moves at once
// and back and hits nobody, so that nothing else minds.
var beginsAndRefuses = Mutant{
	Name:     "begins-and-refuses",
	Hazard:   "A size that makes no sense is refused only after the ring was made ready for it.",
	Source:   "etcdadm and kubeadm check some arguments after their first change",
	Check:    "refusals",
	Scenario: "refused",
	Undrawn:  "explore draws nothing that must be refused",
	flaw: func() flaw {
		return flaw{done: func(ctx context.Context, w *beneath, s ringproof.Step, targets []string) (string, error) {
			if s.Op == nil || !s.Op.Refused {
				return w.World.Do(ctx, s, targets)
			}
			to := ringproof.Op{Kind: ringproof.OpMoveLeader, Target: "m1"}
			command, err := w.World.Do(ctx, ringproof.Step{Name: s.Name, Op: &to}, []string{to.Target})
			if err == nil {
				w.recorder.Record(ringproof.Event{Kind: ringproof.EventActionBegun, Machine: to.Target, Action: "move-leader", Command: command})
				w.did()
			}
			return w.World.Do(ctx, s, targets)
		}}
	},
}
