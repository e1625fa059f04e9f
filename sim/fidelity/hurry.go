// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// begins are the commands after which etcd counts seconds: since when it has
// been connected to a peer, for how long a lease lives.
var begins = []string{"ring", "start", "join", "grant", "keep-alive"}

// attempts is how many plays of a script may be too slow. A machine that is
// that slow thrice is so the fourth time.
const attempts = 3

// delay is that of an answer that came when etcd had the right to another one.
type delay struct {
	of      step
	why     string // "answered after 7s"
	virtual bool
}

// tooSlow says what to do about a delay. In virtual time no machine is slow.
func (s Script) tooSlow(d *delay) error {
	head, _, _ := strings.Cut(d.of.text, "\n")
	where := fmt.Sprintf("testdata/%s:%d: %s: %s", s.Name, d.of.line, head, d.why)
	if d.virtual {
		return fmt.Errorf("%s of virtual time, which only a script lets pass: this one is wrong; ask sooner", where)
	}
	return fmt.Errorf("%s, and too late in each of %d plays: the machine is too slow to tell; play RINGPROOF_SCRIPT=%s alone, or where less runs", where, attempts, s.Name)
}

// haste is what hurry= says; 0 when it says nothing.
func (c call) haste() (time.Duration, error) {
	text, ok := c.opts["hurry"]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s: hurry=%s is no time; say how long, as in hurry=5s", c.name, text)
	}
	return d, nil
}

// hurried holds a hurry to have something that it is measured from.
func (s *Script) hurried(c call) error {
	d, err := c.haste()
	if err != nil || d == 0 || slices.ContainsFunc(s.steps, func(st step) bool { return slices.Contains(begins, st.call.name) }) {
		return err
	}
	return fmt.Errorf("%s: hurry is measured from the last %s, and none is above it", c.name, strings.Join(begins, ", "))
}

// timed is do, and reports whether the answer came too late. It measures from
// before the request that began it: etcd can't have begun to count earlier, so
// that it owed an answer that comes in time.
func (s *stage) timed(ctx context.Context, st step) (got string, late *delay) {
	since := s.began // a keep-alive must itself come in time
	if slices.Contains(begins, st.call.name) {
		s.began = s.Now()
	}
	got = s.do(ctx, st.call)
	if limit, _ := st.call.haste(); limit > 0 {
		if after := s.Now().Sub(since); after >= limit {
			late = &delay{st, fmt.Sprintf("answered after %v", after.Round(time.Millisecond)), s.Virtual()}
		}
	}
	if st.call.opts["term"] == "same" && s.elected(ctx) {
		late = &delay{st, "another leader was elected since the script chose one", s.Virtual()}
	}
	return got, late
}

// elected reports whether there was an election since the script's last leader
// command: its entry is one more than the script knows of. What doesn't tell its
// term is not accused.
func (s *stage) elected(ctx context.Context) bool {
	return slices.ContainsFunc(s.running(), func(name string) bool {
		status, err := s.status(ctx, name)
		return err == nil && s.term != 0 && status.RaftTerm != s.term
	})
}
