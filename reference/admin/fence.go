// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"errors"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
)

// Fence is the lead that a change is made under: the change is made only while the
// lead is held. The zero Fence is nobody's, and everything is refused under it.
type Fence struct {
	holds    []clientv3.Cmp
	unfenced bool
	until    end // before then nobody else leads
}

// Led returns the fence of the lead whose nonce it is, and which lives by the lease. Unless that
// one leads, there is none. A lead that lives by another lease says nothing of when it ends: a
// process read that it leads, the reply was under way for seconds, its lease ended and another took
// the lead; by the new lease that it has got meanwhile it would lead beside that one.
func (v View) Led(nonce string, by Lease) (f Fence, leads bool) {
	if v.Lead == nil || v.Lead.Nonce != nonce || v.LeadLease != int64(by.ID) {
		return Fence{}, false
	}
	return Fence{holds: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(LeadKey), "=", v.LeadRevision)}, until: by.until}, true
}

// Succeeds returns the fence of whoever stands for the lead the longest, where nobody has its
// record: for an alarm etcd takes none, and would take none for as long as nobody makes room. Who
// is the oldest stays it for as long as its key is there, since no older one can come, and none
// but the oldest writes the record ([Ring.Campaign]). An agent from before there was a queue would,
// as soon as etcd takes it: while one is present nobody succeeds.
func (v View) Succeeds(nonce string, by Lease) (f Fence, leads bool) {
	c, stands := v.oldest(nonce)
	if v.Lead != nil || !stands || c.Lease != int64(by.ID) || !v.allStand() {
		return Fence{}, false
	}
	holds := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(LeadKey), "=", 0), c.holds()}
	return Fence{holds: holds, until: by.until}, true
}

// First reports whether the one with the nonce stands for the lead, and none for longer.
func (v View) First(nonce string) bool {
	_, is := v.oldest(nonce)
	return is
}

// oldest is the candidate with the nonce, if none stands for longer.
func (v View) oldest(nonce string) (c Candidate, is bool) {
	if len(v.Queue) == 0 || v.Queue[0].Nonce != nonce {
		return Candidate{}, false
	}
	return v.Queue[0], true
}

// allStand reports whether every machine that is present stands for the lead.
func (v View) allStand() bool {
	for name := range v.Presences { // order: one that doesn't is enough
		if !slices.ContainsFunc(v.Queue, func(c Candidate) bool { return c.Holder == name && c.Lease == v.Leases[name] }) {
			return false
		}
	}
	return true
}

// holds compares whether the candidate stands still.
func (c Candidate) holds() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(queueKey(c.Holder)), "=", c.Revision)
}

// Unfenced is for what is not the lead's to do: a person's own command, and the
// hand-over of raft leadership by the machine that stops. Either is made whoever
// leads the automation, and still in no other membership than it was decided on.
func Unfenced() Fence { return Fence{unfenced: true} }

// comparisons are what a record's transaction goes by.
func (f Fence) comparisons() ([]clientv3.Cmp, error) {
	if len(f.holds) == 0 && !f.unfenced {
		return nil, errors.New("refused: it is done under nobody's lead")
	}
	return f.holds, nil
}

var (
	errAnotherLeads = errors.New("another machine leads the automation now")
	errLedTooLong   = errors.New("refused: the lease of whoever leads was renewed too long ago, and another may lead by now")
)

// over reports whether another may lead the automation by now.
func (f Fence) over(h host.Host) bool { return !f.unfenced && f.until.passed(h) }
