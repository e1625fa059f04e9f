// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// Lint reviews every cell of a scenario that decodes: what it means, not how
// it is written. A nil world supports everything.
func (s *Scenario) Lint(world World) Diagnostics {
	if world == nil {
		world = Anywhere("")
	}
	found := append(s.unusedAxes(), s.unpaired()...)
	for _, cell := range s.Cells(1) {
		_, more := s.Resolve(cell, "", world)
		found = append(found, more...)
	}
	return found.ordered()
}

func (s *Scenario) unusedAxes() Diagnostics {
	used := map[string]bool{}
	references(s.tree, used)
	var found Diagnostics
	for _, axis := range s.Axes {
		if !used[axis.Name] {
			c := complaint{code: "S031", message: fmt.Sprintf("axis %q is not used: its %d cells are the same run", axis.Name, len(axis.Values))}
			found = append(found, s.text.at(s.axes[axis.Name], Warning, c, fmt.Sprintf("write \"${matrix.%s}\" where the value belongs", axis.Name)))
		}
	}
	return found
}

// review judges one cell: its form, with the places, and the plan made of it.
type review struct {
	form    Form
	plan    draft
	decoder *decoder
}

func (r review) all(world World, worlds []string) Diagnostics {
	var found Diagnostics
	found = append(found, r.sizes()...)
	found = append(found, r.losses()...)
	found = append(found, r.knownBug()...)
	found = append(found, r.releases()...)
	found = append(found, r.peers()...)
	found = append(found, r.flags()...)
	found = append(found, r.asserted()...)
	found = append(found, r.outlasted()...)
	found = append(found, r.names()...)
	found = append(found, r.guesses()...)
	found = append(found, r.ending()...)
	found = append(found, r.clusters()...)
	for i := range r.plan.Steps {
		found = append(found, r.order(i)...)
		found = append(found, r.trigger(i)...)
		found = append(found, r.step(i)...)
		found = append(found, r.repeated(i)...)
	}
	return append(found, r.portable(world, worlds)...)
}

func (r review) say(path string, severity Severity, code, help, format string, args ...any) Diagnostics {
	return Diagnostics{r.decoder.text.at(r.decoder.keyed(path), severity, complaint{code: code, message: fmt.Sprintf(format, args...)}, help)}
}

func at(i int, rest string) string { return fmt.Sprintf("spec.steps[%d]%s", i, rest) }

// oncePerPlan are the faults that a plan can have once: what they take isn't there again, or
// isn't put back while they overlap.
var oncePerPlan = []ringproof.FaultKind{ringproof.FaultMachineLoss, ringproof.FaultDiskSwap, ringproof.FaultTimePasses, ringproof.FaultVolumeCopy, ringproof.FaultRingDeleted}

// repeated judges a fault that comes several times.
func (r review) repeated(i int) (found Diagnostics) {
	form, s := r.form.Spec.Steps[i], r.plan.Steps[i]
	switch {
	case s.Fault == nil && form.Times > 0:
		return r.say(at(i, ".times"), Error, "S074", "write the step as often, each with a name of its own", "only a fault comes several times")
	case s.Fault == nil && form.Every > 0, form.Every > 0 && form.Times < 2:
		return r.say(at(i, ".every"), Error, "S074", "say how often: times: 3", "nothing comes again every %s", form.Every)
	case form.Times > 1 && slices.Contains(oncePerPlan, s.Fault.Kind):
		return r.say(at(i, ".times"), Error, "S074", "write a step for each, with a target of its own", "a %s can't come %d times", s.Fault.Kind, form.Times)
	case form.Times > 1 && form.Every > 0 && form.Every <= s.Fault.For:
		return r.say(at(i, ".every"), Error, "S074", "every counts from one beginning to the next", "the fault lasts for %s, and is to come again after %s", s.Fault.For, form.Every)
	}
	return nil
}

