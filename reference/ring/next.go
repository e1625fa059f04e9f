// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// rule looks at one concern. It decides, or leaves the decision to the rules after it: with what
// there is to wait for if none of them decides, or with nothing.
type rule func(Spec, Observed) (Decision, bool)

// The order is the safety argument. What is unknown stops everything, and so do data
// that differ; a member
// that can never vote again goes before anything is added, since it only
// raises the quorum; a change in flight ends before the next begins; and no
// healthy voter leaves before the one that takes its place votes. Adopted,
// upgraded and encrypted is only a ring that is whole.
var rules = []rule{
	unreadable,
	paused,
	corrupt,
	differs,
	begunAnew,
	foreign,
	unbound,
	lostDisk,
	learner,
	silent,
	surplus,
	short,
	adopt,
	upgrade,
	encrypt,
	roll,
	pending,
}

// Next decides the one next change that brings the ring from what was observed
// towards spec, or says why to wait or halt. It is a function of its arguments
// alone.
func Next(spec Spec, o Observed) Decision {
	d := decide(spec, o)
	if d.Action != nil {
		d.Action.On = Roles(o.Members)
	}
	if d.Wait != "" || d.Action != nil && slices.Contains([]Kind{AddLearner, Bind, Upgrade, Listen, AdvanceLog}, d.Action.Kind) {
		return full(o, d)
	}
	return d
}

// full halts where nothing can be done, or a record would have to be written, and etcd
// writes none: a member that is added and never bound starts nowhere. What needs no
// record, such as the removal of a lost disk's member, is done.
func full(o Observed, d Decision) Decision {
	if i := slices.IndexFunc(o.Alarms, func(a Alarm) bool { return a.Kind == NoSpace }); i >= 0 {
		return Barred(NoSpace, o.whose(o.Alarms[i]))
	}
	return d
}

// Barred is the halt of a ring in which an alarm stands, [NoSpace] or [Corrupt], and of whom.
func Barred(alarm, whose string) Decision {
	has, commands := "has no space left", []string{"etcdctl compact REVISION", "etcdctl defrag --cluster"}
	if alarm == Corrupt {
		has, commands = "holds other data than the rest", []string{"etcdctl endpoint hashkv --cluster"}
	}
	return Decision{
		Halt:     fmt.Sprintf("%s %s (alarm %s): etcd refuses every write, the clients' and those of the automation", whose, has, alarm),
		Commands: append(commands, "etcdctl alarm disarm"),
	}
}

// whose names the alarm's member, if the alarm does.
func (o Observed) whose(a Alarm) string {
	if a.Member == 0 {
		return "a member"
	}
	for _, m := range o.Members {
		if m.ID == a.Member {
			return "member " + m.String()
		}
	}
	return "member " + a.Member.String() + ", which has left the ring,"
}

func decide(spec Spec, o Observed) Decision {
	spec = spec.leg(o)
	held := Decision{Wait: Steady}
	for _, r := range rules {
		d, decided := r(spec, o)
		if decided {
			return d
		}
		if held.Wait == Steady && d.Wait != "" {
			held = d
		}
	}
	return held
}

// leaderless is how long a ring may go without a quorum before a person is
// called: many elections, and a restart. Whether its members are lost or only
// cut off can't be told from here, and neither asks for anything but patience.
const leaderless = 15 * time.Second

func unreadable(_ Spec, o Observed) (Decision, bool) {
	if !o.Listed && o.Unread > leaderless {
		return Decision{
			Halt:     "no quorum of the ring has answered for " + leaderless.String() + ": unless the machines that hold the other logs come back, it is lost",
			Commands: []string{"ringadm member list", "etcdutl snapshot restore BACKUP --data-dir NEW"},
		}, true
	}
	if !o.Listed {
		return wait("the member list could not be read with a quorum: %s", o.Why)
	}
	return pass()
}

func paused(spec Spec, _ Observed) (Decision, bool) {
	if spec.Paused {
		return wait("paused by the spec")
	}
	return pass()
}

