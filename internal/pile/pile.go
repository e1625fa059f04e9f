// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package pile is a list that grows at its end by pieces: half of what a slice of
// hours takes is its copies.
package pile

import (
	"iter"
	"slices"
)

// piece is how many elements have room in one.
const piece = 512

// Of is a pile of T. Its zero value is empty. A copy shares its elements, and
// only one of the two may be added to.
type Of[T any] struct {
	pieces [][]T // all full but for the last
}

// Add puts x at the end.
func (p *Of[T]) Add(x T) {
	last := len(p.pieces) - 1
	if last < 0 || len(p.pieces[last]) == piece {
		p.pieces = append(p.pieces, make([]T, 0, piece))
		last++
	}
	p.pieces[last] = append(p.pieces[last], x)
}

// Len is how many elements there are.
func (p *Of[T]) Len() int {
	last := len(p.pieces) - 1
	if last < 0 {
		return 0
	}
	return last*piece + len(p.pieces[last])
}

// At is the place of element i, which is there.
func (p *Of[T]) At(i int) *T { return &p.pieces[i/piece][i%piece] }

// All visits the elements in order.
func (p *Of[T]) All() iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		for n, all := range p.pieces {
			for i := range all {
				if !yield(n*piece+i, &all[i]) {
					return
				}
			}
		}
	}
}

// Backward visits the elements from the last to the first.
func (p *Of[T]) Backward() iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		for i := p.Len() - 1; i >= 0; i-- {
			if !yield(i, p.At(i)) {
				return
			}
		}
	}
}

// Slice returns the elements in one slice of its own.
func (p *Of[T]) Slice() []T { return slices.Concat(p.pieces...) }