// sizes judges the sizes asked for and the machines that they need.
func (r review) sizes() Diagnostics {
	var found Diagnostics
	ring := r.plan.Ring
	if ring.Size%2 == 0 {
		found = append(found, r.say("spec.ring.size", Error, "S050", "", "a ring of %d voters has an even size", ring.Size)...)
	}
	for i, s := range r.plan.Steps {
		if s.Op == nil || s.Op.Kind != ringproof.OpScale {
			continue
		}
		fair := s.Op.To%2 == 1 && s.Op.To <= 9
		switch path := at(i, ".op.scale.to"); {
		case !fair && !s.Op.Refused:
			found = append(found, r.say(path, Error, "S047", "write op: {scale: {to: N}, refused: true}", "a correct subject refuses %s", ringproof.Counted(s.Op.To, "voter"))...)
		case fair && s.Op.Refused && !r.withoutLaunchers():
			found = append(found, r.say(path, Warning, "S047", "", "%d voters are a fair size; why would a subject refuse them?", s.Op.To)...)
		}
	}
	need := largest(ring.Size, kept(r.plan.Steps))
	if ring.Machines < need {
		found = append(found, r.say("spec.ring.machines", Error, "S048", "", "%d machines can't hold %d voters", ring.Machines, need)...)
	} else if n := spares(r.plan.Steps); ring.Machines < need+n {
		found = append(found, r.say("spec.ring.machines", Warning, "S048", "without one the ring can't get back to its size", "%d machines leave no spare for what the steps lose or move (%d needed)", ring.Machines, need+n)...)
	}
	return found
}

// minors are the releases of etcd that ringproof knows: those that the simulated etcd is
// a model of, and that the subjects' flags are for.
var minors = []string{"v3.5", "v3.6", "v3.7"}

// releases judges the releases that the ring's members run, at first and later.
func (r review) releases() Diagnostics {
	ring := r.plan.Ring
	found := r.releaseAt("spec.ring.version", ring.Version)
	for _, machine := range slices.Sorted(maps.Keys(ring.Members)) {
		found = append(found, r.releaseAt("spec.ring.members."+machine+".version", ring.Members[machine].Version)...)
	}
	for i, s := range r.plan.Steps {
		if s.Op != nil && s.Op.Kind != ringproof.OpUpgrade {
			found = append(found, r.releaseAt(at(i, ".op.restart.version"), s.Op.Version)...)
		}
	}
	return append(found, r.upgrades()...)
}

// upgrades judges the releases that the ring is asked to run one after the other: up
// within a minor, or to the next; and back to the one before, while nobody waits for the upgrade.
func (r review) upgrades() (found Diagnostics) {
	runs, before := r.plan.Ring.Version, ""
	for i, s := range r.plan.Steps {
		if s.Op == nil || s.Op.Kind != ringproof.OpUpgrade {
			continue
		}
		path, to := at(i, ".op.upgrade.version"), s.Op.Version
		unknown := r.releaseAt(path, to)
		switch fair := ringproof.Upgradable(runs, to) || to == before; {
		case s.Op.Refused && fair:
			found = append(found, r.say(path, Warning, "S064", "", "%s may follow %s; why would a subject refuse it?", to, runs)...)
		case s.Op.Refused:
		case !fair:
			found = append(found, r.say(path, Error, "S064", "write op: {upgrade: {to: V}, refused: true}, or go by the minor between", "a correct subject refuses %s after %s", to, runs)...)
		default:
			found, before = append(found, unknown...), ""
			if s.Detach && to != runs {
				before = runs
			}
			runs = to
		}
	}
	return found
}

// peers judges how members are to speak to each other, at first and later: from plain text
// to TLS, where clients speak that, and not back.
func (r review) peers() (found Diagnostics) {
	ring := r.plan.Ring
	speak := cmp.Or(ring.Peers, ring.Security)
	if ring.Security == "plain" && speak != ring.Security {
		found = append(found, r.say("spec.ring.peers", Error, "S065", "write ring: {security: tls}", "a ring whose clients speak plain text has no certificates")...)
	}
	for i, s := range r.plan.Steps {
		if s.Op == nil || s.Op.Kind != ringproof.OpPeers {
			continue
		}
		path, to := at(i, ".op.peers.peers"), s.Op.Peers
		switch fair := ring.Security == "tls" && to == "tls"; {
		case s.Op.Refused && fair:
			found = append(found, r.say(path, Warning, "S065", "", "peers of this ring may speak TLS; why would a subject refuse it?")...)
		case s.Op.Refused:
		case !fair || speak == to:
			found = append(found, r.say(path, Error, "S065", "write op: {peers: {to: plain}, refused: true}, or ring: {peers: plain} for one to be moved to tls", "peers go from plain text to TLS, beside clients that speak it: these speak %s", speak)...)
		default:
			speak = to
		}
	}
	return found
}