// begunAnew halts where most of the members on record aren't listed, and nobody let them
// go. Somebody has made one of them a ring of its own with --force-new-cluster, and the
// others may hold more; or somebody has removed them by hand. Either is a person's to say.
// First every member that is listed gets its record: of three voters the record of one is
// damaged, and somebody removes another; the one on record is no majority of two, and
// two would be one of three.
func begunAnew(spec Spec, o Observed) (Decision, bool) {
	if len(o.Missing) == 0 || Whole(o.Recorded, o.Missing) {
		return pass()
	}
	if d, decided := foreign(spec, o); decided && (d.Wait != "" || d.Action != nil && d.Action.Kind == Bind) {
		return d, true
	}
	d := Decision{Halt: fmt.Sprintf("of %d members on record %d are not listed, and nobody let them go: if this ring was begun anew from one of them (--force-new-cluster), the logs of the others may hold more, and nothing there is touched", o.Recorded+len(o.Missing), len(o.Missing)),
		Commands: []string{"ringadm member list"}}
	for _, id := range o.Missing {
		d.Commands = append(d.Commands, "ringadm member forget "+id.String())
	}
	return d, true
}

// foreign looks at members that have run and that no record binds to a disk:
// somebody else added them, or the records are gone.
func foreign(spec Spec, o Observed) (Decision, bool) {
	unrecorded := o.withoutRecord()
	if len(unrecorded) == 0 {
		return pass()
	}
	_, damaged := o.missesRecord(spec)
	for _, m := range o.Members {
		if damaged && m.Disk == "" && m.Learner && !m.Started() {
			return act(Action{Kind: Remove, Member: m.ID, Machine: m.Machine, Why: "records are gone, and on which disk it may have started is not known"})
		}
	}
	for _, m := range unrecorded {
		if d, decided := o.unrecorded(spec, m); decided {
			return d, true
		}
	}
	return pass()
}

// withoutRecord lists the members that have run and have no record, though they should:
// those that no launcher runs yet have none.
func (o Observed) withoutRecord() []Member {
	return where(o.Members, func(m Member) bool { return m.Disk == "" && (m.Started() || !m.Learner) && !o.static(m) })
}

// missesRecord returns a member whose record is missing and may be made anew: one whose
// machine is gone for good gets none any more, and is replaced.
func (o Observed) missesRecord(spec Spec) (Member, bool) {
	all := o.withoutRecord()
	i := slices.IndexFunc(all, func(m Member) bool { return !o.gone(m, spec) })
	if i < 0 {
		return Member{}, false
	}
	return all[i], true
}

// unrecorded goes by what can't be deleted with the keys: the log on the disk of
// the machine at the member's address. A disk that doesn't hold it is never bound:
// the ID would start again with an empty log. Where the machine is one of the
// ring's and can't say, the member is as any other voter is; where it is not, the
// member may be anyone's, and neither keeping nor removing it is ours to say.
func (o Observed) unrecorded(spec Spec, m Member) (Decision, bool) {
	machine, known := o.machine(m.Machine)
	here := known && machine.Present && machine.at(m)
	bind := Action{Kind: Bind, Member: m.ID, Machine: m.Machine, Disk: machine.Disk, Version: o.begins(spec, m), Peers: o.listens(spec, m), Why: "its record is gone, and the disk there holds its log"}
	switch {
	case known && machine.at(m) && (machine.Lost || machine.Spoiled == m.ID):
		return pass() // as any voter whose disk is lost
	case here && machine.Told && machine.Holds == m.ID:
		return act(bind)
	case here && !machine.Told:
		return wait("the record of member %s is gone, and its machine has not said yet whose log it holds", m)
	case known && machine.Registered && machine.at(m) && !(here && m.Serving):
		return pass()
	}
	bind.Machine, bind.Disk = "NAME", "DISK"
	commands := []string{"ringadm member list", bind.String()}
	if !m.Serving {
		commands = []string{"ringadm member remove " + m.ID.String(), bind.String()}
	}
	return Decision{Halt: "member " + m.ID.String() + " at " + m.PeerURL + " is bound to no disk of this ring: somebody else added it", Commands: commands}, true
}

