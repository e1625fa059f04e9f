// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/store"
)

// knowledge is what the machine has learned from the store. A field with its
// Known false has not been answered: neither yes nor no. What is learned once
// stays true: specs only grow in number, a ring is founded once and for all.
type knowledge struct {
	specNumber    int
	spec          store.Spec
	specKnown     bool
	identity      *store.Identity // nil with identityKnown: positively none
	identityKnown bool
	formed        bool
	formedKnown   bool
	authority     *pki.Authority
	roster        roster
	registered    store.Machine // what this machine wrote of itself last
	members       []string      // client URLs of the members last listed

	trouble string // why the store was not understood, last
	asked   time.Time
	cached  memory // what the disk remembers
}

// memory is what the disk remembers, so that an agent that starts while the
// store is out of reach can still run its member.
type memory struct {
	SpecNumber int             `json:"specNumber"`
	Spec       store.Spec      `json:"spec"`
	Identity   *store.Identity `json:"identity,omitempty"`
	Formed     bool            `json:"formed,omitempty"`
	Members    []string        `json:"members,omitempty"`
}

// same tells whether two say the same. A spec is known by its number, and of
// identities a ring has one.
func (m memory) same(o memory) bool {
	return m.SpecNumber == o.SpecNumber && (m.Identity == nil) == (o.Identity == nil) && m.Formed == o.Formed && slices.Equal(m.Members, o.Members)
}

const memoryFile = "known.json"

// learn reads the store when it is time to, and keeps what it knew where the
// store doesn't answer.
func (a *Agent) learn(ctx context.Context) {
	if a.known.asked.IsZero() {
		a.recall()
	}
	now := a.host.Now()
	// A clock that went back would make the last reading one of the future, and
	// the next wait until it has come.
	if since := now.Sub(a.known.asked); a.known.formed && since >= 0 && since < storePace {
		return
	}
	a.known.asked = now
	asking, cancel := a.host.Timeout(ctx, 2*time.Second)
	defer cancel()
	if err := a.read(asking); err != nil {
		a.known.trouble = err.Error()
		// "Not formed yet" may have become untrue; all else stays as it was.
		a.known.formedKnown = a.known.formed
		return
	}
	a.known.trouble = ""
	a.remember()
}

func (a *Agent) read(ctx context.Context) error {
	if err := store.Check(ctx, a.store); err != nil {
		return err
	}
	if err := a.readSpec(ctx); err != nil {
		return err
	}
	if err := a.readIdentity(ctx); err != nil {
		return err
	}
	if err := a.readAuthority(ctx); err != nil {
		return err
	}
	return a.readMachines(ctx)
}

// readSpec takes the newest spec.
func (a *Agent) readSpec(ctx context.Context) error {
	n, spec, err := store.Log[store.Spec]{Store: a.store, Prefix: SpecPrefix}.Since(ctx, a.known.specNumber)
	if err != nil {
		return err
	}
	if n > a.known.specNumber {
		a.rest = time.Time{}
		a.known.spec, a.known.specNumber, a.known.specKnown = spec, n, true
	}
	return nil
}

func (a *Agent) readIdentity(ctx context.Context) error {
	if a.known.identity == nil {
		n, identity, err := store.Log[store.Identity]{Store: a.store, Prefix: IdentityPrefix}.Latest(ctx)
		if err != nil {
			return err
		}
		a.known.identityKnown = true
		if n > 0 {
			a.known.identity = &identity
		}
	}
	if a.known.formed {
		return nil
	}
	n, _, err := store.Log[store.Formed]{Store: a.store, Prefix: FormedPrefix}.Latest(ctx)
	if err != nil {
		return err
	}
	a.known.formed, a.known.formedKnown = n > 0, true
	return nil
}

func (a *Agent) readAuthority(ctx context.Context) error {
	if a.known.authority != nil || !a.known.specKnown || !a.tls() {
		return nil
	}
	n, record, err := store.Log[store.Authority]{Store: a.store, Prefix: AuthorityPrefix}.Latest(ctx)
	if err != nil || n == 0 {
		return err
	}
	authority, err := pki.ParseAuthority(record.CertPEM, record.KeyPEM)
	if err != nil {
		return err
	}
	a.known.authority = &authority
	return nil
}

// readMachines registers this machine if it has anything new to say, and reads
// who else is there. Once the ring holds the machines' presences, the store's
// list only tells a new machine whom to ask.
func (a *Agent) readMachines(ctx context.Context) error {
	if err := a.register(ctx); err != nil {
		return err
	}
	if a.known.formed && len(a.known.roster.machines) > 0 {
		return nil
	}
	return a.known.roster.read(ctx, a.store)
}

func (a *Agent) register(ctx context.Context) error {
	self := store.Machine{Name: a.Machine, Address: a.Address, Disk: a.disk.ID, Versions: a.versions()}
	if same(self, a.known.registered) {
		return nil
	}
	log := store.Log[store.Machine]{Store: a.store, Prefix: MachinesPrefix + "/" + a.Machine}
	n, last, err := log.Latest(ctx)
	if err != nil {
		return err
	}
	if !same(self, last) {
		if _, err := log.Append(ctx, n, self); err != nil {
			return err
		}
	}
	a.known.registered = self
	return nil
}

func same(a, b store.Machine) bool {
	return a.Name == b.Name && a.Address == b.Address && a.Disk == b.Disk && slices.Equal(a.Versions, b.Versions)
}

// recall takes what the disk remembers as known: all of it is positive, and
// none of it can have become untrue.
func (a *Agent) recall() {
	text, err := a.host.Disk().Read(memoryFile)
	var m memory
	if err != nil || json.Unmarshal(text, &m) != nil || m.SpecNumber == 0 {
		return
	}
	a.known.spec, a.known.specNumber, a.known.specKnown = m.Spec, m.SpecNumber, true
	a.known.identity, a.known.identityKnown = m.Identity, m.Identity != nil
	a.known.formed, a.known.formedKnown = m.Formed, m.Formed
	a.known.members = m.Members
}

// remember writes it down when it has changed.
func (a *Agent) remember() {
	if !a.known.specKnown {
		return
	}
	m := memory{SpecNumber: a.known.specNumber, Spec: a.known.spec,
		Identity: a.known.identity, Formed: a.known.formed, Members: a.known.members}
	if m.same(a.known.cached) {
		return
	}
	text, err := json.Marshal(m)
	if err == nil && a.host.Disk().Write(memoryFile, text) == nil {
		a.known.cached = m
	}
}