func (r review) releaseAt(path, release string) Diagnostics {
	if release == "" || slices.ContainsFunc(minors, func(minor string) bool { return strings.HasPrefix(release, minor+".") }) {
		return nil
	}
	return r.say(path, Error, "S054", "", "no etcd %s is known: there are %s", release, strings.Join(minors, ", "))
}

// names judges the faults about machines' names.
func (r review) names() (found Diagnostics) {
	for i, s := range r.plan.Steps {
		switch ring := r.plan.Ring; {
		case s.Fault == nil || s.Fault.Kind != ringproof.FaultNameStale:
		case ring.Domain == "":
			found = append(found, r.say(at(i, ".fault.name-stale"), Error, "S062", "write ring: {domain: ring.example.internal}", "the machines of this ring have no names")...)
		case ring.Security == "plain" && s.Fault.Answers == ringproof.AnswersOther:
			found = append(found, r.say(at(i, ".fault.name-stale.answers"), Error, "S063", "write ring: {security: tls}", "without TLS etcd may end of it, whatever the subject does")...)
		}
	}
	return found
}

// clusters judges what is done to a Kubernetes cluster, of which a ring of machines has none.
func (r review) clusters() (found Diagnostics) {
	if r.plan.Ring.On == ringproof.OnKubernetes {
		return nil
	}
	for i, s := range r.plan.Steps {
		if s.Fault == nil {
			continue
		}
		if e, known := faults.Lookup(s.Fault.Kind); known && e.OfCluster() {
			found = append(found, r.say(at(i, ".fault."+string(s.Fault.Kind)), Error, "S075", "write ring: {on: kubernetes}", "%s is done to a Kubernetes cluster, and this ring is one of machines", s.Fault.Kind)...)
		}
	}
	return found
}

// ending judges how the ring is deleted.
func (r review) ending() Diagnostics {
	if r.plan.End == nil {
		return nil
	}
	if r.plan.Ring.On != ringproof.OnKubernetes {
		return r.say("spec.end", Error, "S070", "write ring: {on: kubernetes}", "on machines nobody deletes a ring")
	}
	if r.plan.Withdraws() {
		return r.say("spec.end", Error, "S070", "leave out the end, or the ring-deleted", "the storage of a ring that is deleted and made anew stays")
	}
	return nil
}

// guesses are the machines that a step takes for members' by their names. Of more machines than
// voters those bootstrap the ring that come first: on a busy machine m3 came late, m4 was asked, and
// a correct subject was accused of what became of m3.
func (r review) guesses() Diagnostics {
	var found Diagnostics
	ring, hands := r.plan.Ring, 0
	for i, s := range r.plan.Steps {
		most := largest(ring.Size, r.plan.Steps[:i]) + hands
		if s.Fault != nil && s.Fault.Kind == ringproof.FaultForeignHand && s.Fault.Adds() != "" {
			hands++
		}
		if ring.On != "" || most >= ring.Machines || s.Early() {
			continue
		}
		if s.Fault != nil && faults.Form(s.Fault.Target) == "mN" {
			found = append(found, r.guess(at(i, ".fault."+string(s.Fault.Kind)+".target"), s.Fault.Target, "write voter/N, which is the Nth voter by name")...)
		}
		if s.Assert == nil || s.Assert.Stayed == nil {
			continue
		}
		if named := slices.IndexFunc(*s.Assert.Stayed, func(who string) bool { return faults.Form(who) == "mN" }); named >= 0 {
			found = append(found, r.guess(at(i, ".assert.ring.stayed"), (*s.Assert.Stayed)[named], "write stayed: [founders]")...)
		}
	}
	return found
}