// unbound finishes an addition whose author died, or whose reply was lost,
// between the member list and the binding. Launchers start no unbound member,
// so nothing has run under this ID: it is safe to bind it, and safe to drop it.
func unbound(spec Spec, o Observed) (Decision, bool) {
	for _, m := range o.Members {
		// With no disk to bind it to it goes as any other whose disk is lost.
		if m.Started() || m.Disk != "" || o.lostDisk(m) {
			continue
		}
		machine, known := o.machine(m.Machine)
		switch {
		case known && machine.Present && machine.Disk != "":
			return act(Action{Kind: Bind, Member: m.ID, Machine: m.Machine, Disk: machine.Disk, Version: o.begins(spec, m), Peers: o.listens(spec, m), Why: "it was added and never bound"})
		case o.gone(m, spec), m.Machine == "" && m.Silent > spec.ReplaceAfter:
			return act(Action{Kind: Remove, Member: m.ID, Machine: m.Machine, Why: "it never started, and its machine is absent"})
		default:
			return wait("member %s was added and never bound, and its machine is not here", m)
		}
	}
	return pass()
}

// lostDisk removes the voter whose disk is known to be gone. Its ID can never
// run again: with an empty log it would vote away what it once acknowledged.
// Removing it first costs nothing, since it can't vote, and etcd refuses a
// second member at the same peer URL.
func lostDisk(spec Spec, o Observed) (held Decision, found bool) {
	n := len(o.Voters())
	for _, m := range o.Voters() {
		if !o.lostDisk(m) || o.stays(spec, m) {
			continue
		}
		if rest := o.rest(m); o.serving() < Quorum(n) || rest < Quorum(n-1) && !o.goesFirst(spec, m) {
			held, _ = wait("the disk of %s is lost, and only %d of the other %d voters answer%s: no quorum of the rest", m, rest, n-1, o.resting(m))
			continue // another's removal may be what makes this one safe
		}
		if machine, _ := o.own(m); (machine.Lost || machine.Spoiled == m.ID) && m.Leader && m.Serving {
			return o.handOver(spec, m) // its data are known to be gone, and its etcd runs on
		}
		return act(Action{Kind: Remove, Member: m.ID, Machine: m.Machine, Why: o.whyLost(m)})
	}
	return held, held.Wait != ""
}

// rest counts the voters on which the ring rests without m, whose disk is lost. One that
// can't vote any more costs nothing, whoever the others are. One that answers from memory
// does vote, and others that do so too are none of the rest: three disks are taken for new
// ones, and two voters went at once for the third, which was lost as they were. Nor is one
// that is about to end: beside m2, whose pod is deleted and waits for a kubelet that hangs,
// m3 votes from memory. When m2 ends m1 and m3 are a quorum; without m3, m1 alone is none.
func (o Observed) rest(m Member) int {
	return len(where(o.Voters(), func(x Member) bool {
		machine, _ := o.own(x)
		return x.ID != m.ID && x.Serving && !(m.Serving && (machine.Ending || o.lostDisk(x)))
	}))
}

// resting is what those do on whom the ring rests without m, if not all who answer do.
func (o Observed) resting(m Member) string {
	if _, ends := ending(o); m.Serving && ends {
		return " and stay"
	}
	if m.Serving && slices.ContainsFunc(o.Voters(), func(x Member) bool { return x.ID != m.ID && x.Serving && o.lostDisk(x) }) {
		return " from their disks"
	}
	return ""
}

// goesFirst reports whether m, which answers from memory beside others that do, may go before
// them: the ring is whole, all vote, and somebody can come in for m before the next goes.
// To wait were to wait for the end of what they hold in memory.
func (o Observed) goesFirst(spec Spec, m Member) bool {
	if _, ends := ending(o); ends {
		return false
	}
	machine, known := o.own(m)
	_, spare := o.spare(spec)
	again := known && (machine.Lost || machine.Spoiled == m.ID && machine.has(o.joins(spec, machine.Name)) || machine.Disk != m.Disk && o.takes(machine, spec)) // who knows of a lost volume brings another
	n := len(o.Voters())
	return n > 1 && n >= spec.Nodes && o.serving() == n && len(o.Members) == n && (spare || again)
}

