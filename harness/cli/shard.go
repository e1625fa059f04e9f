// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ringproof/ringproof"
)

// shard is which part of the cells to run, as 2/5: what takes hours is run by several machines, or in
// several sittings. The zero value is all of them.
type shard struct{ part, of int }

func (s shard) String() string {
	if s.of == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.part, s.of)
}

func (shard) Type() string { return "PART/OF" }

// Set reads what String writes.
func (s *shard) Set(text string) error {
	part, of, _ := strings.Cut(text, "/")
	n, err1 := strconv.Atoi(part)
	m, err2 := strconv.Atoi(of)
	if err1 != nil || err2 != nil || n < 1 || n > m {
		return errors.New("it is one part of several, as 2/5: the second of five")
	}
	*s = shard{n, m}
	return nil
}

// holds reports whether the nth cell, counted from 1, is in the part. Each takes every OFth, so that
// long scenarios, whose cells follow each other, are shared out.
func (s shard) holds(n int) bool { return s.of == 0 || (n-s.part)%s.of == 0 }

// missed refuses a part that no cell is in: a run of nothing is no run.
func (s shard) missed(cells int) error {
	if cells == 0 || s.part <= cells {
		return nil
	}
	return usage("--shard %s: nothing is in that part of %s", s, ringproof.Counted(cells, "cell"))
}
