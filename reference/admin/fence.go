// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"errors"

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
// one leads, there is none.
func (v View) Led(nonce string, by Lease) (f Fence, leads bool) {
	if v.Lead == nil || v.Lead.Nonce != nonce {
		return Fence{}, false
	}
	return Fence{holds: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(LeadKey), "=", v.LeadRevision)}, until: by.until}, true
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
