// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import "slices"

// adopt gives launchers to members that run without: one machine after the other is made
// anew with one, followers by name, the leader last, after it has handed over. Whose log
// is on the disk the launcher then tells, and the member gets its record by that. The
// next has its turn once this one is on record, serves and has caught up: a member that
// comes back without its log is to be replaced by a quorum of the rest, and whoever
// restarted another meanwhile had none.
func adopt(_ Spec, o Observed) (Decision, bool) {
	static := where(o.Voters(), o.static)
	if len(static) == 0 {
		return pass()
	}
	adopted := where(o.Voters(), func(m Member) bool { return !o.static(m) })
	if i := slices.IndexFunc(adopted, func(m Member) bool { return m.Disk == "" }); i >= 0 {
		return wait("%s has got a launcher, and is not on record yet", adopted[i])
	}
	if d, decided := o.outOfStep(); decided {
		return d, true
	}
	next := slices.MinFunc(static, byTurn)
	if next.Leader {
		if d, decided := handOverTo(o, func(m Member) bool { return !o.static(m) }, next.String()+" gets a launcher last"); decided {
			return d, true
		}
	}
	d, _ := wait("%s is to restart with a launcher", next)
	d.Due = next.ID
	return d, true
}

// static reports whether no launcher runs the member.
func (o Observed) static(m Member) bool {
	machine, _ := o.machine(m.Machine)
	return machine.Static
}
