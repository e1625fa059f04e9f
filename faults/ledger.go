// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// Config is the voters of one membership.
type Config []ringproof.MemberID

// intact counts the voters that aren't lost.
func (c Config) intact(lost map[ringproof.MemberID]bool) int {
	n := 0
	for _, voter := range c {
		if !lost[voter] {
			n++
		}
	}
	return n
}

// spare is how many voters more than a quorum are intact.
func (c Config) spare(lost map[ringproof.MemberID]bool) int {
	return c.intact(lost) - ringproof.Quorum(len(c))
}

// Ledger is the ground truth of what a run has taken from its ring, and
// decides what may still be taken.
//
// A loss is admissible if in every configuration that could still commit a
// quorum of voters stays intact. Those configurations are the last observed
// membership, each one that a member still reports as its own, the one before
// the last change until an entry after it is committed, and, while the subject
// changes the membership, the one after the change. A charge ends when
// the lost member has left all of them: committing its removal took a quorum
// that holds every acknowledged entry. Before a membership was seen any machine
// may be an initial member's, and initial members enough for a quorum keep what they have. A voter
// that was never heard holds no log: of initial members 1, 2 and 3 the first two have
// elected a leader, and 3 waits to be let in; without 1 it never is.
//
// Feed it every observation and every event, in order.
type Ledger struct {
	mode    ringproof.Mode
	want    int      // voters that the ring was last asked to have
	leaving []string // the machines whose members are asked to be moved off them
	copies  []string // the machines on which somebody has left the copy of a log
	last    ringproof.Observation
	pending []pendingChange
	former  []former
	lost    map[ringproof.MemberID]bool
	lostOn  map[ringproof.MemberID]string // the machines of those, by which a reader knows them
	heard   map[ringproof.MemberID]bool   // has a log, or had one
	early   []string                      // machines that lost something before a membership was seen
	swaps   int                           // of disks, that are not taken back yet, and disks that are not mounted
	entries []ringproof.Budget
}

// pendingChange is a membership change that the subject began, or somebody else. Until an
// observation later than its end shows the membership, it may yet commit.
type pendingChange struct {
	byHand  bool
	action  string
	member  ringproof.MemberID // 0: the subject didn't say
	machine string
	ended   bool
	at      ringproof.Instant // when it ended
}

// former is a configuration that was replaced. Followers learn that the change is
// committed with the next entry that they sync, and note it on their disks no
// sooner: who loses power before that comes back in the configuration of before.
// Of voters a and b, c was promoted, a lost its disk, and b the power: c still
// takes itself for a learner, and b waits for a.
type former struct {
	config Config
	head   uint64 // committed index when the change was seen
}

// NewLedger opens the ledger of a ring that starts with size voters.
func NewLedger(size int, mode ringproof.Mode) *Ledger {
	return &Ledger{mode: mode, want: size, lost: map[ringproof.MemberID]bool{}, lostOn: map[ringproof.MemberID]string{}, heard: map[ringproof.MemberID]bool{}}
}

// Want records how many voters the ring is asked to have from now on. Losing
// machines is fair only while that many remain.
func (l *Ledger) Want(voters int) { l.want = voters }

// Leave records which machines are to hold no member from now on. They are no spares: of
// six machines for five voters, the one that a voter was moved off can't take the place
// of one that is lost.
func (l *Ledger) Leave(machines []string) { l.leaving = machines }

// Observe takes what the world saw, and ends the charges whose member has left.
// Only a membership that was read with quorum replaces the one before it.
func (l *Ledger) Observe(o ringproof.Observation) {
	if !o.Fresh || len(o.Members) == 0 {
		l.last.At, l.last.Machines = o.At, o.Machines
		return
	}
	l.hear(o)
	if len(l.pending)+len(l.lost)+len(l.former)+len(l.early) == 0 && slices.EqualFunc(l.last.Members, o.Members, sameVote) {
		l.last = o
		return
	}
	before := voters(l.last)
	l.last = o
	l.found(o)
	l.former = slices.DeleteFunc(l.former, func(f former) bool { return head(o) > f.head })
	if len(before) > 0 && !slices.Equal(before, voters(o)) {
		l.former = append(l.former, former{before, head(o)})
	}
	l.settle(o)
	l.release(o.At)
	if after := voters(o); !slices.Equal(before, after) {
		l.enter(o.At, "membership: "+ringproof.Counted(len(after), "voter"))
	}
}

