// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"crypto/rand"
	"encoding/binary"
	"hash/fnv"
	"time"
)

// stream is keyed randomness: its nth draw depends on the world's seed, its
// name and n, and on nothing else that happens. Taking one fault out of a plan
// leaves the draws of every other stream as they were.
type stream struct{ key, n uint64 }

func newStream(seed uint64, name string) *stream {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, seed))
	h.Write([]byte(name))
	return &stream{key: stir(h.Sum64())}
}

// stir is splitmix64's last step: FNV leaves similar inputs similar.
func stir(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s *stream) draw() uint64 {
	s.n++
	return stir(s.key + s.n*0x9e3779b97f4a7c15)
}

// below returns one of 0 … n-1.
func (s *stream) below(n int) int { return int(s.draw() % uint64(n)) }

// between returns a duration from lo to hi.
func (s *stream) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(s.draw()%uint64(hi-lo+1))
}

// entropy stands in for crypto/rand.Reader while a world runs: raft draws its
// election timeouts from there, by a package variable. Each process has a
// stream of its own. Keys that are made meanwhile are not secret, and guard
// nothing but simulated members.
type entropy struct{ engine *engine }

func (x entropy) Read(b []byte) (int, error) {
	source := x.engine.entropy()
	for i := range b {
		b[i] = byte(source.draw())
	}
	return len(b), nil
}

func (e *engine) entropy() *stream {
	if e.actor == nil {
		return e.chance("entropy")
	}
	if e.actor.entropy == nil {
		e.actor.entropy = newStream(e.seed, "entropy "+e.actor.name)
	}
	return e.actor.entropy
}

// chance returns the stream of that name.
func (e *engine) chance(name string) *stream {
	s, ok := e.streams[name]
	if !ok {
		s = newStream(e.seed, name)
		e.streams[name] = s
	}
	return s
}

// possess puts the world's entropy in the place of the machine's, and returns
// how to put that back.
func (e *engine) possess() (release func()) {
	before := rand.Reader
	rand.Reader = entropy{e}
	return func() { rand.Reader = before }
}
