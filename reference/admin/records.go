// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// LeaseTTL is how long the records of a process that is gone stay: its machine's
// presence, and the lead.
const LeaseTTL = 5 * time.Second

// Lease is what a process's records in the ring live by. The zero Lease is none yet.
type Lease struct {
	ID    clientv3.LeaseID
	until end // before then it has not ended
}

// end is a time to come, by both clocks of a machine. It has come once either says so: the
// monotonic one stands still while the machine is suspended, and the other may be set back.
type end struct {
	monotonic time.Duration
	wall      time.Time
}

// in returns the end of a time that begins now.
func in(d time.Duration, h host.Host) end { return end{h.Monotonic() + d, h.Now().Add(d)} }

func (e end) passed(h host.Host) bool { return h.Monotonic() >= e.monotonic || !h.Now().Before(e.wall) }

// Lives reports whether the lease has not ended.
func (l Lease) Lives(h host.Host) bool { return l.ID != 0 && !l.until.passed(h) }

// Keep renews the lease, or gets one.
func (l *Lease) Keep(ctx context.Context, r *Ring) error {
	until := in(LeaseTTL, r.Host)
	err := l.keep(ctx, r)
	if err == nil {
		l.until = until
	}
	return err
}

func (l *Lease) keep(ctx context.Context, r *Ring) error {
	if l.ID != 0 {
		err := r.change(ctx, func(ctx context.Context, c host.Etcd) error {
			_, err := c.KeepAliveOnce(ctx, l.ID)
			return err
		})
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return err
		}
		l.ID = 0
	}
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		lease, err := c.Grant(ctx, int64(LeaseTTL/time.Second))
		if err == nil {
			l.ID = lease.ID
		}
		return err
	})
}

// End ends the lease, and the records that live by it. A failure costs others the
// rest of its time.
func (l *Lease) End(ctx context.Context, r *Ring) {
	if l.ID != 0 {
		_ = r.change(ctx, func(ctx context.Context, c host.Etcd) error {
			_, err := c.Revoke(ctx, l.ID)
			return err
		})
	}
}

// Namesake returns who has the machine's name under another lease, and isn't an
// earlier life of the same: one disk at one address is one machine. Another may
// have been it too, with the disk that it had then or at the address that it had;
// then its lease ends soon. A machine that is at home has no namesake to mind: a
// clone that was heard of while it was off doesn't keep its member from starting.
func (v View) Namesake(p Presence, lease clientv3.LeaseID) (Presence, bool) {
	shown, there := v.Presences[p.Machine]
	same := shown.Disk == p.Disk && ring.SameAddress(shown.PeerURL, p.PeerURL)
	return shown, there && !same && v.Leases[p.Machine] != int64(lease) && !v.home(p)
}

// home reports whether a member lives on the machine's disk, and is listed at its
// address: no clone has both.
func (v View) home(p Presence) bool {
	return slices.ContainsFunc(v.Members, func(m *etcdserverpb.Member) bool {
		b := v.Bindings[ring.ID(m.ID)]
		return b.Machine == p.Machine && b.Disk == p.Disk && ring.SameAddress(strings.Join(m.PeerURLs, ","), p.PeerURL)
	})
}

// Present writes the presence under the lease, unless view shows it there, or
// what view shows has changed: of two that have one name each writes over nobody
// whom the view didn't show.
func (r *Ring) Present(ctx context.Context, p Presence, view View, lease clientv3.LeaseID) error {
	if shown, ok := view.Presences[p.Machine]; ok && shown.same(p) && view.Leases[p.Machine] == int64(lease) {
		return nil
	}
	key := machinesPrefix + p.Machine
	seen := clientv3.Compare(clientv3.ModRevision(key), "=", view.Revisions[key])
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		_, err := c.Txn(ctx).If(seen).Then(clientv3.OpPut(key, string(text), clientv3.WithLease(lease))).Commit()
		return err // the next view shows who was first
	})
}