func (r review) guess(path, name, help string) Diagnostics {
	return r.say(path, Warning, "S071", help, "%s may have no member: %d machines come, and the ring is bootstrapped by the %d that come first", name, r.plan.Ring.Machines, r.plan.Ring.Size)
}

// asserted judges the numbers of voters that are asserted. A request that is detached
// may have been met or not.
func (r review) asserted() Diagnostics {
	var found Diagnostics
	asked := []int{r.plan.Ring.Size}
	for i, s := range r.plan.Steps {
		switch {
		case s.Op != nil && s.Op.Kind == ringproof.OpScale && !s.Op.Refused:
			asked = append(asked, s.Op.To)
		case s.Assert != nil && s.Assert.Voters > 0 && !slices.Contains(asked, s.Assert.Voters):
			found = append(found, r.say(at(i, ".assert.ring.voters"), Warning, "S055", "scale the ring before, or assert what it has", "%d voters are asserted, and nothing before asks for them", s.Assert.Voters)...)
		}
	}
	return found
}

// outlasted finds asserts of a ring of which a member can't serve yet: the fault that keeps it
// from that has no end of its own, and no machine is there that could take its place.
func (r review) outlasted() Diagnostics {
	var found Diagnostics
	voters, since := r.plan.Ring.Size, -1
	for i, s := range r.plan.Steps {
		switch {
		case s.Op != nil && s.Op.Kind == ringproof.OpScale && !s.Op.Refused:
			voters = s.Op.To
		case s.Fault != nil && silences(*s.Fault) && faults.MostVoters(s.Fault.Target, voters) > 0:
			since = i
		case s.Assert != nil && s.Assert.OfRing() && since >= 0 && voters >= r.plan.Ring.Machines:
			last := r.plan.Steps[since]
			help := fmt.Sprintf("write for: in %s, or leave the end to the checks: converges judges it", last.Name)
			found = append(found, r.say(at(i, ".assert.ring"), Warning, "S073", help, "members that don't serve meet no assert of the ring, and %s lasts until all faults end", last.Name)...)
		}
	}
	return found
}

// silences reports whether a member that the fault hits serves nobody before all faults end.
func silences(f ringproof.Fault) bool {
	switch f.Kind {
	case ringproof.FaultDiskFull:
		return f.For == 0
	case ringproof.FaultPause:
		return f.For == 0 && f.Scope != "agent"
	case ringproof.FaultKill:
		return f.For == 0 && f.Scope == "machine"
	}
	return false
}

var flagName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// flags judges the flags that etcd is given, and whom.
func (r review) flags() Diagnostics {
	ring := r.plan.Ring
	found := r.flagsAt("spec.ring.flags", ring.Flags)
	for _, machine := range slices.Sorted(maps.Keys(ring.Members)) {
		path := "spec.ring.members." + machine
		if n, ok := strings.CutPrefix(machine, "m"); !ok || !numbered(n, ring.Machines) {
			found = append(found, r.say(path, Error, "S053", "", "there is no machine %q: they are m1 to m%d", machine, ring.Machines)...)
		}
		found = append(found, r.flagsAt(path+".flags", ring.Members[machine].Flags)...)
		found = append(found, r.lacksAt(path+".lacks", machine)...)
	}
	for i, s := range r.plan.Steps {
		if s.Op != nil {
			found = append(found, r.flagsAt(at(i, ".op.restart.flags"), s.Op.Flags)...)
		}
	}
	return found
}

// lacksAt judges the releases that a machine doesn't have: nobody runs one, its own etcd is of it,
// or it is the last: an agent that has no etcd at all doesn't start.
func (r review) lacksAt(path, machine string) Diagnostics {
	var found Diagnostics
	if len(r.plan.VersionsOn(machine)) == 0 && r.plan.Ring.On != ringproof.OnKubernetes {
		return r.say(path, Error, "S053", "have it be absent at the start by fault: {kill: {target: "+machine+", scope: machine}}", "%s lacks every release that members run", machine)
	}
	for _, version := range r.plan.Ring.Members[machine].Lacks {
		switch {
		case r.plan.Ring.On == ringproof.OnKubernetes:
			found = append(found, r.say(path, Error, "S053", "", "a pod's etcd is of its image, which every node has")...)
		case !slices.Contains(r.plan.Versions(), version):
			found = append(found, r.say(path, Error, "S053", "", "%s lacks %s, which no member is asked to run", machine, version)...)
		case r.plan.Ring.Members[machine].Version == version:
			found = append(found, r.say(path, Error, "S053", "", "%s lacks the release that its own etcd is of", machine)...)
		}
	}
	return found
}

