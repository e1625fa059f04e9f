// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/store"
)

// source is the store, as a machine learns of its ring from it.
type source struct {
	host         host.Host
	store        store.Store
	silent       bool // it tells nobody of this machine
	roster       roster
	registered   store.Machine // what this machine wrote of itself last
	registeredAt time.Time
}

// patient is a store that is waited for only for so long, whoever asks: an agent looks after
// its machine between two questions, also while nobody answers.
type patient struct {
	store.Store
	host host.Host
}

const answerWithin = 2 * time.Second

func (p patient) Create(ctx context.Context, key string, value []byte) error {
	ctx, cancel := p.host.Timeout(ctx, answerWithin)
	defer cancel()
	return p.Store.Create(ctx, key, value)
}

func (p patient) Get(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := p.host.Timeout(ctx, answerWithin)
	defer cancel()
	return p.Store.Get(ctx, key)
}

func (p patient) List(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := p.host.Timeout(ctx, answerWithin)
	defer cancel()
	return p.Store.List(ctx, prefix)
}

// Learn reads what is new, and registers this machine.
func (s *source) Learn(ctx context.Context, self store.Machine, known *launcher.Known) error {
	if err := store.Check(ctx, s.store); err != nil {
		return err
	}
	if err := s.restore(ctx, *known); err != nil {
		return err
	}
	if err := s.readSpec(ctx, known); err != nil {
		return err
	}
	if err := s.readIdentity(ctx, known); err != nil {
		return err
	}
	return s.readMachines(ctx, self, known)
}

// Heard lists the addresses of the machines that have registered.
func (s *source) Heard() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.roster.machines)) {
		all = append(all, s.roster.machines[name].Address)
	}
	return all
}

// restore writes again what the store has lost of what this machine knows, as it was put back from a backup, or made
// anew. It does so before the machine is registered: three have come again, one with a disk that was just emptied, and
// where nothing says that their ring was bootstrapped, that one bootstraps another. The record that says so goes last,
// as it is what is asked for. A store that answers from the past loses nothing by it: what is there can't be created.
func (s *source) restore(ctx context.Context, known launcher.Known) error {
	if s.silent || known.Identity == nil {
		return nil
	}
	bootstraps := store.Log[store.Identity]{Store: s.store, Prefix: IdentityPrefix}
	there, is, err := bootstraps.First(ctx)
	switch {
	case err != nil:
		return err
	case is && there.ClusterID() != known.Identity.ClusterID():
		return fmt.Errorf("the store's bootstrap record is of ring %x, and this machine's ring is %x: nothing is learned from that store; give the machine the store of its ring, or put that one's records back", there.ClusterID(), known.Identity.ClusterID())
	case is:
		return nil
	}
	specs := store.Log[store.Spec]{Store: s.store, Prefix: SpecPrefix}
	if err := specs.Rewrite(ctx, slices.Repeat([]store.Spec{known.Spec}, known.SpecNumber)); err != nil {
		return err
	}
	if known.Formed {
		formed := store.Log[store.Formed]{Store: s.store, Prefix: FormedPrefix}
		if err := formed.Rewrite(ctx, []store.Formed{known.Identity.Formed()}); err != nil {
			return err
		}
	}
	return bootstraps.Rewrite(ctx, []store.Identity{*known.Identity})
}

// readSpec takes the newest spec.
func (s *source) readSpec(ctx context.Context, known *launcher.Known) error {
	n, spec, err := store.Log[store.Spec]{Store: s.store, Prefix: SpecPrefix}.Since(ctx, known.SpecNumber)
	if err != nil {
		return err
	}
	if n > known.SpecNumber {
		known.Spec, known.SpecNumber = spec, n
	}
	return nil
}

func (s *source) readIdentity(ctx context.Context, known *launcher.Known) error {
	if known.Identity == nil {
		n, identity, err := store.Log[store.Identity]{Store: s.store, Prefix: IdentityPrefix}.Latest(ctx)
		if err != nil {
			return err
		}
		known.IdentityKnown = true
		if n > 0 {
			known.Identity = &identity
		}
	}
	if known.Formed {
		return nil
	}
	n, formed, err := store.Log[store.Formed]{Store: s.store, Prefix: FormedPrefix}.Latest(ctx)
	if err != nil {
		return err
	}
	if i := known.Identity; n > 0 && i != nil && formed.ClusterID != fmt.Sprintf("%x", i.ClusterID()) {
		return fmt.Errorf("the store says that ring %s was formed, and its bootstrap record is of ring %x: records of two rings are mixed in it; restore its own", formed.ClusterID, i.ClusterID())
	}
	known.Formed, known.FormedKnown = n > 0, true
	return nil
}

// readMachines registers this machine if it has anything new to say, and reads
// who else is there. Once the ring holds the machines' presences, the store's
// list only tells a new machine whom to ask.
func (s *source) readMachines(ctx context.Context, self store.Machine, known *launcher.Known) error {
	if err := s.register(ctx, self, known.Identity == nil); err != nil {
		return err
	}
	if known.Formed && len(s.roster.machines) > 0 {
		return nil
	}
	return s.roster.read(ctx, s.store)
}

// register writes what this machine says of itself. It says so again where another
// of its name was heard last, as long as no ring is bootstrapped: a clone came up and went,
// and the others would wait for good for a machine that is there.
func (s *source) register(ctx context.Context, self store.Machine, founding bool) error {
	if s.silent || same(self, s.registered) && !(founding && s.supplanted(self)) {
		return nil
	}
	log := store.Log[store.Machine]{Store: s.store, Prefix: MachinesPrefix + "/" + self.Name}
	n, last, err := log.Latest(ctx)
	if err != nil {
		return err
	}
	if !same(self, last) {
		if _, err := log.Append(ctx, n, self); err != nil {
			return err
		}
	}
	s.registered, s.registeredAt = self, s.host.Now()
	return nil
}

// supplanted reports whether the store's last word of this machine's name is
// another's, and has been the last for as long as a lease lives or may have been: two
// that stay don't fill the store with their names.
func (s *source) supplanted(self store.Machine) bool {
	last, there := s.roster.machines[self.Name]
	if !there || same(self, last) {
		return false
	}
	since := s.host.Now().Sub(s.registeredAt)
	return since < 0 || since >= admin.LeaseTTL
}

func same(a, b store.Machine) bool {
	return a.Name == b.Name && a.Address == b.Address && a.Disk == b.Disk && slices.Equal(a.Versions, b.Versions)
}

// authority reads the authorities' keys. A ring's are never replaced: some machines
// would take the next record, and those that have certificates trust the first.
func (s *source) authority(ctx context.Context) (store.Authority, error) {
	n, record, err := store.Log[store.Authority]{Store: s.store, Prefix: AuthorityPrefix}.Latest(ctx)
	switch {
	case err == nil && n == 0:
		err = errors.New("the store holds none")
	case err == nil && n > 1:
		err = fmt.Errorf("the store holds %d, and a ring's is never replaced: remove all but the first", n)
	}
	return record, err
}
