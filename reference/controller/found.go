// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// initialMembers are whom a ring begins with: the slots that are asked for, once each has
// told that no member ever ran on its disk. hold: why not yet; halt: why not at all.
func initialMembers(s Seen) (all []store.InitialMember, hold, halt string) {
	if s.bootstrapped() {
		return nil, "", fmt.Sprintf("a ring was bootstrapped on these pods, with the token %s, and its bootstrap record is gone: restore it; no other is bootstrapped", s.Set.Annotations[kube.BootstrappedAnnotation])
	}
	n := namesOf(s.Ring)
	for _, slot := range s.Slots[:s.Ring.Spec.ClusterSize] {
		e, told, err := slot.evidence()
		switch {
		case err != nil:
			return nil, "", slot.Name + ": " + err.Error()
		case !told:
			return nil, slot.Name + " has not told of its disk yet", ""
		case slot.ready(): // it has told before an etcd ran
			return nil, "", fmt.Sprintf("a member serves in %s, and there is no bootstrap record: restore the ring's records", slot.Name)
		case !e.Empty():
			return nil, "", fmt.Sprintf("a member ran on the disk %s of %s (member %q of ring %q, up to %d), and there is no bootstrap record: restore the ring's records, or delete its claims", e.Disk, slot.Name, e.Member, e.Cluster, e.Last)
		}
		all = append(all, store.InitialMember{Name: slot.Name, Machine: slot.Name, Disk: e.Disk, PeerURL: n.PeerURL(slot.Name, ring.TLS), ClientURL: n.ClientURL(slot.Name)})
	}
	return all, "", ""
}

// begins reports whether a ring is to be bootstrapped on what was seen.
func (s Seen) begins() bool {
	if s.Identity != nil || s.static() {
		return false
	}
	all, _, _ := initialMembers(s)
	return len(all) > 0
}

// found makes the ring, if it is time to. The record is created if absent, so that there
// is one ring whoever else does the same; who it names is read afterwards.
func (x *automation) found(ctx context.Context, s Seen) (o outcome) {
	all, hold, halt := initialMembers(s)
	if hold != "" || halt != "" {
		return outcome{wait: hold, halt: halt}
	}
	for _, slot := range s.Slots[:len(all)] {
		if has, to := slot.release(), x.ground.course.template; has != to { // it was asked for since, and the pod is there still
			return outcome{wait: fmt.Sprintf("%s has %s, and is to begin with %s", slot.Name, has, to)}
		}
	}
	return x.record(ctx, store.Identity{Token: "ring-" + x.host.Nonce(), Members: all, Epoch: 1})
}

// record writes the bootstrap record.
func (x *automation) record(ctx context.Context, identity store.Identity) outcome {
	_, err := store.Log[store.Identity]{Store: x.records, Prefix: kube.IdentityPrefix}.Append(ctx, 0, identity)
	if err != nil && !errors.Is(err, store.ErrExists) {
		return outcome{trouble: err}
	}
	return outcome{wait: "the ring is bootstrapped, and has not answered yet"}
}

// learn reads the records that are not known yet. A ring's are immutable: what was read
// stays true. bootstrapped: the set says that there are some.
func (x *automation) learn(ctx context.Context, bootstrapped bool) error {
	if !x.marked {
		if err := store.Init(ctx, x.records.Unmarked); err != nil {
			return err
		}
		x.marked = true
	}
	if x.identity == nil {
		identity, there, err := store.Log[store.Identity]{Store: x.records, Prefix: kube.IdentityPrefix}.First(ctx)
		if err != nil {
			return err
		}
		if there {
			x.identity = &identity
		}
	}
	if err := x.learnAuthorities(ctx, bootstrapped || x.identity != nil); err != nil {
		return err
	}
	if err := x.learnMade(ctx); err != nil {
		return err
	}
	if x.formed || x.identity == nil {
		return nil
	}
	_, there, err := store.Log[store.Formed]{Store: x.records, Prefix: kube.FormedPrefix}.First(ctx)
	x.formed = there
	return err
}

// noteFormed says in the records that the ring has answered: from then on no launcher
// starts a member as new.
func (x *automation) noteFormed(ctx context.Context, cluster uint64) error {
	if x.formed {
		return nil
	}
	record := store.Formed{ClusterID: fmt.Sprintf("%x", cluster), Epoch: x.identity.Epoch}
	_, err := store.Log[store.Formed]{Store: x.records, Prefix: kube.FormedPrefix}.Append(ctx, 0, record)
	if err == nil || errors.Is(err, store.ErrExists) {
		x.formed = true
		return nil
	}
	return err
}

// restore writes again what somebody has deleted of the records, for as long as this process knows
// it: who learns of the ring after would find none, or none that anybody can sign for. Of a ring that
// is deleted they go last, and whoever was stopped meanwhile and goes on must not leave some to the
// next ring of its name.
func (x *automation) restore(ctx context.Context, asked *v1alpha1.EtcdRing) error {
	now := x.host.Now()
	if since := now.Sub(x.restored); x.signers == nil || since >= 0 && since < certifyPace {
		return nil
	}
	if there, err := get(ctx, x.Live, &v1alpha1.EtcdRing{}, asked.Namespace, asked.Name); err != nil || there == nil || there.UID != asked.UID || there.DeletionTimestamp != nil {
		return err
	}
	if err := store.Init(ctx, x.records.Unmarked); err != nil {
		return err
	}
	var founding []store.Identity
	if x.identity != nil {
		founding = append(founding, *x.identity)
	}
	err := errors.Join(
		store.Log[store.Authority]{Store: x.records, Prefix: kube.AuthorityPrefix}.Rewrite(ctx, x.signers.records),
		store.Log[store.Identity]{Store: x.records, Prefix: kube.IdentityPrefix}.Rewrite(ctx, founding))
	if n, _, unread := x.makings().Latest(ctx); unread == nil && n < x.made.n {
		x.made.n, x.made.last = n, store.Made{} // it is noted again
	}
	if x.formed {
		err = errors.Join(err, store.Log[store.Formed]{Store: x.records, Prefix: kube.FormedPrefix}.Rewrite(ctx, []store.Formed{x.identity.Formed()}))
	}
	if err == nil {
		x.restored = now
	}
	return err
}