// stays reports whether m votes on from memory until somebody has come in for the one that
// went before it: without m there were no quorum of the rest, or one voter alone.
func (o Observed) stays(spec Spec, m Member) bool {
	_, spare := o.spare(spec)
	n := len(o.Voters())
	return n < spec.Nodes && o.serving() == n && (spare || len(o.Members) > n) && (n <= 2 || o.rest(m) < Quorum(n-1))
}

// whyLost says why the member can never vote again.
func (o Observed) whyLost(m Member) string {
	machine, _ := o.machine(m.Machine)
	switch {
	case machine.Spoiled == m.ID && m.Serving:
		return "its data were removed from under its etcd, which forgets all as it ends"
	case machine.Spoiled == m.ID:
		return "its log may never run again: " + machine.Failing
	}
	return "its disk is lost"
}

// corrupt halts on a member whose data differ from the others', as etcd found: it
// counts as one that doesn't serve, and etcd refuses every write until the alarm
// is taken back. Which of the copies is right is for a person to say, so nobody is removed
// before, for whatever reason. Who looked after a lost disk first named the alarm to nobody:
// of three voters one was alarmed and one had lost its disk, and the removal waited for an
// answer of the first.
func corrupt(_ Spec, o Observed) (Decision, bool) {
	i := slices.IndexFunc(o.Alarms, func(a Alarm) bool { return a.Kind == Corrupt })
	if i < 0 {
		return pass()
	}
	id := o.Alarms[i].Member
	d := Barred(Corrupt, o.whose(o.Alarms[i]))
	// Of an only voter's data there is no other copy.
	listed := slices.ContainsFunc(o.Members, func(m Member) bool { return m.ID == id })
	if others := slices.ContainsFunc(o.Members, func(m Member) bool { return m.ID != id && !m.Learner }); listed && others {
		d.Commands = slices.Insert(d.Commands, 1, "ringadm member remove "+id.String())
	}
	return d, true
}

// learner brings the one addition in flight to its end.
func learner(spec Spec, o Observed) (Decision, bool) {
	i := slices.IndexFunc(o.Members, func(m Member) bool { return m.Learner })
	if i < 0 {
		return pass()
	}
	m := o.Members[i]
	remove := Action{Kind: Remove, Member: m.ID, Machine: m.Machine}
	switch {
	case o.lostDisk(m):
		remove.Why = "its disk is lost"
		return act(remove)
	case o.gone(m, spec):
		remove.Why = "its machine is absent"
		return act(remove)
	case len(keepers(spec, o)) >= spec.Nodes:
		remove.Why = "it is no longer asked for"
		return act(remove)
	case decommissioned(spec, m):
		remove.Why = "its machine is decommissioned"
		return act(remove)
	case o.toldWrong(m):
		return mistold(spec, o, []Member{m})
	case failing(spec, o, m):
		remove.Why = "its etcd can't start, and another machine is free"
		return act(remove)
	case stuck(spec, o, m):
		remove.Why = "it does not come up, and another machine is free"
		return act(remove)
	case unsent(o, m):
		remove.Why = "its etcd runs, and has heard nothing of the ring: it is to be added anew"
		return act(remove)
	case !m.Started() || !m.Serving:
		return wait("learner %s has not started", m)
	case !m.Ready:
		return wait("learner %s is catching up", m)
	case o.unsteady(m):
		return wait("learner %s serves, but its etcd has ended at its last start: it must run for some seconds first", m)
	case o.serving()+1 < Quorum(len(o.Voters())+1):
		return wait("promoting %s needs %d serving voters, %d answer", m, Quorum(len(o.Voters())+1)-1, o.serving())
	}
	return act(Action{Kind: Promote, Member: m.ID, Machine: m.Machine, Why: "it is caught up"})
}

