// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// The automation's own keys in the ring.
const (
	Prefix         = "/ringadm/"
	LeadKey        = Prefix + "lead"
	machinesPrefix = Prefix + "machines/"
	membersPrefix  = Prefix + "members/"
)

// Binding says on which disk a member may start, and on no other.
type Binding struct {
	Machine string `json:"machine"`
	Disk    string `json:"disk"`
}

// Presence is what a machine says of itself, under a lease, while it is there.
type Presence struct {
	Machine   string   `json:"machine"`
	PeerURL   string   `json:"peerURL"`
	ClientURL string   `json:"clientURL"`
	Disk      string   `json:"disk"`
	Versions  []string `json:"versions"`
}

func (p Presence) same(o Presence) bool {
	return p.Machine == o.Machine && p.PeerURL == o.PeerURL && p.ClientURL == o.ClientURL && p.Disk == o.Disk && slices.Equal(p.Versions, o.Versions)
}

// Lead is who leads the automation, under a lease.
type Lead struct {
	Holder string `json:"holder"`
	Nonce  string `json:"nonce"`
}

// View is the membership, read with a quorum, and the automation's records, of
// that time or later: a record is never older than its member.
type View struct {
	ClusterID    uint64
	Members      []*etcdserverpb.Member
	Bindings     map[ring.ID]Binding
	Presences    map[string]Presence
	Leases       map[string]int64 // machine → lease of its presence
	Lead         *Lead
	LeadRevision int64 // create revision of the lead's key
}

// View reads the ring.
func (r *Ring) View(ctx context.Context) (View, error) {
	var list *clientv3.MemberListResponse
	var records *clientv3.GetResponse
	err := r.read(ctx, func(ctx context.Context, c host.Etcd) (err error) {
		list, records, err = listAndRecords(ctx, c)
		return err
	})
	if err != nil {
		return View{}, err
	}
	v := View{ClusterID: list.Header.ClusterId, Members: list.Members,
		Bindings: map[ring.ID]Binding{}, Presences: map[string]Presence{}, Leases: map[string]int64{}}
	for _, kv := range records.Kvs {
		if err := r.parsed.into(&v, string(kv.Key), kv.Value, kv.CreateRevision, kv.Lease); err != nil {
			return View{}, err
		}
	}
	return v, nil
}

// listAndRecords asks one member. The records need no quorum of their own:
// whoever has given a list with one has applied all that was committed before, and
// one that starts again in between serves nobody until it has applied its own
// publication, which is later still (etcd's ReadyNotify). Only of another member,
// as behind an address that several share, nothing is known.
func listAndRecords(ctx context.Context, c host.Etcd) (*clientv3.MemberListResponse, *clientv3.GetResponse, error) {
	list, err := c.MemberList(ctx)
	if err != nil {
		return nil, nil, err
	}
	records, err := c.Get(ctx, Prefix, clientv3.WithPrefix(), clientv3.WithSerializable())
	if err == nil && records.Header.MemberId != list.Header.MemberId {
		err = fmt.Errorf("member %x gave the list and %x the records: give each member's own address", list.Header.MemberId, records.Header.MemberId)
	}
	return list, records, err
}

// parsed are the records of the last view by their texts: an agent reads the same
// ones again and again.
type parsed struct {
	presences texts[Presence]
	bindings  texts[Binding]
	leads     texts[Lead]
}

// texts are values by what they were read from.
type texts[T any] map[string]T

func (t *texts[T]) read(text []byte) (value T, err error) {
	value, ok := (*t)[string(text)]
	if ok {
		return value, nil
	}
	if err = json.Unmarshal(text, &value); err != nil {
		return value, err
	}
	const some = 64 // more than a ring has, so that what is outdated goes some time
	if *t == nil || len(*t) >= some {
		*t = texts[T]{}
	}
	(*t)[string(text)] = value
	return value, nil
}

// into adds a record to the view.
func (x *parsed) into(v *View, key string, value []byte, created, lease int64) (err error) {
	if name, ok := cut(key, machinesPrefix); ok {
		v.Presences[name], err = x.presences.read(value)
		v.Leases[name] = lease
	} else if hex, ok := cut(key, membersPrefix); ok {
		id, bad := strconv.ParseUint(hex, 16, 64)
		if bad != nil {
			return fmt.Errorf("record %s: not a member ID", key)
		}
		v.Bindings[ring.ID(id)], err = x.bindings.read(value)
	} else if key == LeadKey {
		var lead Lead
		lead, err = x.leads.read(value)
		v.Lead, v.LeadRevision = &lead, created
	}
	if err != nil {
		return fmt.Errorf("record %s: %w; remove it with etcdctl if it is not ringadm's", key, err)
	}
	return nil
}

// ClientURLs returns the members' own, sorted.
func (v View) ClientURLs() []string {
	var all []string
	for _, m := range v.Members {
		all = append(all, m.ClientURLs...)
	}
	slices.Sort(all)
	return all
}

