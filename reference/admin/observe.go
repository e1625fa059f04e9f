// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
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
	leavingPrefix  = Prefix + "leaving/"
	acceptedKey    = Prefix + "accepted"
	queuePrefix    = Prefix + "queue/"
)

// Binding says on which disk a member may start, and on no other.
type Binding struct {
	Machine string `json:"machine"`
	Disk    string `json:"disk"`
	// Learner: the member was a learner when this was written. Its machine takes that back.
	Learner bool `json:"learner,omitempty"`
	// Log is a raft index up to which the member's log was on that disk, by the word of
	// its machine. One that ends before it is older, and may have forgotten what it
	// acknowledged. 0: nobody has said.
	Log uint64 `json:"log,omitempty"`
	// Release is the release of etcd that the member is to run, since an upgrade came to
	// it or it was added in one. "": nobody has said, and its disk knows.
	Release ring.Version `json:"release,omitempty"`
	// Peers is how the member is to listen for its peers, since a ring that moves them to
	// TLS came to it, or it was added meanwhile. "": nobody has said, and its disk knows.
	Peers ring.Security `json:"peers,omitempty"`
}

// Leaving says that the automation lets a member go, or a person by a command of its.
// It is written before the removal, so that a member which isn't listed any more is known
// to have left, and is not taken for one that a ring of one has never heard of.
type Leaving struct {
	Machine string `json:"machine"`
	Why     string `json:"why,omitempty"`
}

// Accepted says that a ring which was begun anew from one member (--force-new-cluster) is the
// ring by a person's word: of each of the others somebody has said that it has left. Log is
// the raft index up to which that is so: who is forced once more has no word for it.
type Accepted struct {
	Log uint64 `json:"log"`
}

// Presence is what a machine says of itself, under a lease, while it is there.
type Presence struct {
	Machine   string         `json:"machine"`
	PeerURL   string         `json:"peerURL"`
	ClientURL string         `json:"clientURL"`
	Disk      string         `json:"disk"`
	Versions  []ring.Version `json:"versions"`
	Failing   string         `json:"failing,omitempty"` // why no etcd starts there, in its own words
	// Peers is how the etcd that runs there listens for peers, by the flags that it was
	// started with. "": none runs.
	Peers ring.Security `json:"peers,omitempty"`
	// Unsteady: its last start of etcd came to nothing, or the one before, and none has
	// run for long since.
	Unsteady bool `json:"unsteady,omitempty"`
	// Used: an etcd has run on the disk.
	Used bool `json:"used,omitempty"`
	// Spoiled is the member whose log on the disk may never run again, by its ID.
	Spoiled string `json:"spoiled,omitempty"`
	// Log is whose log the disk holds, a member's ID or NoLog, told only while the
	// record of a member that has run is missing.
	Log string `json:"log,omitempty"`
	// V2 is the raft index of the last request of etcd's v2 API in the member's log, in
	// decimal, or NoV2, told once the ring is of v3.6.
	V2 string `json:"v2,omitempty"`
	// Trusts is whom the etcd there was started to trust, clients and peers, and Shows who
	// signed what it shows to both, told where somebody else issues its certificates.
	Trusts string `json:"trusts,omitempty"`
	Shows  string `json:"shows,omitempty"`
}

// NoV2 says that a log has no request of the v2 API in it since its last snapshot.
const NoV2 = "none"

// NoLog says that a disk holds no log of a member of this ring.
const NoLog = "none"

func (p Presence) same(o Presence) bool {
	return p.Machine == o.Machine && p.PeerURL == o.PeerURL && p.ClientURL == o.ClientURL && p.Peers == o.Peers &&
		p.Disk == o.Disk && p.Used == o.Used && p.Spoiled == o.Spoiled && p.Log == o.Log && p.V2 == o.V2 && p.Trusts == o.Trusts && p.Shows == o.Shows &&
		p.Failing == o.Failing && p.Unsteady == o.Unsteady && slices.Equal(p.Versions, o.Versions)
}

// Lead is who leads the automation, under a lease.
type Lead struct {
	Holder string `json:"holder"`
	Nonce  string `json:"nonce"`
}

// Candidate is who stands for the lead, under a lease.
type Candidate struct {
	Lead
	Revision int64 // create revision of its key
	Lease    int64
}

