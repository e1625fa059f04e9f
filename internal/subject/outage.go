// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/store"
)

// bootstrapKey is the key that bootstraps a ring.
const bootstrapKey = auto.IdentityPrefix + "/00000001.json"

var errOutage = errors.New("the store does not answer")

// hangPace is how soon a call that hangs is done after the store is back.
const hangPace = 100 * time.Millisecond

// faultyStore fails, hangs, or answers from the past.
type faultyStore struct {
	store.Store
	injector *injector
}

func (s faultyStore) Create(ctx context.Context, key string, value []byte) error {
	if err := s.out(ctx, "create", key, true); err != nil {
		return err
	}
	return s.Store.Create(ctx, key, value)
}

func (s faultyStore) Get(ctx context.Context, key string) ([]byte, error) {
	past, err := s.read(ctx, "get", key)
	if err != nil {
		return nil, err
	}
	if past != nil && !past[key] {
		return nil, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return s.Store.Get(ctx, key)
}

func (s faultyStore) List(ctx context.Context, prefix string) ([]string, error) {
	past, err := s.read(ctx, "list", prefix)
	if err != nil {
		return nil, err
	}
	keys, err := s.Store.List(ctx, prefix)
	if past == nil || err != nil {
		return keys, err
	}
	return slices.DeleteFunc(keys, func(key string) bool { return !past[key] }), nil
}

// read tells how a read is to be answered: not at all, as of a past, or, when
// that is nil, truly.
func (s faultyStore) read(ctx context.Context, call, key string) (past map[string]bool, err error) {
	if err := s.out(ctx, call, key, false); err != nil {
		return nil, err
	}
	switch at, stale := s.injector.setting(staleness); {
	case !stale:
		s.injector.past, s.injector.since = nil, ""
		return nil, nil
	case s.injector.past == nil || s.injector.since != at.Step:
		return s.freeze(ctx, at.Step)
	}
	return s.injector.past, nil
}

// outage tells which settings fail a call about the key.
func outage(key string, writes bool) func(seam.Setting) bool {
	return func(s seam.Setting) bool {
		f := s.StoreOutage
		return f != nil && (writes || f.Calls != "writes") && (f.Records == "" || series(key) == f.Records)
	}
}

func staleness(s seam.Setting) bool { return s.StoreStale }

// setting returns the first that sets the fault.
func (x *injector) setting(sets func(seam.Setting) bool) (seam.Setting, bool) {
	for _, s := range x.set().Set {
		if sets(s) {
			return s, true
		}
	}
	return seam.Setting{}, false
}

// freeze makes the present the past. What a store holds never changes, so that
// the keys say it all.
func (s faultyStore) freeze(ctx context.Context, step string) (map[string]bool, error) {
	keys, err := s.Store.List(ctx, "")
	if err != nil {
		return nil, err
	}
	past := map[string]bool{}
	for _, key := range keys {
		past[key] = true
	}
	s.injector.past, s.injector.since = past, step
	s.injector.landed(step, "", fmt.Sprintf("reads of the store answer as of now: %d keys", len(keys)))
	return past, nil
}

// out fails a call, or holds it, for as long as that is set.
func (s faultyStore) out(ctx context.Context, call, key string, writes bool) error {
	for {
		at, out := s.injector.setting(outage(key, writes))
		switch {
		case !out:
			return nil
		case at.StoreOutage.How != ringproof.StoreHangs:
			s.tell(at.Step, call+" "+key+": the store refused")
			return fmt.Errorf("%s %s: %w", call, key, errOutage)
		}
		s.tell(at.Step, call+" "+key+": the store hangs")
		if err := s.injector.host.Sleep(ctx, hangPace); err != nil {
			return fmt.Errorf("%s %s: %w: %w", call, key, errOutage, err)
		}
	}
}

// tell says once that the step's fault landed.
func (s faultyStore) tell(step, what string) {
	if !s.injector.told[step] {
		s.injector.told[step] = true
		s.injector.landed(step, "", what)
	}
}