// Members returns the membership in the brain's terms, without anyone's health.
func (v View) RingMembers() []ring.Member {
	var all []ring.Member
	for _, m := range v.Members {
		b := v.Bindings[ring.ID(m.ID)]
		machine := cmp.Or(b.Machine, v.machineAt(m.PeerURLs), m.Name)
		all = append(all, ring.Member{ID: ring.ID(m.ID), Name: m.Name, Machine: machine, Disk: b.Disk,
			PeerURL: strings.Join(m.PeerURLs, ","), Learner: m.IsLearner})
	}
	slices.SortFunc(all, func(a, b ring.Member) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (v View) machineAt(urls []string) string {
	for _, name := range slices.Sorted(maps.Keys(v.Presences)) {
		if slices.Contains(urls, v.Presences[name].PeerURL) {
			return name
		}
	}
	return ""
}

// Observer turns views into what the brain decides on. It counts how long it has
// looked for a member or machine in vain: whoever begins to lead begins to count,
// since what others saw is unknown to it.
type Observer struct {
	Ring    *Ring
	silent  map[ring.ID]time.Duration
	absent  map[string]time.Duration
	looked  time.Time
	machine map[string]ring.Machine
}

// Observe asks every member how it does, and returns it all. version is the
// release that a machine must be able to run.
func (o *Observer) Observe(ctx context.Context, v View, version string) ring.Observed {
	seen := ring.Observed{Listed: true, Members: v.RingMembers()}
	passed := o.passed(o.Ring.Host.Now())
	leader := o.health(ctx, v, seen.Members)
	for i := range seen.Members {
		m := &seen.Members[i]
		m.Silent = o.missed(m.ID, m.Serving, passed)
		m.Leader = m.ID == leader
	}
	seen.Machines = o.machines(v, seen.Members, version, passed)
	return seen
}

// mostBetweenLooks is longer than two looks of a lead that is in order are apart.
const mostBetweenLooks = 5 * time.Second

// passed is how much longer than at the last look somebody has been looked for.
// A clock that jumps, or a lead that stood still for an hour, says nothing of
// the others: of two looks at a voter that was slow, ten minutes apart by such a
// clock, nobody may conclude that it was silent for ten minutes.
func (o *Observer) passed(now time.Time) time.Duration {
	before := o.looked
	o.looked = now
	return min(max(now.Sub(before), 0), mostBetweenLooks)
}

// health asks each member for its status and returns who leads, by the word of
// most of those that answered.
func (o *Observer) health(ctx context.Context, v View, members []ring.Member) ring.ID {
	applied := map[ring.ID]uint64{}
	var leader, term, head uint64
	for i := range members {
		m := &members[i]
		url := v.clientURL(m.ID)
		if url == "" {
			continue
		}
		err := o.Ring.askFor(ctx, o.patience(m.ID), url, func(ctx context.Context, c host.Etcd) error {
			is, err := c.Status(ctx, url)
			if err != nil {
				return err
			}
			m.Serving = is.Header.MemberId == uint64(m.ID) && is.Leader != 0
			applied[m.ID] = is.RaftAppliedIndex
			if m.Serving && is.RaftTerm >= term {
				leader, term = is.Leader, is.RaftTerm
			}
			head = max(head, is.RaftIndex)
			return nil
		})
		if err != nil {
			m.Serving = false
		}
	}
	for i := range members {
		// etcd promotes a learner that holds nine tenths of the leader's log.
		members[i].Ready = members[i].Serving && applied[members[i].ID]*10 >= head*9
	}
	return ring.ID(leader)
}

// patience is short with a member that was silent before: the lead's lease
// must outlive a look at a ring of nine of which four don't answer.
func (o *Observer) patience(id ring.ID) time.Duration {
	if _, silent := o.silent[id]; silent {
		return patience / 4
	}
	return patience
}

func (v View) clientURL(id ring.ID) string {
	for _, m := range v.Members {
		if m.ID == uint64(id) && len(m.ClientURLs) > 0 {
			return m.ClientURLs[0]
		}
	}
	return ""
}

// missed returns how long the member has been silent.
func (o *Observer) missed(id ring.ID, there bool, passed time.Duration) time.Duration {
	if o.silent == nil {
		o.silent = map[ring.ID]time.Duration{}
	}
	return missing(o.silent, id, there, passed)
}

func missing[K comparable](all map[K]time.Duration, key K, there bool, passed time.Duration) time.Duration {
	so, known := all[key]
	switch {
	case there:
		delete(all, key)
		return 0
	case known:
		so += passed
	}
	all[key] = so
	return so
}

// machines returns every machine that is there, was there, or that a member
// runs on, sorted by name as people count: m2 before m10.
func (o *Observer) machines(v View, members []ring.Member, version string, passed time.Duration) []ring.Machine {
	if o.machine == nil {
		o.machine, o.absent = map[string]ring.Machine{}, map[string]time.Duration{}
	}
	for _, m := range members {
		if _, known := o.machine[m.Machine]; !known && m.Machine != "" {
			o.machine[m.Machine] = ring.Machine{Name: m.Machine, PeerURL: m.PeerURL}
		}
	}
	for name, p := range v.Presences {
		o.machine[name] = ring.Machine{Name: name, PeerURL: p.PeerURL, Disk: p.Disk, Able: slices.Contains(p.Versions, version)}
	}
	var all []ring.Machine
	for name, m := range o.machine {
		_, m.Present = v.Presences[name]
		m.Absent = missing(o.absent, name, m.Present, passed)
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b ring.Machine) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return all
}

// Address returns the host name in a URL.
func Address(u string) string {
	parsed, err := url.Parse(u)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}
