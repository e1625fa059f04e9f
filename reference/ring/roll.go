// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import "slices"

// roll has the members restart whose machines are asked to, one after the other: the next
// once all serve and have caught up, followers by name, then the leader, after it has handed
// over to one that is done. What is done there the machine's keeper knows, and whether it was:
// no record says so.
func roll(spec Spec, o Observed) (Decision, bool) {
	waits := func(m Member) bool { return spec.Restart[m.Machine] != "" }
	due := where(o.Voters(), waits)
	if len(due) == 0 {
		return pass()
	}
	if d, decided := o.outOfStep(); decided {
		return d, true
	}
	next := slices.MinFunc(due, byTurn)
	if next.Leader {
		done := func(m Member) bool { return !waits(m) }
		if d, decided := handOverTo(o, done, next.String()+" is restarted last"); decided {
			return d, true
		}
	}
	d, _ := wait("%s is to restart: %s", next, spec.Restart[next.Machine])
	d.Due = next.ID
	return d, true
}

// pending is what is waited for where the ring itself has nothing to do.
func pending(spec Spec, _ Observed) (Decision, bool) {
	if spec.Pending != "" {
		return wait("%s", spec.Pending)
	}
	return pass()
}