// Campaign creates the lead's record, if there is none. Who stands in the queue does so as the
// oldest there, and while it is: who succeeds without the record relies on it.
func (r *Ring) Campaign(ctx context.Context, lead Lead, view View, lease clientv3.LeaseID) error {
	var holds []clientv3.Cmp
	if c, stands := view.oldest(lead.Nonce); stands {
		holds = []clientv3.Cmp{c.holds()}
	}
	return r.claim(ctx, LeadKey, lead, view, lease, holds...)
}

// Stand puts the process into the queue for the lead, unless view shows it or an earlier life of it
// there: that one's lease ends soon. It costs one write; from then on the lease is kept alive, no more.
func (r *Ring) Stand(ctx context.Context, lead Lead, view View, lease clientv3.LeaseID) error {
	if slices.ContainsFunc(view.Queue, func(c Candidate) bool { return c.Holder == lead.Holder }) {
		return nil
	}
	return r.claim(ctx, queueKey(lead.Holder), lead, view, lease)
}

func queueKey(holder string) string { return queuePrefix + holder }

// claim creates a record of who leads, or would, if there is none. Nonsense in its place is
// deleted and not written over: the fence of whoever led before it compares when the
// key was created.
func (r *Ring) claim(ctx context.Context, key string, lead Lead, view View, lease clientv3.LeaseID, holds ...clientv3.Cmp) error {
	if seen := view.Revisions[key]; seen != 0 {
		same := clientv3.Compare(clientv3.ModRevision(key), "=", seen)
		return r.write(ctx, []clientv3.Cmp{same}, clientv3.OpDelete(key))
	}
	text, err := json.Marshal(lead)
	if err != nil {
		return err
	}
	absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	return r.write(ctx, append(holds, absent), clientv3.OpPut(key, string(text), clientv3.WithLease(lease)))
}

// noteLeaving notes that a member is let go, before it is removed. A ring that takes no note,
// for an alarm, goes without: the removal needs none, and may be what ends the alarm. noted is
// the revision of the note; 0: there is none.
func (r *Ring) noteLeaving(ctx context.Context, a ring.Action, holds []clientv3.Cmp) (noted int64, err error) {
	text, err := json.Marshal(Leaving{Machine: a.Machine, Why: a.Why})
	if err != nil {
		return 0, err
	}
	err = r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		done, err := c.Txn(ctx).If(holds...).Then(clientv3.OpPut(leavingKey(a.Member), string(text))).Commit()
		switch {
		case err != nil:
		case !done.Succeeded:
			err = errAnotherLeads
		default:
			noted = done.Header.GetRevision()
		}
		return err
	})
	if errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, rpctypes.ErrCorrupt) {
		return 0, nil
	}
	return noted, err
}

// takeBack deletes the note of a removal that was refused, unless it was noted before, too:
// of an earlier removal nobody may know yet what became of it.
func (r *Ring) takeBack(ctx context.Context, id ring.ID, noted int64, holds []clientv3.Cmp) error {
	if noted == 0 {
		return nil
	}
	key := leavingKey(id)
	first := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", noted), clientv3.Compare(clientv3.ModRevision(key), "=", noted)}
	return r.write(ctx, append(first, holds...), clientv3.OpDelete(key))
}

// Stayed deletes the notes of members that were let go and are in the ring still, unless they
// are others than view shows. Left there, they would be obeyed by a ring of one that is made
// long after, and lists as few.
func (r *Ring) Stayed(ctx context.Context, members []ring.ID, view View, f Fence) error {
	holds, err := f.comparisons()
	if err != nil {
		return err
	}
	same, notes := slices.Clone(holds), []clientv3.Op{}
	for _, id := range members {
		same = append(same, clientv3.Compare(clientv3.ModRevision(leavingKey(id)), "=", view.Noted(id)))
		notes = append(notes, clientv3.OpDelete(leavingKey(id)))
	}
	return r.write(ctx, same, notes...)
}