// comeUp is how long a learner may take to start. etcd asks its peers before it
// serves, and gives one that is dead two seconds at a time: beside a lost voter
// a start was seen to take seven. Who removes it sooner removes the next one
// too, for ever.
const comeUp = 30 * time.Second

// failing reports whether a learner's machine says that no etcd starts on it,
// while another could have its turn. With nobody else it stays: it will be tried
// again there, and the ring has nothing to gain by adding it anew.
func failing(spec Spec, o Observed, m Member) bool {
	machine, ok := o.own(m)
	_, spare := o.spare(spec)
	return ok && spare && !m.Serving && machine.Present && machine.Failing != ""
}

// unsteady reports whether the machine of a member says that its etcd ends by itself.
func (o Observed) unsteady(m Member) bool {
	machine, ok := o.own(m)
	return ok && machine.Present && machine.Unsteady
}

// stuck reports whether a learner has been silent for so long that another
// machine should have its chance.
func stuck(spec Spec, o Observed, m Member) bool {
	_, spare := o.spare(spec)
	return spare && !m.Serving && m.Silent > max(spec.ReplaceAfter, comeUp+o.sending())
}

// sentEach is how many bytes of the ring's data a learner gets in a second at least: half of
// what a line of 125 Mbit/s takes, or a slow disk, as either serves the ring besides. etcd's 8
// GiB, which are the most that it advises, take a quarter of an hour then.
const sentEach = 8 << 20

// sending is how long it may take to send a learner all of the ring's data. It answers nobody
// before: of a ring with 6 GiB each learner was removed on the way, and the next one sent all
// of them anew.
func (o Observed) sending() time.Duration { return time.Duration(o.Bytes/sentEach) * time.Second }

// sentWithin is how long a learner may wait for the ring's data to begin to come, where no other
// machine is free: what stands in between ends, or is found out, within some minutes.
const sentWithin = 5 * time.Minute

// unsent reports whether a learner whose etcd runs was never sent the ring's data. A node is
// lost, and the pod that is made elsewhere has its name. The leader still has an idle connection
// to that name, and sends the snapshot into it: nothing acknowledges it, and TCP gives up after
// a quarter of an hour. What is sent to a member that is removed, etcd gives up at once.
func unsent(o Observed, m Member) bool {
	machine, ok := o.own(m)
	return ok && machine.Present && machine.Failing == "" && !machine.Unsteady && !m.Started() && m.Silent > sentWithin+o.sending()
}

// silent holds every further change while a voter doesn't answer, until its
// machine has been absent for so long that it counts as gone.
func silent(spec Spec, o Observed) (Decision, bool) {
	quiet := where(o.Voters(), func(m Member) bool { return !m.Serving })
	if len(quiet) == 0 {
		return ending(o)
	}
	for _, m := range quiet {
		if o.gone(m, spec) {
			return gone(spec, o, m, "its machine is gone")
		}
	}
	if m := quiet[0]; len(quiet) == 1 && spec.Restart[m.Machine] != "" && m.Silent > comeUp {
		// What it runs with was asked for and isn't any more: too little memory, say.
		if d, waits := ending(o); waits {
			return d, true
		}
		// How far it is itself it doesn't say, and so is behind by all that others have applied.
		if i := slices.IndexFunc(o.Voters(), func(m Member) bool { return m.Serving && m.Lag > InStep }); i >= 0 {
			return wait("%s is %d entries behind", o.Voters()[i], o.Voters()[i].Lag)
		}
		d, _ := wait("voter %s does not answer, and is to restart: %s", m, spec.Restart[m.Machine])
		d.Due = m.ID
		return d, true
	}
	for _, halts := range []func(Spec, Observed, []Member) (Decision, bool){broken, deaf, mistold} {
		if d, halted := halts(spec, o, quiet); halted {
			return d, true
		}
	}
	for _, m := range quiet {
		// Where no etcd starts, and the machine is decommissioned, there is nothing to wait
		// for. One that is only restarted comes back, and leaves in good order.
		if machine, _ := o.own(m); o.unfit(m, spec) || decommissioned(spec, m) && machine.Failing != "" {
			return gone(spec, o, m, "its etcd does not come up")
		}
	}
	for _, m := range quiet {
		// One that hangs can't be told from one that has much to read at its start, so
		// nobody is replaced for it unasked; nor while another is silent that stays: its
		// log is whole, and may be what the ring comes to need.
		// Nor before it is known that those who answer have their logs: without a launcher one
		// may answer from memory, and the whole log is that of who hangs.
		if decommissioned(spec, m) && m.Silent > max(spec.ReplaceAfter, comeUp) && allDecommissioned(spec, quiet) && !slices.ContainsFunc(o.Voters(), o.static) {
			return gone(spec, o, m, "its machine is decommissioned and its etcd does not answer")
		}
	}
	if i := slices.IndexFunc(quiet, func(m Member) bool { return o.static(m) && m.Silent > comeUp }); i >= 0 {
		d, _ := wait("voter %s does not answer: it is to restart with a launcher, which tells whose log is there", quiet[i])
		d.Due = quiet[i].ID
		return d, true
	}
	return wait("voter %s does not answer", quiet[0])
}