func numbered(text string, most int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 1 && n <= most && strconv.Itoa(n) == text
}

func (r review) flagsAt(path string, flags map[string]string) Diagnostics {
	var found Diagnostics
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		switch {
		case !flagName.MatchString(name):
			found = append(found, r.say(path+"."+name, Error, "S053", "write it as etcd has it, without its dashes: quota-backend-bytes", "%q is no flag", name)...)
		case r.decoder.known.sets(name):
			found = append(found, r.say(path+"."+name, Error, "S053", "", "the subject sets %s itself", name)...)
		}
	}
	return found
}

// kept is the steps without requests that are taken back on their way: what nobody
// waits for need not be possible.
func kept(steps []ringproof.Step) []ringproof.Step {
	var all []ringproof.Step
	for i, s := range steps {
		again := slices.ContainsFunc(steps[i+1:], func(later ringproof.Step) bool { return later.Op != nil && later.Op.Kind == ringproof.OpScale })
		if s.Op == nil || s.Op.Kind != ringproof.OpScale || !s.Detach || !again {
			all = append(all, s)
		}
	}
	return all
}

// losses counts what is taken for good until an assert says that the ring has
// recovered. It is the ledger's rule as far as it can be known beforehand.
func (r review) losses() Diagnostics {
	var found Diagnostics
	voters, lost, beyond := r.plan.Ring.Size, 0, false
	for i, s := range r.plan.Steps {
		switch before := voters; {
		case s.Op != nil && s.Op.Kind == ringproof.OpScale && !s.Op.Refused:
			voters = max(s.Op.To, 1)
			if s.Detach {
				voters = min(before, voters) // it may not have got far
			}
		case s.Assert != nil && s.Assert.Voters > 0:
			voters, lost = s.Assert.Voters, 0
		case s.Fault != nil && s.Fault.Permanent():
			lost += faults.MostVoters(s.Fault.Target, voters)
			if left := max(0, voters-lost); lost > 0 && left < ringproof.Quorum(voters) {
				beyond = true
				found = append(found, r.beyond(i, voters, left)...)
			}
		}
	}
	if r.plan.Mode == ringproof.ModeDisaster {
		found = nil
		if !beyond {
			found = r.say("spec.mode", Warning, "S049", "", "mode disaster, and a quorum survives every loss")
		}
	}
	return found
}

func (r review) beyond(i, voters, left int) Diagnostics {
	help := "assert the ring's voters before the next loss, or say mode: disaster"
	return r.say(at(i, ".fault"), Error, "S043", help, "beyond tolerance: of %d voters %d would keep their log, a quorum is %d", voters, left, ringproof.Quorum(voters))
}

// order judges what names other steps.
func (r review) order(i int) Diagnostics {
	var found Diagnostics
	s := r.plan.Steps[i]
	for j, name := range s.Join {
		path := at(i, fmt.Sprintf(".join[%d]", j))
		k := r.before(i, name)
		if k < 0 {
			found = append(found, r.unknownStep(path, name, i)...)
		} else if !r.plan.Steps[k].Detach && !r.plan.Steps[k].Early() {
			found = append(found, r.say(path, Warning, "S042", "", "step %q isn't detached; it is done already", name)...)
		}
	}
	if s.After != nil && s.After.Step != "" && r.before(i, s.After.Step) < 0 {
		found = append(found, r.unknownStep(at(i, ".after.step"), s.After.Step, i)...)
	}
	targets := r.targetsOf(i)
	for _, path := range slices.Sorted(maps.Keys(targets)) {
		if name, is := faults.OfStep(targets[path]); is && r.before(i, name) < 0 {
			found = append(found, r.unknownStep(path, name, i)...)
		}
	}
	if s.Detach && !r.joined(i) {
		found = append(found, r.say(at(i, ".detach"), Warning, "S045", "", "no step joins %q", s.Name)...)
	}
	return found
}