// hear notes who has a log: who serves, or knows what is committed.
func (l *Ledger) hear(o ringproof.Observation) {
	for i := range o.Members {
		if m := &o.Members[i]; m.Serving || m.Index > 0 {
			l.heard[m.ID] = true
		}
	}
}

// TooEarly reports whether the loss is beyond what a correct subject can survive, while a
// voter has not been heard of yet: once it is, it has a log, and the loss may be fair.
func (l *Ledger) TooEarly(f ringproof.Fault, targets []string) bool {
	unheard := func(id ringproof.MemberID) bool { return !l.heard[id] }
	return slices.ContainsFunc(voters(l.last), unheard) && l.unfair(f, targets) != ""
}

// without is who holds no log: who lost it, and the voters that have none yet.
func (l *Ledger) without() map[ringproof.MemberID]bool {
	all := maps.Clone(l.lost)
	for _, c := range l.Configs() {
		for _, id := range c {
			if !l.heard[id] {
				all[id] = true
			}
		}
	}
	return all
}

// found charges what was lost before there was a membership to the initial members on
// those machines. One that serves all the same was bootstrapped after the loss, on
// what the machine has now.
func (l *Ledger) found(o ringproof.Observation) {
	l.early = slices.DeleteFunc(l.early, func(machine string) bool {
		m, initialMember := o.On(machine)
		if initialMember {
			l.lost[m.ID], l.lostOn[m.ID] = true, machine
		}
		if initialMember && m.Serving {
			delete(l.lost, m.ID)
		}
		return !initialMember || m.Serving
	})
}

// Note takes an event. Only the subject's membership changes matter, and that
// swapped disks are back.
func (l *Ledger) Note(e ringproof.Event) {
	if e.Kind == ringproof.EventFaultHealed && takesAway(e.Fault) && l.swaps > 0 {
		l.swaps--
		l.enter(e.At, "the disks are back")
	}
	if e.Kind == ringproof.EventFaultMissed && e.Fault == ringproof.FaultForeignHand {
		for i, p := range l.pending {
			if p.byHand && p.machine == e.Machine {
				l.pending[i].ended, l.pending[i].at = true, e.At
			}
		}
	}
	if e.Action != "promote" && e.Action != "remove" {
		return // add-learner changes no voter; nothing else changes the membership
	}
	switch e.Kind {
	case ringproof.EventActionBegun:
		l.pending = append(l.pending, pendingChange{action: e.Action, member: e.Member, machine: e.Machine})
	case ringproof.EventActionDone, ringproof.EventActionFailed:
		for i, p := range l.pending {
			if !p.ended && p.action == e.Action && p.member == e.Member {
				l.pending[i].ended = true
				l.pending[i].at = e.At
			}
		}
	}
}

// settle forgets the changes that the observation shows, and those that ended
// before it was made.
func (l *Ledger) settle(o ringproof.Observation) {
	l.pending = slices.DeleteFunc(l.pending, func(p pendingChange) bool {
		return p.shown(o) || p.ended && o.At > p.at
	})
}

// shown reports whether the observation is of a ring in which the change is made.
func (p pendingChange) shown(o ringproof.Observation) bool {
	if p.action == addVoter {
		_, there := o.On(p.machine)
		return there
	}
	m, present := o.Member(p.member)
	return p.member != 0 && (p.action == "remove" && !present || p.action == "promote" && present && !m.Learner)
}