// ending waits for a voter that is about to end and serves still: nobody else is restarted or
// removed meanwhile. A controller deleted the pod of one voter, saw all serve a moment later,
// as a pod has half a minute to end, and deleted the next.
func ending(o Observed) (Decision, bool) {
	for _, m := range o.Voters() {
		if machine, _ := o.own(m); machine.Ending {
			return wait("voter %s is about to end", m)
		}
	}
	return pass()
}

// gone replaces a voter whose machine is gone. A spare joins first, as the
// machine may only be cut off and its copy of the log the newest; but etcd
// refuses an addition that would leave the serving voters without a quorum (a
// ring of three with one silent), and its older releases any while one is
// silent: there the removal comes first. With nobody to take its place it
// still goes where that lowers the quorum: four voters with one gone can lose
// no other, three can lose one.
func gone(spec Spec, o Observed, m Member, why string) (Decision, bool) {
	n := len(o.Voters())
	_, spare := o.spare(spec)
	remove := Action{Kind: Remove, Member: m.ID, Machine: m.Machine, Why: why}
	switch {
	case o.serving() < Quorum(n):
		return wait("voter %s is gone, and only %d of %d answer", m, o.serving(), n)
	case n > spec.Nodes, !spare && o.heir(m, spec), spare && (o.serving() < Quorum(n+1) || !o.addsWhileSilent(spec)), Quorum(n-1) < Quorum(n):
		return act(remove)
	case !spare:
		return wait("voter %s is gone; add a machine to take its place%s", m, o.lacking(spec))
	}
	switch why {
	case "its machine is gone":
		why = "the machine of " + m.String() + " is gone"
	case "its etcd does not come up":
		why = "the etcd of " + m.String() + " does not come up"
	default:
		why = "the machine of " + m.String() + " is decommissioned, and the etcd there does not answer"
	}
	return add(spec, o, why)
}

// surplus lets one voter go once all that stay are there and answer. What an etcd answers
// that no launcher runs it may have from memory: a ring of three became one of one, whose
// volume was gone. First launchers say whose logs there are. And as many as commit a write
// without it must be in step: of three one was far behind, and the other two became it and
// another, which took no write before it had caught up.
func surplus(spec Spec, o Observed) (Decision, bool) {
	voters := o.Voters()
	if len(voters) <= spec.Nodes {
		return pass()
	}
	if d, decided := adopt(spec, o); decided {
		return d, true
	}
	victim := leaves(spec, voters)
	inStep := where(voters, func(m Member) bool { return m.ID != victim.ID && o.behind(m) == 0 })
	if d, waits := o.outOfStep(); waits && (!o.led() || len(inStep) < Quorum(len(voters)-1)) {
		return d, true
	}
	if victim.Leader {
		return o.handOver(spec, victim)
	}
	return act(Action{Kind: Remove, Member: victim.ID, Machine: victim.Machine, Why: "fewer voters are asked for"})
}