// View is the membership, read with a quorum, and the automation's records, of
// that time or later: a record is never older than its member.
type View struct {
	ClusterID    uint64
	Answered     ring.ID // the member that gave it
	Accepted     uint64  // as [Accepted] says; 0: nobody has said so
	Members      []*etcdserverpb.Member
	Bindings     map[ring.ID]Binding
	Leaving      map[ring.ID]Leaving
	Presences    map[string]Presence
	Leases       map[string]int64 // machine → lease of its presence
	Lead         *Lead
	LeadRevision int64       // create revision of the lead's key
	LeadLease    int64       // that ends it
	Queue        []Candidate // who stands for the lead, the oldest first

	Revisions  map[string]int64 // key of the automation's → when it was written last
	Unreadable []string         // what is wrong with the records that were passed over

	// Registered are the peer URLs at which the ring's machines are or were, by name, as
	// whoever bootstrapped it has them. The ring can't say; they are needed while its records
	// are missing.
	Registered map[string][]string
}

// View reads the ring.
func (r *Ring) View(ctx context.Context) (View, error) {
	var list *clientv3.MemberListResponse
	var records *clientv3.GetResponse
	err := r.read(ctx, func(ctx context.Context, c host.Etcd) (err error) {
		if list, records, err = listAndRecords(ctx, c); err == nil {
			err = r.ours(list.Header.GetClusterId())
		}
		return err
	})
	if err != nil {
		return View{}, err
	}
	v := View{ClusterID: list.Header.ClusterId, Answered: ring.ID(list.Header.MemberId), Members: list.Members,
		Bindings: map[ring.ID]Binding{}, Leaving: map[ring.ID]Leaving{}, Presences: map[string]Presence{}, Leases: map[string]int64{}, Revisions: map[string]int64{}}
	for _, kv := range records.Kvs {
		v.Revisions[string(kv.Key)] = kv.ModRevision
		if err := r.parsed.into(&v, string(kv.Key), kv.Value, kv.CreateRevision, kv.Lease); err != nil {
			v.Unreadable = append(v.Unreadable, err.Error())
		}
	}
	slices.SortFunc(v.Queue, func(a, b Candidate) int { return cmp.Compare(a.Revision, b.Revision) })
	return v, nil
}

// Unrecorded reports whether a member that has run is bound to no disk: its record
// is gone, or somebody else added it.
func (v View) Unrecorded() bool {
	return slices.ContainsFunc(v.Members, func(m *etcdserverpb.Member) bool {
		_, bound := v.Bindings[ring.ID(m.ID)]
		return !bound && (m.Name != "" || !m.IsLearner)
	})
}

// Outlived lists the members that are in the ring no more, and still on record.
func (v View) Outlived() []ring.ID {
	left := map[ring.ID]bool{}
	for id := range v.Bindings { // order: into a map
		left[id] = true
	}
	for id := range v.Leaving { // order: into a map
		left[id] = true
	}
	for _, m := range v.Members {
		delete(left, ring.ID(m.ID))
	}
	return slices.Sorted(maps.Keys(left))
}

// Stays lists the members that are on record to have been let go, and are in the ring.
func (v View) Stays() (all []ring.ID) {
	for _, m := range v.Members {
		if _, leaving := v.Leaving[ring.ID(m.ID)]; leaving {
			all = append(all, ring.ID(m.ID))
		}
	}
	return all
}

// Noted is when the note was written that lets a member go, as a revision; 0: there is none.
func (v View) Noted(id ring.ID) int64 { return v.Revisions[leavingKey(id)] }

// Missing lists the voters that are bound to a disk and not in the ring, though nobody is
// on record to have let them go.
func (v View) Missing() []ring.ID {
	return slices.DeleteFunc(v.Outlived(), func(id ring.ID) bool {
		_, leaving := v.Leaving[id]
		return leaving || !v.votes(id)
	})
}

// votes reports whether the member is on record as a voter.
func (v View) votes(id ring.ID) bool {
	b, bound := v.Bindings[id]
	return bound && !b.Learner
}