// targetsOf are the selectors of a step, by their paths.
func (r review) targetsOf(i int) map[string]string {
	all := map[string]string{}
	if f := r.plan.Steps[i].Fault; f != nil {
		kind := at(i, ".fault."+string(f.Kind))
		all[kind+".target"], all[kind+".from"] = f.Target, f.From
	}
	if op := r.plan.Steps[i].Op; op != nil {
		all[at(i, ".op."+string(op.Kind)+".target")] = op.Target
	}
	return all
}

// before returns the index of the step with that name, if it stands before i.
func (r review) before(i int, name string) int {
	return slices.IndexFunc(r.plan.Steps[:i], func(s ringproof.Step) bool { return s.Name == name })
}

func (r review) joined(i int) bool {
	return slices.ContainsFunc(r.plan.Steps[i+1:], func(s ringproof.Step) bool { return slices.Contains(s.Join, r.plan.Steps[i].Name) })
}

func (r review) unknownStep(path, name string, i int) Diagnostics {
	var names []string
	for _, s := range r.plan.Steps[:i] {
		names = append(names, s.Name)
	}
	help := "no step stands before this one"
	if len(names) > 0 {
		help = "the steps before this one are " + strings.Join(names, ", ")
	}
	c := complaint{"S041", fmt.Sprintf("unknown step %q", name), names}
	return Diagnostics{r.decoder.text.at(r.decoder.placed(path), Error, c, help)}
}

// trigger asks whether anything before step i can cause its event.
func (r review) trigger(i int) Diagnostics {
	t := r.plan.Steps[i].After
	if t == nil || r.plan.Steps[i].Early() || t.Step != "" && r.before(i, t.Step) < 0 {
		return nil
	}
	voters := r.plan.Ring.Size
	for _, s := range r.plan.Steps[:i] {
		if (t.Step == "" || t.Step == s.Name) && r.causes(s, voters, t) {
			return nil
		}
		if s.Op != nil && s.Op.Kind == ringproof.OpScale && !s.Op.Refused {
			voters = s.Op.To
		}
	}
	path := at(i, ".after.event")
	if t.Action != "" {
		return r.say(path, Error, "S040", "", "no step before this one causes %s of action %s", t.Event, t.Action)
	}
	return r.say(path, Error, "S040", "", "no step before this one causes %s", t.Event)
}

// causes reports whether the step, taken at that many voters, may cause what the
// trigger waits for. In doubt it says yes: a false error is worse here.
func (r review) causes(s ringproof.Step, voters int, t *ringproof.Trigger) bool {
	events := faults.Causes(s, voters, r.plan.Plan)
	own := slices.Collect(maps.Values(r.plan.Ring.Members)) // order: any one is enough
	if slices.ContainsFunc(append(own, ringproof.Own{Flags: r.plan.Ring.Flags}), func(o ringproof.Own) bool { return o.Flags["quota-backend-bytes"] != "" }) {
		events = append(events, ringproof.EventAlarm) // clients fill it
	}
	if !slices.Contains(events, t.Event) {
		return false
	}
	needs := map[string]ringproof.EventKind{
		"bootstrap":   ringproof.EventRingCreated, // before the first step, so never
		"add-learner": ringproof.EventMemberAdded, "bind": ringproof.EventMemberAdded, "promote": ringproof.EventMemberPromoted,
		"remove": ringproof.EventMemberRemoved, "clear": ringproof.EventMemberRemoved, "move-leader": ringproof.EventLeaderChanged,
	}
	need, known := needs[t.Action]
	if t.Action == "bind" && r.withoutLaunchers() && s.Op != nil && s.Op.Kind == ringproof.OpPeers {
		return true // those who get launchers get records
	}
	return !known || slices.Contains(events, need)
}

// withoutLaunchers reports whether the ring begins as one of pods in which etcd runs alone.
func (r review) withoutLaunchers() bool {
	return r.plan.Ring.On == ringproof.OnKubernetes && r.plan.Ring.Peers == "plain"
}