// Configs lists the configurations that could still commit, the last observed
// one first.
func (l *Ledger) Configs() []Config {
	configs := []Config{voters(l.last)}
	for _, m := range l.last.Members {
		if len(m.Peers) > 0 {
			configs = append(configs, l.reported(m))
		}
	}
	for _, f := range l.former {
		configs = append(configs, f.config)
	}
	for _, p := range l.pending {
		configs = append(configs, l.after(p)...)
	}
	return distinct(configs)
}

// reported is the membership as one member lists it. Who it lists and the ring
// has no more is taken for a voter: that is the stricter guess.
func (l *Ledger) reported(m ringproof.MemberView) Config {
	var c Config
	for _, peer := range m.Peers {
		if entry, known := l.last.Member(peer); !known || !entry.Learner {
			c = append(c, peer)
		}
	}
	slices.Sort(c)
	return c
}

// after lists what the membership becomes when the change commits: one
// configuration, or each possible one when the subject didn't name the member.
func (l *Ledger) after(p pendingChange) []Config {
	if p.action == addVoter {
		return []Config{append(slices.Clip(voters(l.last)), 0)} // whose ID nobody knows yet
	}
	var configs []Config
	for _, m := range l.last.Members {
		named := m.ID == p.member || p.member == 0 && (p.machine == "" || m.Machine == p.machine)
		if named && m.Learner == (p.action == "promote") {
			configs = append(configs, toggle(voters(l.last), m.ID))
		}
	}
	return configs
}

// takesAway reports whether the fault leaves a machine for a time with another
// disk than its own.
func takesAway(kind ringproof.FaultKind) bool {
	return kind == ringproof.FaultDiskSwap || kind == ringproof.FaultVolumeUnmounted
}

// Admit returns the fault as it may be applied to the targets, and why it
// isn't the one that was asked for; the reason is empty when it is. A fault of
// no kind means: do nothing.
func (l *Ledger) Admit(f ringproof.Fault, targets []string) (ringproof.Fault, string) {
	if f.Kind == ringproof.FaultDiskSwap && len(l.last.Members) == 0 && l.mode != ringproof.ModeDisaster {
		return ringproof.Fault{}, "no ring was seen yet: one that is bootstrapped on swapped disks is at home on them"
	}
	if takesAway(f.Kind) {
		l.swaps++
		l.enter(l.last.At, fmt.Sprintf("%s of %s", f.Kind, strings.Join(targets, " ")))
	}
	if f.Kind == ringproof.FaultForeignHand {
		if reason := l.unfairHand(f, targets); reason != "" {
			l.enter(l.last.At, fmt.Sprintf("%s on %s refused: %s", f.Kind, strings.Join(targets, " "), reason))
			return ringproof.Fault{}, reason
		}
		l.expect(f, targets)
	}
	if f.Kind == ringproof.FaultVolumeCopy && l.mode != ringproof.ModeDisaster {
		if reason := l.unfairCopy(targets); reason != "" {
			l.enter(l.last.At, fmt.Sprintf("%s to %s refused: %s", f.Kind, strings.Join(targets, " "), reason))
			return ringproof.Fault{}, reason
		}
		l.copies = union(l.copies, targets)
	}
	if !f.Permanent() {
		return f, ""
	}
	reason := ""
	if l.mode != ringproof.ModeDisaster {
		reason = l.unfair(f, targets)
	}
	if reason != "" {
		milder := l.milder(f, targets)
		l.enter(l.last.At, fmt.Sprintf("%s of %s refused: %s", f.Kind, strings.Join(targets, " "), reason))
		return milder, reason
	}
	for _, id := range l.members(targets) {
		l.lost[id], l.lostOn[id] = true, l.machineOf(id)
	}
	if len(l.last.Members) == 0 {
		l.early = union(l.early, targets)
	}
	l.markLost(f, targets)
	l.enter(l.last.At, fmt.Sprintf("%s of %s", f.Kind, strings.Join(targets, " ")))
	return f, ""
}