// LetGo reports whether a member that isn't listed has left for certain: somebody is on
// record to have let it go, or a majority of those on record are listed without it. No
// ring of one has that: m3 is restarted with --force-new-cluster while m1 and m2 go on,
// and is alone in a list that it gives with a quorum, its own. Whoever obeyed it would
// clear the logs of all that the two have acknowledged since.
func (v View) LetGo(id ring.ID) bool {
	_, leaving := v.Leaving[id]
	return leaving || v.Whole()
}

// Whole reports whether the list names enough of the members on record.
func (v View) Whole() bool { return ring.Whole(v.Recorded(), v.Missing()) }

// accepts reports whether the word that a member has left makes a ring of this list: it names
// enough of the members on record then, and does not before.
func (v View) accepts(id ring.ID) bool {
	missing := v.Missing()
	left := slices.DeleteFunc(slices.Clone(missing), func(other ring.ID) bool { return other == id })
	return !ring.Whole(v.Recorded(), missing) && ring.Whole(v.Recorded(), left)
}

// Recorded counts the voters on record that are listed.
func (v View) Recorded() (n int) {
	for _, m := range v.Members {
		if v.votes(ring.ID(m.ID)) {
			n++
		}
	}
	return n
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
	leaving   texts[Leaving]
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

// into adds a record to the view, unless it is none: the automation's keys lie
// among the users', and what one of those wrote there is as if it weren't.
func (x *parsed) into(v *View, key string, value []byte, created, lease int64) error {
	var err error
	if name, ok := cut(key, machinesPrefix); ok {
		var p Presence
		if p, err = x.presences.read(value); err == nil && lease == 0 {
			err = errEndless
		}
		if err == nil {
			v.Presences[name], v.Leases[name] = p, lease
		}
	} else if hex, ok := cut(key, membersPrefix); ok {
		var b Binding
		id, bad := strconv.ParseUint(hex, 16, 64)
		if b, err = x.bindings.read(value); bad != nil {
			err = errors.New("not a member ID")
		}
		if err == nil {
			v.Bindings[ring.ID(id)] = b
		}
	} else if hex, ok := cut(key, leavingPrefix); ok {
		var l Leaving
		id, bad := strconv.ParseUint(hex, 16, 64)
		if l, err = x.leaving.read(value); bad != nil {
			err = errors.New("not a member ID")
		}
		if err == nil {
			v.Leaving[ring.ID(id)] = l
		}
	} else if key == acceptedKey {
		var a Accepted
		err = json.Unmarshal(value, &a)
		v.Accepted = a.Log
	} else if holder, ok := cut(key, queuePrefix); ok {
		c := Candidate{Revision: created, Lease: lease}
		if c.Lead, err = x.leads.read(value); err == nil && lease == 0 {
			err = errEndless
		}
		if err == nil && c.Holder != holder {
			err = errors.New("it names another")
		}
		if err == nil {
			v.Queue = append(v.Queue, c)
		}
	} else if key == LeadKey {
		var lead Lead
		if lead, err = x.leads.read(value); err == nil && lease == 0 {
			err = errEndless
		}
		if err == nil {
			v.Lead, v.LeadRevision, v.LeadLease = &lead, created, lease
		}
	}
	if err != nil {
		return fmt.Errorf("record %s is not ringadm's and is passed over: %w", key, err)
	}
	return nil
}

// errEndless: who wrote it is not whose machine it is about.
var errEndless = errors.New("no lease ends it")

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
		machine := b.Machine
		if machine == "" {
			machine = cmp.Or(v.machineAt(m.PeerURLs), m.Name)
		}
		all = append(all, ring.Member{ID: ring.ID(m.ID), Name: m.Name, Machine: machine, Disk: b.Disk,
			Log: b.Log, Release: b.Release, Listen: b.Peers,
			PeerURL: strings.Join(m.PeerURLs, ","), Learner: m.IsLearner})
	}
	slices.SortFunc(all, func(a, b ring.Member) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (v View) machineAt(urls []string) string {
	for _, name := range slices.Sorted(maps.Keys(v.Presences)) {
		if ring.SameAddress(strings.Join(urls, ","), v.Presences[name].PeerURL) {
			return name
		}
	}
	return ""
}

// Observer turns views into what the brain decides on. It counts how long it has
// looked for a member or machine in vain: whoever begins to lead begins to count,
// since what others saw is unknown to it.
type Observer struct {
	silent  map[ring.ID]time.Duration
	absent  map[string]time.Duration
	looked  time.Duration // by the lead's monotonic clock
	machine map[string]ring.Machine
	release map[ring.ID]ring.Version  // that each member said last that it runs
	peers   map[ring.ID]ring.Security // as each listened for them when it served last
}

// Observe asks every member how it does, and returns it all.
func (o *Observer) Observe(ctx context.Context, r *Ring, v View) ring.Observed {
	seen := ring.Observed{Listed: true, Members: v.RingMembers(), Recorded: v.Recorded(), Missing: v.Missing()}
	passed := o.passed(r.Host.Monotonic())
	leader, alarms, bytes := o.health(ctx, r, v, seen.Members)
	seen.Bytes = bytes
	for _, id := range slices.Sorted(maps.Keys(alarms)) {
		seen.Alarms = append(seen.Alarms, ring.Alarm{Kind: alarms[id], Member: id})
	}
	for i := range seen.Members {
		m := &seen.Members[i]
		m.Silent = o.missed(m.ID, m.Serving, passed)
		m.Peers = o.listens(*m, v)
		m.Leader = m.ID == leader
	}
	seen.Machines = o.machines(v, seen.Members, passed)
	return seen
}

// mostBetweenObservations is longer than two observations of a lead that is in order are apart.
const mostBetweenObservations = 5 * time.Second

// passed is how much longer than at the last look somebody has been looked for.
// A lead that stood still for an hour knows nothing of the others: of two looks at
// a voter that was slow, an hour apart, nobody may conclude that it was silent for one.
func (o *Observer) passed(now time.Duration) time.Duration {
	before := o.looked
	o.looked = now
	return min(now-before, mostBetweenObservations)
}

// health asks each member for its status and returns who leads, by the word of
// most of those that answered, the alarms that stand, by member, and how large the largest
// keyspace file is.
func (o *Observer) health(ctx context.Context, r *Ring, v View, members []ring.Member) (_ ring.ID, alarms map[ring.ID]string, bytes int64) {
	applied, alarms := map[ring.ID]uint64{}, map[ring.ID]string{}
	var leader, term, head uint64
	for i := range members {
		m := &members[i]
		url := v.clientURL(m.ID)
		if url == "" {
			continue
		}
		err := r.askFor(ctx, o.patience(m.ID), url, func(ctx context.Context, c host.Etcd) error {
			is, err := c.Status(ctx, url)
			if err != nil {
				return err
			}
			m.Serving = is.Header.MemberId == uint64(m.ID) && is.Leader != 0
			applied[m.ID] = is.RaftAppliedIndex
			o.hear(m.ID, release(is.Version))
			m.Schema = release(is.StorageVersion).Minor()
			if m.Serving && is.RaftTerm >= term {
				leader, term = is.Leader, is.RaftTerm
			}
			head, bytes = max(head, is.RaftIndex), max(bytes, is.DbSize)
			readAlarms(alarms, is.Errors)
			return nil
		})
		if err != nil {
			m.Serving = false
		}
	}
	for i := range members {
		members[i].Version = o.release[members[i].ID]
		members[i].Applied = applied[members[i].ID]
		members[i].Lag = head - min(head, members[i].Applied)
		// A member that holds other data answers as if nothing were.
		members[i].Serving = members[i].Serving && alarms[members[i].ID] != ring.Corrupt
		// etcd promotes a learner that holds nine tenths of the leader's log.
		members[i].Ready = members[i].Serving && members[i].Applied*10 >= head*9
	}
	return ring.ID(leader), alarms, bytes
}

// listens is how the member's etcd listened for its peers when it last served: whoever
// answers listens there too. The view is older than the answer, and so is what it says of
// an etcd that was started since; a restart that isn't seen yet is seen later.
func (o *Observer) listens(m ring.Member, v View) ring.Security {
	p, there := v.Presences[m.Machine]
	if m.Serving && there && p.Disk == m.Disk && p.Peers != "" {
		if o.peers == nil {
			o.peers = map[ring.ID]ring.Security{}
		}
		o.peers[m.ID] = p.Peers
	}
	return o.peers[m.ID]
}

// hear notes which release a member runs by its own word.
func (o *Observer) hear(id ring.ID, v ring.Version) {
	if o.release == nil {
		o.release = map[ring.ID]ring.Version{}
	}
	o.release[id] = v
}

// release is what a status says of it, which has no v before it.
func release(text string) ring.Version {
	v, _ := ring.ParseVersion("v" + text)
	return v
}

// alarm is how a status tells of one; protobuf varies the spaces, and leaves out a member
// that is 0. So is that of data of which etcd can't say who has the wrong ones: any in v3.5
// (PeriodicCheck and CompactHashCheck in etcdserver/corrupt.go), and in v3.6 where no
// majority agrees.
var alarm = regexp.MustCompile(`(?:memberID:\s*(\d+)\s+)?\balarm:\s*(\w+)`)

// readAlarms takes from a member's status what alarms the ring has. CORRUPT is the
// graver one.
func readAlarms(alarms map[ring.ID]string, texts []string) {
	for _, text := range texts {
		found := alarm.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		id, err := strconv.ParseUint(cmp.Or(found[1], "0"), 10, 64)
		if err == nil && alarms[ring.ID(id)] != ring.Corrupt {
			alarms[ring.ID(id)] = found[2]
		}
	}
}

// Applied is the raft index up to which the member at a URL has applied its log, and the
// minor that its files are of, "v3.6"; "v0.0" before v3.6.
func (r *Ring) Applied(ctx context.Context, url string, id ring.ID) (index uint64, schema string, err error) {
	err = r.ask(ctx, url, func(ctx context.Context, c host.Etcd) error {
		is, err := c.Status(ctx, url)
		if err == nil && is.Header.MemberId != uint64(id) {
			err = fmt.Errorf("member %x answers at %s", is.Header.MemberId, url)
		}
		if err == nil {
			index, schema = is.RaftAppliedIndex, release(is.StorageVersion).Minor()
		}
		return err
	})
	return index, schema, err
}

// Settled asks the member at a URL for what it answers only once all that it had applied
// before is on its disk. A follower applies what others have committed while its own disk
// still writes it, and takes nothing more from raft before that is done; and a linearizable
// read is answered by what it takes from raft after it was asked.
func (r *Ring) Settled(ctx context.Context, url string) error {
	return r.ask(ctx, url, func(ctx context.Context, c host.Etcd) error {
		_, err := c.Get(ctx, LeadKey, clientv3.WithCountOnly())
		return err
	})
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
func (o *Observer) machines(v View, members []ring.Member, passed time.Duration) []ring.Machine {
	if o.machine == nil {
		o.machine, o.absent = map[string]ring.Machine{}, map[string]time.Duration{}
	}
	for _, m := range members {
		if _, known := o.machine[m.Machine]; !known && m.Machine != "" {
			o.machine[m.Machine] = ring.Machine{Name: m.Machine, PeerURL: m.PeerURL}
		}
	}
	for name, p := range v.Presences {
		o.machine[name] = p.machine(name)
	}
	var all []ring.Machine
	for name, m := range o.machine {
		_, m.Present = v.Presences[name]
		m.Registered = slices.ContainsFunc(v.Registered[name], func(url string) bool { return ring.SameAddress(m.PeerURL, url) })
		another := slices.ContainsFunc(members, func(on ring.Member) bool { return on.Machine == name && on.DisplacedBy(m) })
		m.Absent = missing(o.absent, name, m.Present && !another, passed)
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b ring.Machine) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return all
}

// machine is what a presence says.
func (p Presence) machine(name string) ring.Machine {
	m := ring.Machine{Name: name, PeerURL: p.PeerURL, Disk: p.Disk, Failing: p.Failing, Unsteady: p.Unsteady, Used: p.Used, Versions: p.Versions}
	if spoiled, err := strconv.ParseUint(p.Spoiled, 16, 64); err == nil {
		m.Spoiled = ring.ID(spoiled)
	}
	id, err := strconv.ParseUint(p.Log, 16, 64)
	if m.Told = err == nil || p.Log == NoLog; err == nil {
		m.Holds = ring.ID(id)
	}
	v2, err := strconv.ParseUint(p.V2, 10, 64)
	m.ToldV2, m.V2 = err == nil || p.V2 == NoV2, v2
	return m
}
