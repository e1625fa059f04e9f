// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/reference/store"
)

// Times of an object store of the same region.
const (
	quickObject = 2 * time.Millisecond
	slowObject  = 25 * time.Millisecond
)

// bucket is the store that the machines meet in. What is in it never changes.
type bucket struct {
	objects map[string][]byte
	made    map[string][]byte // what was in it before any machine came
	lost    map[string][]byte // what is to be given back, once none of those steps is on
	empty   map[string]bool
}

// Maker is a subject that an operator can have make its store again.
type Maker interface {
	Subject
	// Make makes the store, as Seed did.
	Make(ctx context.Context) error
}

// loseStore takes out of the store what the fault doesn't leave in it, and tells how much that was.
func (w *World) loseStore(ctx context.Context, s ringproof.Step) (string, error) {
	b := &w.bucket
	all := b.objects
	switch b.objects = map[string][]byte{}; s.Fault.Leave {
	case ringproof.LeaveMade:
		maps.Copy(b.objects, b.made)
	case ringproof.LeaveAnew:
		maker, can := w.Subject.(Maker)
		if !can {
			return "", fmt.Errorf("the subject makes no store again (%w)", errors.ErrUnsupported)
		}
		if err := maker.Make(ctx); err != nil {
			return "", err
		}
	default:
		maps.Copy(b.lost, all)
		b.empty[s.Name] = true
	}
	return fmt.Sprintf("of %d objects %d are left", len(all), len(b.objects)), nil
}

// giveBack puts back what a step took out, unless another still holds the bucket empty.
func (b *bucket) giveBack(step string) {
	if delete(b.empty, step); len(b.empty) == 0 {
		maps.Copy(b.objects, b.lost)
		clear(b.lost)
	}
}

func newBucket() bucket {
	return bucket{objects: map[string][]byte{}, lost: map[string][]byte{}, empty: map[string]bool{}}
}

// shelf is the bucket as one caller reaches it. Each call takes its time before
// and after it is done, so that whoever is killed in it may have made it.
type shelf struct {
	world  *World
	caller *Machine // nil: the harness
	delays *stream
}

var _ store.Store = shelf{}

// Store returns the store as it is reached from the machine; nil: by an
// operator.
func (w *World) Store(from *Machine) store.Store {
	name := "operator"
	if from != nil {
		name = from.name
	}
	return store.Marked{Unmarked: shelf{w, from, w.engine.chance("store " + name)}}
}

func (s shelf) wait(ctx context.Context) error {
	return s.world.engine.sleep(ctx, s.delays.between(quickObject/2, slowObject/2))
}

func (s shelf) Create(ctx context.Context, key string, value []byte) error {
	s.world.engine.trace.note("create " + key)
	if err := s.wait(ctx); err != nil {
		return fmt.Errorf("create %s: %w", key, err)
	}
	_, taken := s.world.bucket.objects[key]
	if !taken {
		s.world.bucket.objects[key] = slices.Clone(value)
	}
	if err := s.wait(ctx); err != nil {
		return fmt.Errorf("create %s: %w", key, err)
	}
	if taken {
		return fmt.Errorf("%s: %w", key, store.ErrExists)
	}
	return nil
}

func (s shelf) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.wait(ctx); err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	value, ok := s.world.bucket.objects[key]
	if !ok {
		return nil, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return slices.Clone(value), nil
}

func (s shelf) List(ctx context.Context, prefix string) ([]string, error) {
	if err := s.wait(ctx); err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	keys := slices.Collect(maps.Keys(s.world.bucket.objects))
	keys = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) })
	slices.Sort(keys)
	return keys, nil
}