// claims judges whom an assert names, and its pattern.
func (r review) claims(i int) Diagnostics {
	var found Diagnostics
	a := *r.plan.Steps[i].Assert
	for _, name := range a.Machines() {
		before := slices.ContainsFunc(r.plan.Steps[:i], func(s ringproof.Step) bool { return s.Name == name && s.Assert == nil })
		if !before && !r.machine(name) {
			found = append(found, r.say(at(i, ".assert.ring"), Error, "S016", "a machine is m1 to "+fmt.Sprintf("m%d", r.plan.Ring.Machines)+"; a step before this one stands for the machines that its fault hit or its operation was about, and founders for those that the ring began with", "the assert names %q, which is no machine, and no fault or operation before it", name)...)
		}
	}
	if _, err := regexp.Compile(a.Said); err != nil {
		found = append(found, r.say(at(i, ".assert.subject.said"), Error, "S060", "", "the pattern %q can't be read: %v", a.Said, err)...)
	}
	return found
}

// machine reports whether the ring has a machine of that name.
func (r review) machine(name string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "m"))
	return err == nil && 1 <= n && n <= r.plan.Ring.Machines && name == fmt.Sprintf("m%d", n)
}

// step judges one step by itself.
func (r review) step(i int) Diagnostics {
	var found Diagnostics
	form, s := r.form.Spec.Steps[i], r.plan.Steps[i]
	if a := s.Assert; a != nil {
		if a.Empty() {
			found = append(found, r.say(at(i, ".assert"), Error, "S028", "", "the assert asks for nothing")...)
		}
		if a.Halted && r.plan.Mode != ringproof.ModeDisaster {
			found = append(found, r.say(at(i, ".assert.halted"), Error, "S049", "", "only mode disaster asks a subject to halt")...)
		}
		if form.Timeout > 0 && form.Timeout < a.Within {
			found = append(found, r.say(at(i, ".timeout"), Error, "S046", "", "the step ends after %s, its assert may take %s", form.Timeout, a.Within)...)
		}
	}
	if s.Assert != nil {
		found = append(found, r.claims(i)...)
	}
	if s.After != nil && s.After.Delay >= s.After.Timeout {
		found = append(found, r.say(at(i, ".after.delay"), Error, "S046", "", "the delay of %s is no shorter than the trigger's timeout of %s", s.After.Delay, s.After.Timeout)...)
	}
	if f := s.Fault; f != nil && f.Kind == ringproof.FaultDiskSwap {
		size := largest(r.plan.Ring.Size, r.plan.Steps)
		if n := faults.MostVoters(f.Target, size); f.Target != "all" && n < 2 {
			found = append(found, r.say(at(i, ".fault.disk-swap.target"), Error, "S016", "write m1,m2, or majority", "%s of %d voters is %d machine, and a swap needs two", f.Target, size, n)...)
		}
	}
	return found
}

// portable asks whether the world can run the cell.
func (r review) portable(world World, worlds []string) Diagnostics {
	if name := world.Name(); name != "" && len(worlds) > 0 && !slices.Contains(worlds, name) {
		return r.say("spec.worlds", NotApplicable, "S044", "", "the scenario is for %s, not for %s", strings.Join(worlds, ", "), name)
	}
	severity := func(err error) Severity {
		if errors.Is(err, ringproof.ErrHost) {
			return Skipped
		}
		return NotApplicable
	}
	var found Diagnostics
	if rings, ok := world.(Chooser); ok {
		if err := rings.Runs(r.plan.Plan); err != nil {
			found = r.say("spec.ring", severity(err), "S044", "", "the ring can't be had in world %s: %v", world.Name(), err)
		}
	}
	for i, s := range r.plan.Steps {
		if err := world.Supports(s); err != nil {
			found = append(found, r.say(at(i, ""), severity(err), "S044", "", "step %q can't be done in world %s: %v", s.Name, world.Name(), err)...)
		}
	}
	if end := r.plan.End; end != nil && end.Fault != nil {
		if err := world.Supports(end.Step()); err != nil {
			found = append(found, r.say("spec.end", severity(err), "S044", "", "the fault at the end can't be done in world %s: %v", world.Name(), err)...)
		}
	}
	return found
}
