// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/store"
)

// founding is the key that bootstraps a ring.
const founding = auto.IdentityPrefix + "/00000001.json"

var errOutage = errors.New("the store does not answer")

// harmedStore fails, or answers from the past.
type harmedStore struct {
	store.Store
	harm *harm
}

func (s harmedStore) Create(ctx context.Context, key string, value []byte) error {
	if step, out := s.harm.step(outage(key, true)); out {
		return s.refuse(step, "create "+key)
	}
	return s.Store.Create(ctx, key, value)
}

func (s harmedStore) Get(ctx context.Context, key string) ([]byte, error) {
	past, err := s.read(ctx, "get", key)
	if err != nil {
		return nil, err
	}
	if past != nil && !past[key] {
		return nil, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return s.Store.Get(ctx, key)
}

func (s harmedStore) List(ctx context.Context, prefix string) ([]string, error) {
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
func (s harmedStore) read(ctx context.Context, call, key string) (past map[string]bool, err error) {
	if step, out := s.harm.step(outage(key, false)); out {
		return nil, s.refuse(step, call+" "+key)
	}
	switch step, stale := s.harm.step(staleness); {
	case !stale:
		s.harm.past, s.harm.since = nil, ""
		return nil, nil
	case s.harm.past == nil || s.harm.since != step:
		return s.freeze(ctx, step)
	}
	return s.harm.past, nil
}

// outage tells which settings fail a call about the key.
func outage(key string, writes bool) func(seam.Setting) bool {
	return func(s seam.Setting) bool {
		f := s.StoreOutage
		return f != nil && (writes || f.Calls != "writes") && (f.Records == "" || series(key) == f.Records)
	}
}

func staleness(s seam.Setting) bool { return s.StoreStale }

// step returns the first step that sets the harm.
func (x *harm) step(sets func(seam.Setting) bool) (string, bool) {
	for _, s := range x.set().Set {
		if sets(s) {
			return s.Step, true
		}
	}
	return "", false
}

// freeze makes the present the past. What a store holds never changes, so that
// the keys say it all.
func (s harmedStore) freeze(ctx context.Context, step string) (map[string]bool, error) {
	keys, err := s.Store.List(ctx, "")
	if err != nil {
		return nil, err
	}
	past := map[string]bool{}
	for _, key := range keys {
		past[key] = true
	}
	s.harm.past, s.harm.since = past, step
	s.harm.landed(step, "", fmt.Sprintf("reads of the store answer as of now: %d keys", len(keys)))
	return past, nil
}

func (s harmedStore) refuse(step, call string) error {
	if !s.harm.told[step] {
		s.harm.told[step] = true
		s.harm.landed(step, "", call+": the store refused")
	}
	return fmt.Errorf("%s: %w", call, errOutage)
}