// unfairHand says why a correct subject can't survive what somebody else asks for. A voter
// that is added holds no log, and nobody can start it without a quorum.
func (l *Ledger) unfairHand(f ringproof.Fault, targets []string) string {
	switch f.Adds() {
	case "":
		return l.unfair(f, targets)
	case addVoter:
		without := l.without()
		for _, c := range l.Configs() {
			if intact, quorum := c.intact(without), ringproof.Quorum(len(c)+1); intact < quorum {
				return fmt.Sprintf("with a voter more, that nobody has started, %d have a log, and a quorum is %d", intact, quorum)
			}
		}
	}
	return ""
}

// unfairCopy says why the ring needs the machines that are to hold a copy.
func (l *Ledger) unfairCopy(targets []string) string {
	if left := l.machinesLeft(targets); len(l.last.Machines) > 0 && left < l.want {
		return fmt.Sprintf("nobody may clear a copy, and without %s %d machines are left for %d voters", strings.Join(targets, " "), left, l.want)
	}
	return ""
}

// expect notes the change that somebody else is about to make.
func (l *Ledger) expect(f ringproof.Fault, targets []string) {
	switch f.Adds() {
	case "":
		for _, id := range l.members(targets) {
			l.pending = append(l.pending, pendingChange{action: "remove", member: id, machine: targets[0], byHand: true})
		}
	case addVoter:
		l.pending = append(l.pending, pendingChange{action: addVoter, machine: targets[0], byHand: true})
	}
}

// addVoter is what somebody else does; no subject adds a voter that was no learner.
const addVoter = "add-voter"

// unfair says why the loss is beyond what a correct subject can survive.
func (l *Ledger) unfair(f ringproof.Fault, targets []string) string {
	if l.swaps > 0 {
		return "disks are swapped, or not mounted: the log that would be lost is not that of the machine's own member"
	}
	if len(l.last.Members)+len(l.last.Machines) == 0 {
		return "nothing was observed yet"
	}
	// Whoever is lost before a membership was seen may be an initial member.
	if gone := len(distinctNames(union(l.early, targets))); len(l.last.Members) == 0 && l.want-gone < ringproof.Quorum(l.want) {
		return fmt.Sprintf("of %d initial members %d would be left, a quorum is %d", l.want, max(0, l.want-gone), ringproof.Quorum(l.want))
	}
	before := l.without()
	lost := maps.Clone(before)
	for _, id := range l.members(targets) {
		lost[id] = true
	}
	for _, c := range l.Configs() {
		// Taking what no configuration counts is always fair, however little is left.
		if c.intact(lost) < c.intact(before) && c.spare(lost) < 0 {
			return fmt.Sprintf("of %d voters %d would keep their log, a quorum is %d", len(c), c.intact(lost), ringproof.Quorum(len(c)))
		}
	}
	if left := l.machinesLeft(targets); f.Kind == ringproof.FaultMachineLoss && left < l.want {
		return fmt.Sprintf("%d machines would be left for %d voters", left, l.want)
	}
	return ""
}

// milder is the fault that takes the place of an unfair loss.
func (l *Ledger) milder(f ringproof.Fault, targets []string) ringproof.Fault {
	for _, name := range targets {
		if m, ok := l.last.Machine(name); ok && m.Lost {
			return ringproof.Fault{}
		}
	}
	milder, _ := Downgrade(f)
	return milder
}

// downgradedFor is how long a downgraded fault lasts when the plan didn't say:
// the rest of the plan may demand what only a healed ring can give.
const downgradedFor = ringproof.Duration(5e9)

// Downgrade returns the next milder fault: a loss becomes a kill of the
// machine, a kill a pause, and a pause nothing (false). The ledger takes the
// first step; a world that can't do the kill may take the next.
func Downgrade(f ringproof.Fault) (ringproof.Fault, bool) {
	milder := ringproof.Fault{Target: f.Target, Scope: "machine", For: cmp.Or(f.For, downgradedFor)}
	switch f.Kind {
	case ringproof.FaultMachineLoss, ringproof.FaultVolumeLoss:
		milder.Kind = ringproof.FaultKill
	case ringproof.FaultKill:
		milder.Kind = ringproof.FaultPause
		milder.Scope = f.Scope
	default:
		return ringproof.Fault{}, false
	}
	return milder, true
}