// leaves picks who goes: a machine that is decommissioned, else the last by name, so
// that a ring grown and shrunk again is the ring it was.
func leaves(spec Spec, voters []Member) Member {
	return slices.MaxFunc(voters, func(a, b Member) int { return byLeaving(spec, a, b) })
}

func byLeaving(spec Spec, a, b Member) int {
	if x, y := decommissioned(spec, a), decommissioned(spec, b); x != y {
		if x {
			return 1
		}
		return -1
	}
	return byName(a.Machine, b.Machine)
}

// handOver moves leadership before its holder leaves, so that clients wait for
// a hand-over and not for an election timeout.
func (o Observed) handOver(spec Spec, from Member) (Decision, bool) {
	to, able := o.Successor(spec, from)
	if !able {
		return wait("%s leads and leaves, and nobody else can lead", from)
	}
	return act(Action{Kind: MoveLeader, Member: to.ID, Machine: to.Machine, Why: from.String() + " leaves"})
}

// Successor is who takes the leadership of a voter that ends or leaves: of those who serve the
// one who leaves last, so that clients wait once. One that is behind is the last to take it:
// etcd refuses writes until it has caught up, or an election timeout is over, and asked again
// each second it took none.
func (o Observed) Successor(spec Spec, from Member) (to Member, able bool) {
	others := where(o.Voters(), func(m Member) bool { return m.ID != from.ID && m.Serving })
	if len(others) == 0 {
		return Member{}, false
	}
	return slices.MinFunc(others, func(a, b Member) int {
		return cmp.Or(cmp.Compare(o.behind(a), o.behind(b)), byLeaving(spec, a, b))
	}), true
}

// short adds one learner while voters that stay are missing.
func short(spec Spec, o Observed) (Decision, bool) {
	kept := keepers(spec, o)
	if len(kept) >= spec.Nodes {
		return pass()
	}
	d, decided := add(spec, o, "more voters are asked for")
	return d, decided && !o.upgradesFirst(spec, len(kept))
}

// upgradesFirst reports whether voters are missing that an upgrade brings: the free machines lack
// the release that a member joins with, and some have the one that is asked for. Each waited for
// the other. All kept voters serve, and are a quorum while one restarts.
func (o Observed) upgradesFirst(spec Spec, kept int) bool {
	_, able := o.spare(spec)
	brings := slices.ContainsFunc(o.free(spec), func(m Machine) bool { return m.has(spec.Version) })
	n := len(o.Voters())
	return !able && brings && n == kept && o.serving() == n && n-1 >= Quorum(n)
}

func add(spec Spec, o Observed, why string) (Decision, bool) {
	machine, ok := o.spare(spec)
	if !ok {
		return wait("%s, and no machine is free%s", why, o.lacking(spec))
	}
	// It would go again at once: a learner that isn't bound yet is told by nothing from one
	// whose record is gone with the others.
	if m, missing := o.missesRecord(spec); missing {
		return wait("%s, and nobody is added while the record of %s is missing", why, m)
	}
	return act(Action{Kind: AddLearner, Machine: machine.Name, Disk: machine.Disk, PeerURL: o.joinsAt(machine), Why: why})
}

// keepers are the voters that count towards what was asked for.
func keepers(spec Spec, o Observed) []Member {
	return where(o.Voters(), func(m Member) bool { return !decommissioned(spec, m) && !o.gone(m, spec) && !o.unfit(m, spec) })
}

func allDecommissioned(spec Spec, members []Member) bool {
	return !slices.ContainsFunc(members, func(m Member) bool { return !decommissioned(spec, m) })
}

func decommissioned(spec Spec, m Member) bool { return slices.Contains(spec.Decommission, m.Machine) }

// byName orders m2 before m10.
func byName(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
