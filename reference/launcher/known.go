// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/store"
)

// Source is where a machine learns of its ring while the ring doesn't answer.
type Source interface {
	// Learn adds to what is known, and tells whoever else asks there of this machine.
	// What can't be read stays as it was, and the error says why.
	Learn(ctx context.Context, self store.Machine, known *Known) error
	// Heard lists the addresses of machines where a member might answer.
	Heard() []string
}

// Known is what a machine knows of its ring. A field with its Known false has not
// been answered: neither yes nor no. What is learned once stays true: specs only grow
// in number, a ring is bootstrapped once and for all. The disk remembers it, so that a
// launcher that starts while its source is out of reach can still run its member.
type Known struct {
	SpecNumber int             `json:"specNumber"` // 0: none is known
	Spec       store.Spec      `json:"spec"`
	Identity   *store.Identity `json:"identity,omitempty"` // nil with IdentityKnown: positively none
	Formed     bool            `json:"formed,omitempty"`
	Answered   bool            `json:"answered,omitempty"` // a list of the ring was read with a quorum, whatever the source could note of it
	Members    []string        `json:"members,omitempty"`  // client URLs of the members last listed

	IdentityKnown bool   `json:"-"`
	FormedKnown   bool   `json:"-"`
	Trouble       string `json:"-"` // why the source was not understood, last
}

// Specified reports whether a spec is known.
func (k Known) Specified() bool { return k.SpecNumber > 0 }

// same reports whether two say the same. A spec is known by its number, and of
// identities a ring has one.
func (k Known) same(o Known) bool {
	return k.SpecNumber == o.SpecNumber && (k.Identity == nil) == (o.Identity == nil) && k.Formed == o.Formed && k.Answered == o.Answered && slices.Equal(k.Members, o.Members)
}

const (
	knownFile  = "known.json"
	sourcePace = time.Second // between two questions to the source, once there is a ring
)

// untold is how long a source may be away before that is said: it may be restarted.
const untold = 10 * time.Second

// memory is when the source was asked last, and what the disk was told last.
type memory struct {
	asked   time.Time
	written Known
	away    absence
}

// absence is that of a source which can't be read.
type absence struct {
	is    bool
	since time.Duration // by the monotonic clock
	told  bool
}

// lasts notes that the source is away still, and reports whether that is to be said now.
func (a *absence) lasts(now time.Duration) bool {
	if !a.is {
		*a = absence{is: true, since: now}
	}
	news := !a.told && now-a.since >= untold
	a.told = a.told || news
	return news
}

// learn asks the source when it is time to, and keeps what was known where it
// doesn't answer. It is time before an etcd is started: somebody changes its flags,
// and ends it at once so that it has them; started by what was known for a second, it
// would be without them until it ends again.
func (l *Launcher) learn(ctx context.Context, starts bool) {
	if l.memory.asked.IsZero() {
		l.recall()
	}
	now := l.host.Now()
	// A clock that went back would make the last answer one of the future, and
	// the next wait until it has come.
	if since := now.Sub(l.memory.asked); !starts && l.Known.Formed && since >= 0 && since < sourcePace {
		return
	}
	l.memory.asked = now
	asking, cancel := l.host.Timeout(ctx, 2*time.Second)
	defer cancel()
	before := l.Known.SpecNumber
	err := l.Source.Learn(asking, l.Self(), &l.Known)
	if l.Known.SpecNumber != before {
		l.rest = time.Time{}
	}
	if err != nil {
		l.Known.Trouble = err.Error()
		// Once: each error may name another file. Who knows a ring goes on without, and said
		// nothing of a store that had been away for a month.
		if l.memory.away.lasts(l.host.Monotonic()) {
			l.host.Log(host.Line{Event: host.EventTrouble, Text: fmt.Sprintf("what is asked for of the ring has not been readable for %s, and what is new is not learned until it is: %v", untold, err)})
		}
		// "Not formed yet" may have become untrue; all else stays as it was.
		l.Known.FormedKnown = l.Known.Formed
		return
	}
	l.Known.Trouble, l.memory.away = "", absence{}
	l.remember()
}

// Self is this machine as others are told of it. While no ring is bootstrapped, one whose disk
// holds a log already has no etcd for anybody: a ring that is bootstrapped on it would have an
// initial member that can't start.
func (l *Launcher) Self() store.Machine {
	m := store.Machine{Name: l.Machine, Address: l.Address, Disk: l.disk.ID, Versions: l.versions}
	if l.Known.Identity == nil && !l.disk.blank(l.host) {
		m.Versions = nil
	}
	return m
}

// SetFormed notes that the source was told that the ring has answered.
func (l *Launcher) SetFormed() {
	l.Known.Formed, l.Known.FormedKnown = true, true
	l.remember()
}

// recall takes what the disk remembers as known: all of it is positive, and
// none of it can have become untrue.
func (l *Launcher) recall() {
	if known, ok := recalled(l.host.Disk().Read); ok {
		l.Known = known
	}
}

// recalled is what a launcher left word of on the disk, if it did.
func recalled(read func(name string) ([]byte, error)) (k Known, ok bool) {
	text, err := read(knownFile)
	if err != nil || json.Unmarshal(text, &k) != nil || !k.Specified() {
		return Known{}, false
	}
	k.IdentityKnown, k.FormedKnown = k.Identity != nil, k.Formed
	return k, true
}

// remember writes down what is known when it has changed.
func (l *Launcher) remember() {
	if !l.Known.Specified() || l.Known.same(l.memory.written) {
		return
	}
	text, err := json.Marshal(l.Known)
	if err == nil && l.host.Disk().Write(knownFile, text) == nil {
		l.memory.written = l.Known
	}
}