// members are the entries whose log is on the machines.
func (l *Ledger) members(machines []string) []ringproof.MemberID {
	var ids []ringproof.MemberID
	for _, m := range l.last.Members {
		if slices.Contains(machines, m.Machine) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func (l *Ledger) machinesLeft(without []string) int {
	n := 0
	for _, m := range l.last.Machines {
		if !m.Lost && !slices.Contains(l.leaving, m.Name) && !slices.Contains(l.copies, m.Name) && !slices.Contains(without, m.Name) {
			n++
		}
	}
	return n
}

// markLost keeps a second loss fair before the next observation comes.
func (l *Ledger) markLost(f ringproof.Fault, targets []string) {
	if f.Kind != ringproof.FaultMachineLoss {
		return
	}
	l.last.Machines = slices.Clone(l.last.Machines)
	for i, m := range l.last.Machines {
		l.last.Machines[i].Lost = m.Lost || slices.Contains(targets, m.Name)
	}
}

// release ends the charges of members that have left every configuration.
func (l *Ledger) release(at ringproof.Instant) {
	held := map[ringproof.MemberID]bool{}
	for _, m := range l.last.Members {
		held[m.ID] = true // a lost learner may be promoted yet
	}
	for _, c := range l.Configs() {
		for _, id := range c {
			held[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.lost)) {
		if !held[id] {
			delete(l.lost, id)
			l.enter(at, fmt.Sprintf("lost member %s (%s) has left", id, l.lostOn[id]))
		}
	}
}

// machineOf is where the member lives.
func (l *Ledger) machineOf(id ringproof.MemberID) string {
	for _, m := range l.last.Members {
		if m.ID == id {
			return m.Machine
		}
	}
	return ""
}

func (l *Ledger) enter(at ringproof.Instant, what string) {
	used, left := l.Budget()
	if n := len(l.entries); n > 0 {
		at = max(at, l.entries[n-1].At) // a look dates what it saw by when it began
	}
	l.entries = append(l.entries, ringproof.Budget{At: at, What: what, Used: used, Left: left})
}

// Budget tells, for the configuration that is worst off, how many voters are
// lost and how many more may be.
func (l *Ledger) Budget() (used, left int) {
	for i, c := range l.Configs() {
		used = max(used, len(c)-c.intact(l.lost))
		if spare := c.spare(l.lost); i == 0 || spare < left {
			left = spare
		}
	}
	return used, left
}

// Timeline returns what was charged, refused and released, in order.
func (l *Ledger) Timeline() []ringproof.Budget { return slices.Clone(l.entries) }

func voters(o ringproof.Observation) Config {
	var c Config
	for i := range o.Members {
		if m := &o.Members[i]; !m.Learner {
			c = append(c, m.ID)
		}
	}
	slices.Sort(c)
	return c
}

func sameVote(a, b ringproof.MemberView) bool { return a.ID == b.ID && a.Learner == b.Learner }

// head is the highest index that any member knows to be committed.
func head(o ringproof.Observation) (index uint64) {
	for i := range o.Members {
		index = max(index, o.Members[i].Index)
	}
	return index
}

// toggle puts the voter in, or takes it out.
func toggle(c Config, id ringproof.MemberID) Config {
	i, found := slices.BinarySearch(c, id)
	if found {
		return slices.Delete(slices.Clone(c), i, i+1)
	}
	return slices.Insert(slices.Clone(c), i, id)
}

func distinctNames(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

func distinct(configs []Config) []Config {
	var kept []Config
	for _, c := range configs {
		if !slices.ContainsFunc(kept, func(k Config) bool { return slices.Equal(k, c) }) {
			kept = append(kept, c)
		}
	}
	return kept
}