// NoteLeft notes of members that somebody else has removed that they have left. Noted one
// after the other, any number may be: unnoted, the second of three would be one of two
// that are missing, as in a ring of one.
func (r *Ring) NoteLeft(ctx context.Context, view View, f Fence) error {
	holds, err := f.comparisons()
	if err != nil {
		return err
	}
	var notes []clientv3.Op
	for _, id := range view.Missing() {
		text, err := json.Marshal(Leaving{Machine: view.Bindings[id].Machine, Why: "it is not listed any more, and the automation didn't remove it"})
		if err != nil {
			return err
		}
		notes = append(notes, clientv3.OpPut(leavingKey(id), string(text)))
	}
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		_, err := c.Txn(ctx).If(holds...).Then(notes...).Commit()
		return err
	})
}

// SayLeft notes that a member has left, by the word of its own log. Whoever leads has the list
// to go by, and a ring of one gives that too: of m1 and m2 somebody removes m2 while m3 is
// let go, and m1 alone is listed. The log of one that a ring of one only forgot says nothing of it.
func (r *Ring) SayLeft(ctx context.Context, id ring.ID, view View) error {
	key, b := memberKey(id), view.Bindings[id]
	if _, leaving := view.Leaving[id]; leaving || b.Machine == "" {
		return nil
	}
	text, err := json.Marshal(Leaving{Machine: b.Machine, Why: "its own log says that it was removed"})
	if err != nil {
		return err
	}
	same := clientv3.Compare(clientv3.ModRevision(key), "=", view.Revisions[key])
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		_, err := c.Txn(ctx).If(same).Then(clientv3.OpPut(leavingKey(id), string(text))).Commit()
		return err
	})
}

// Rebind writes the record of a member anew, unless it is another than view shows.
func (r *Ring) Rebind(ctx context.Context, id ring.ID, b Binding, view View) error {
	key := memberKey(id)
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	same := clientv3.Compare(clientv3.ModRevision(key), "=", view.Revisions[key])
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		_, err := c.Txn(ctx).If(same).Then(clientv3.OpPut(key, string(text))).Commit()
		return err
	})
}

// Forget deletes the records of members that have left. Their IDs never come back.
func (r *Ring) Forget(ctx context.Context, members []ring.ID, f Fence) error {
	holds, err := f.comparisons()
	if err != nil {
		return err
	}
	return r.write(ctx, holds, forgotten(members...)...)
}

func forgotten(members ...ring.ID) (gone []clientv3.Op) {
	for _, id := range members {
		gone = append(gone, clientv3.OpDelete(memberKey(id)), clientv3.OpDelete(leavingKey(id)))
	}
	return gone
}

// Dismiss deletes the records of a member that isn't listed in the view that was read last, by
// a person's word that it has left. If that makes the ring which gave it the ring, accepted is
// up to where its log is then. It is recorded, as the log says for long that somebody made it
// that of a ring of one: by that alone the only log of the ring never started again.
func (r *Ring) Dismiss(ctx context.Context, id ring.ID, view View) (accepted uint64, err error) {
	gone := forgotten(id)
	if view.accepts(id) && len(r.endpoints) > 0 {
		if accepted, _, err = r.Applied(ctx, r.endpoints[0], view.Answered); err != nil {
			return 0, fmt.Errorf("how far the log of the ring goes is not known: %w", err)
		}
		text, err := json.Marshal(Accepted{Log: accepted})
		if err != nil {
			return 0, err
		}
		gone = append(gone, clientv3.OpPut(acceptedKey, string(text)))
	}
	return accepted, r.write(ctx, nil, gone...)
}

// write makes some changes of records in one transaction.
func (r *Ring) write(ctx context.Context, holds []clientv3.Cmp, ops ...clientv3.Op) error {
	return r.change(ctx, func(ctx context.Context, c host.Etcd) error {
		_, err := c.Txn(ctx).If(holds...).Then(ops...).Commit()
		return err
	})
}
