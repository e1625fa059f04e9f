// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/local/machines"
)

// staleName restarts the machine at another address, which its name doesn't resolve to
// yet, so slowly that nobody finds it by what it heard before. As nothing but the name
// leads to the machine, its address need not change: the name leads to one at which
// nobody is.
func (w *World) staleName(ctx context.Context, n *node, s ringproof.Step) (machines.Evidence, error) {
	switch {
	case w.plan.Ring.Domain == "":
		return machines.Evidence{}, fmt.Errorf("%s is known by its address: give ring.domain", n.name)
	case !n.machine.On():
		return machines.Evidence{}, fmt.Errorf("%s is off", n.name)
	case n.stale != "":
		return machines.Evidence{}, fmt.Errorf("the name of %s is stale already", n.name)
	}
	to, said := w.elsewhere(n, s.Fault.Answers)
	if _, err := n.machine.PowerOff(); err != nil {
		return machines.Evidence{}, err
	}
	w.mark(n, func() { n.stale = s.Name })
	if err := w.lab.Resolve(n.name, to); err != nil {
		return machines.Evidence{}, err
	}
	if err := w.Sleep(ctx, ringproof.NameKept+time.Second); err != nil {
		return machines.Evidence{}, err
	}
	if _, err := n.machine.PowerOn(ctx); err != nil {
		return machines.Evidence{}, err
	}
	return machines.Evidence{What: n.name, Detail: "restarts, and of its name others hear: " + said}, w.afterBoot(ctx, n)
}

// elsewhere is what the machine's name resolves to while it is stale; the zero Addr:
// nothing.
func (w *World) elsewhere(n *node, answers string) (to netip.Addr, said string) {
	switch answers {
	case ringproof.AnswersOldAddress:
		last := w.lab.Gateway().As4()
		last[3] = 253 // machines are counted from below
		return netip.AddrFrom4(last), "it resolves to the address of before"
	case ringproof.AnswersOther:
		if all := w.present(); len(all) > 1 {
			next := all[(slices.Index(all, n)+1)%len(all)]
			return next.machine.Addr(), "it resolves to " + next.name
		}
	}
	return netip.Addr{}, "there is no such name"
}

// learnName has the machine's name resolve to it again.
func (w *World) learnName(n *node, step string) error {
	if n.stale != step {
		return nil
	}
	w.mark(n, func() { n.stale = "" })
	return w.lab.Resolve(n.name, n.machine.Addr())
}
