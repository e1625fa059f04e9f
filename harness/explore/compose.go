// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/scenarios"
)

// Scenario is the name of generated plans.
const Scenario = "explore"

const (
	mostOps    = 4
	mostFaults = 8
	mostVoters = 9
	second     = ringproof.Duration(time.Second)
	day        = ringproof.Duration(24 * time.Hour)
	longRest   = 300 * second // that few plans are watched for: it costs as much as ten others

	// restart is how long a ring without a voter to spare may miss the one that is
	// restarted: its agent asks each member first, and etcd those that are lost, five
	// seconds each, whether their data are the same.
	restart = 20 * second
)

// Plan composes the genome's plan. Its noise is that of the seed.
func (g Genome) Plan(seed uint64) ringproof.Plan { return Compose(g.Draw, seed) }

// PlanOn composes its plan of a ring on a platform, as RingSpec.On has it; "": on machines.
func (g Genome) PlanOn(platform string, seed uint64) ringproof.Plan {
	if platform == ringproof.OnKubernetes {
		return ComposeInPods(g.Draw, seed)
	}
	return g.Plan(seed)
}

// Compose makes a plan of draws. Every plan is fair: it asks for sizes that a
// correct subject takes, has the machines for what it loses, and allows the
// time that its own faults take; what else would be unfair, the ledger
// downgrades at run time.
func Compose(draw Draw, seed uint64) ringproof.Plan {
	c := composer{draw: draw, plan: ringproof.Plan{
		Cell: scenarios.Cell{Scenario: Scenario, Seed: seed, Seeded: true}.String(), Scenario: Scenario, Seed: seed,
		Subject: "reference", World: "sim",
		Hypothesis: "Under fair faults no acknowledged write is lost, the quorum is kept, and the ring becomes what was asked for.",
	}}
	c.ring()
	if weighted(draw, "ring/mode", 15, 1) == 1 {
		c.disaster()
	} else {
		c.safe()
	}
	c.load()
	c.judged()
	c.named()
	return c.plan
}

// composer is a plan in the making.
type composer struct {
	draw Draw
	plan ringproof.Plan

	kinds  []faults.Entry // the faults of this plan
	ops    []ringproof.OpKind
	asked  int // voters that were asked for last
	fewest int // voters that there may be now
	most   int // voters ever asked for
	spares int // machines that faults and operations use up
	unfit  int // faults in which a machine can start no etcd for so long that another takes its place, if one can
	// Faults of that kind which don't last so long, unless time passes in it; ages: it does.
	briefly int
	ages    bool
	aims    int                // 1 when a fault aims at a spare
	faulty  ringproof.Duration // how long the faults last, one after another
	joins   []string

	lengths   []ringproof.Duration // of faults and absences
	focus     string               // a machine that many of the faults aim at; "": none
	hit       string               // the fault step before, where it hits one voter at most
	rewound   ringproof.Duration   // how old the copy is that the step before puts back; 0: it puts none back
	founding  int                  // how many of the first faults meet the bootstrap
	suspended bool                 // the ring is to be left as it is
	turns     []turn               // what every member is asked for
	release   string               // that all members are to run in the end; "": nobody asks
}

// operator is the load that asks for alarms, and does what etcd's guide says about them.
const operator = "operator"

var (
	versions  = []string{"v3.6.16", "v3.5.35", "v3.7.3"}
	retention = []ringproof.Duration{10 * second, 5 * second, 60 * second} // no less than a member takes to come up
	snapshots = []int{0, 10, 50, 500}
	profiles  = []string{"kv-txn-watch", "kv", "patient-watch", "progress-watch", "tombstone-watch"}
	tools     = []string{operator, "apiserver"} // that ask what few clients do

	// domains are what machines' names are in. The last leaves room for m32.
	domains = []string{"", "ring.example.internal", strings.Repeat(strings.Repeat("long", 15)+"-az.", 3) + strings.Repeat("ring.", 8) + "example.internal"}

	// newer is the release that a ring's next upgrade goes to.
	newer = map[string]string{"v3.5.35": "v3.6.16", "v3.6.16": "v3.7.3"}
)

func (c *composer) ring() {
	size := []int{1, 3, 5, 7, 9}[weighted(c.draw, "ring/size", 4, 24, 12, 2, 1)]
	c.asked, c.fewest, c.most = size, size, size
	c.plan.Ring = ringproof.RingSpec{
		Size: size, Version: versions[weighted(c.draw, "ring/version", 2, 1, 1)],
		Security:     []string{"plain", "tls"}[weighted(c.draw, "ring/security", 1, 2)],
		ReplaceAfter: one(c.draw, "ring/replaceAfter", retention...),
		SnapCount:    one(c.draw, "ring/snapCount", snapshots...),
		Volume:       512 << 20,
	}
	if c.draw("ring/fast", 3) == 2 {
		c.plan.Ring.Heartbeat, c.plan.Ring.Election = ringproof.Duration(50*time.Millisecond), ringproof.Duration(500*time.Millisecond)
	}
}

// flags gives all members flags that a correct subject must pass on, and that
// let the ring go on as before, and one of them its own.
func (c *composer) flags() {
	for _, to := range []struct {
		label string
		set   func(map[string]string)
	}{
		{"ring/flags", func(flags map[string]string) { c.plan.Ring.Flags = flags }},
		{"ring/own", func(flags map[string]string) {
			c.plan.Ring.Members = map[string]ringproof.Own{fmt.Sprintf("m%d", 1+c.draw("ring/whose", c.plan.Ring.Machines)): {Flags: flags}}
		}},
	} {
		switch c.draw(to.label, 12) {
		case 9:
			to.set(map[string]string{quota: "1073741824"})
		case 10:
			to.set(map[string]string{"auto-compaction-mode": "revision", "auto-compaction-retention": "1000"})
		case 11:
			to.set(map[string]string{"pre-vote": "false"})
		}
	}
}

// upgraded has one member run the next release. A member of an older one can't
// join once no voter is as old, so two at least always are.
func (c *composer) upgraded() {
	release, few := newer[c.plan.Ring.Version], c.plan.Ring.Size < 3
	for _, s := range c.plan.Steps {
		few = few || s.Op != nil && s.Op.Kind == ringproof.OpScale && s.Op.To < 3
	}
	if few || release == "" || c.release != "" || c.draw("ring/upgraded", 6) != 5 {
		return
	}
	machine := fmt.Sprintf("m%d", 1+c.draw("ring/which", c.plan.Ring.Machines))
	own := c.plan.Ring.Members[machine]
	own.Version = release
	if c.plan.Ring.Members == nil {
		c.plan.Ring.Members = map[string]ringproof.Own{}
	}
	c.plan.Ring.Members[machine] = own
}

// profile is what the clients do. The tools are drawn apart, so that all else
// that a seed gives stays as it was.
func (c *composer) profile() string {
	if tool := c.draw("load/tool", 8) - 6; tool >= 0 {
		return tools[tool]
	}
	return profiles[weighted(c.draw, "load/profile", 10, 3, 1, 1, 1)]
}

// named has the machines of some rings known by name, which is short, or about as long
// as a name may be.
func (c *composer) named() {
	c.plan.Ring.Domain = domains[weighted(c.draw, "ring/domain", 28, 2, 1)]
}

func (c *composer) load() {
	c.plan.Assumptions.MinAcked = 10
	c.plan.Workload = ringproof.Workload{
		Profile: c.profile(),
		Clients: 1 + c.draw("load/clients", 6),
		Keys:    one(c.draw, "load/keys", 8, 1, 3, 20),
		Rate:    one(c.draw, "load/rate", 20.0, 40, 80),
	}
	asks := func(s ringproof.Step) bool { return s.Op != nil }
	if c.plan.Workload.Profile == operator && !slices.ContainsFunc(c.plan.Steps, asks) && c.draw("load/growth", 4) > 0 {
		c.outgrows()
	}
}

const quota = "quota-backend-bytes"

// outgrows gives every member so little room that its keyspace may reach the quota while clients
// write. The load's operator makes room then, and takes the alarm back, time and again: a ring that
// is to be changed meanwhile may not come to it, as each change is also a write.
func (c *composer) outgrows() {
	c.faulty += 120 * second
	if c.plan.Ring.Flags == nil {
		c.plan.Ring.Flags = map[string]string{}
	}
	c.plan.Ring.Flags[quota] = one(c.draw, "load/quota", "500000", "250000")
}

// safe is a plan whose faults a correct subject survives.
func (c *composer) safe() {
	c.swarm()
	c.temper()
	ops, hits := 0, 0
	if len(c.ops) > 0 {
		ops = c.draw("ops/count", mostOps+1)
	}
	if len(c.kinds) > 0 {
		hits = c.draw("faults/count", mostFaults+1)
	}
	if c.outlasts() {
		hits = min(hits, mostPatient)
	}
	c.inTurn(ops)
	places := make([][]int, ops+1)
	for i := range hits {
		at := c.draw(fmt.Sprintf("fault/%d/place", i+1), ops+1)
		places[at] = append(places[at], i+1)
	}
	for at, here := range places {
		var way []ringproof.Trigger // the first fault after an operation may meet it on its way
		if at > 0 {
			way = c.operation(at)
		}
		if begun := c.begin(at); len(begun) > 0 {
			way = begun
		}
		for _, n := range here {
			c.fault(n, way)
			way = nil
		}
	}
	c.settle()
	c.plan.Ring.Machines = c.machines()
	if c.draw("ring/crowd", 16) == 15 {
		c.plan.Ring.Machines = max(c.plan.Ring.Machines, 11) // names that letters and numbers order otherwise
	}
	c.flags()
	c.upgraded()
	c.forgotten()
}

// forgotten has a store be put back as it was made only where somebody can tell it what it has forgotten: there is
// no machine but those of the ring, so that not all that come to it are new, and nothing was asked for that the
// store alone may know.
func (c *composer) forgotten() {
	asks := func(s ringproof.Step) bool { return s.Op != nil }
	told := c.founding == 0 && c.plan.Ring.Machines == c.plan.Ring.Size && !slices.ContainsFunc(c.plan.Steps, asks)
	for _, s := range c.plan.Steps {
		switch f := s.Fault; {
		case f == nil || f.Kind != ringproof.FaultStoreLost || f.Leave != ringproof.LeaveMade:
		case told:
			f.For = 0
		default:
			f.Leave = "nothing"
		}
	}
}

// machines is how many the plan needs. One on which etcd can't start for long gives
// its member up to a spare, or as the ring shrinks, and nobody comes back to it for
// ten minutes: whatever needs it sooner needs another in its stead. In a ring that
// keeps its size and has no spare it keeps its member.
func (c *composer) machines() int {
	n := c.most + c.spares + max(c.aims, c.draw("ring/spares", 2))
	scales := func(s ringproof.Step) bool { return s.Op != nil && s.Op.Kind == ringproof.OpScale }
	if n > c.plan.Ring.Size || slices.ContainsFunc(c.plan.Steps, scales) {
		n += c.unfit
	}
	return n
}

// A fault that lasts longer than those who wait are patient is another thing to
// them, and a long one costs time: so only some plans have any, and fewer of them.
const mostPatient = 4

// outlasts reports whether a fault may outlast everybody's patience.
func (c *composer) outlasts() bool { return len(c.lengths) > len(lengths) }

// temper chooses what the plan's faults have in common: how long they last, whether
// they meet the bootstrap, and whether one machine gets more than its share.
func (c *composer) temper() {
	c.lengths = lengths
	if c.draw("temper/patience", 5) == 4 {
		c.plan.Ring.ReplaceAfter = min(c.plan.Ring.ReplaceAfter, retention[0])
		c.lengths = slices.Concat(lengths, around(c.plan.Ring.ReplaceAfter))
		c.spares = c.draw("temper/spares", 2)
	}
	if c.draw("temper/focus", 4) == 3 {
		c.focus = fmt.Sprintf("m%d", 1+c.draw("temper/machine", min(c.plan.Ring.Size, 3)))
	}
	if c.draw("temper/founding", 5) == 4 {
		c.founding = 1 + c.draw("temper/early", 3)
	}
}

// around lists lengths just below, just above and well above what the reference
// waits for: its lease, an absence, both after one another, a blank disk with
// another's name, and a learner that doesn't come up.
func around(replaceAfter ringproof.Duration) []ringproof.Duration {
	const lease, adoption, comeUp, most = 5 * second, 15 * second, 30 * second, 60 * second
	var all []ringproof.Duration
	for _, patience := range []ringproof.Duration{lease, replaceAfter, lease + replaceAfter, adoption, comeUp} {
		for _, length := range []ringproof.Duration{patience - second, patience + 2*second, 2 * patience} {
			if length <= most {
				all = append(all, length)
			}
		}
	}
	return all
}

// swarm chooses what this plan may do at all: plans that each lack something
// find more than plans that all do a little of everything.
func (c *composer) swarm() {
	for _, e := range faults.All() {
		if slices.Contains(e.Worlds, "sim") && c.draw("swarm/"+string(e.Kind), 2) == 1 {
			c.kinds = append(c.kinds, e)
		}
	}
	for _, o := range faults.Operations() {
		if !o.Beside && !o.Undrawn && !inTurn(o.Kind) && slices.Contains(o.Worlds, "sim") && c.draw("swarm/"+string(o.Kind), 2) == 1 {
			c.ops = append(c.ops, o.Kind)
		}
	}
	c.nameable()
	if slices.Contains(c.ops, ringproof.OpSuspend) {
		// Nobody repairs the records of a ring that is suspended, and no member that is
		// restarted may start without its own.
		c.kinds = slices.DeleteFunc(c.kinds, func(e faults.Entry) bool { return e.Kind == ringproof.FaultKeysDamaged })
	}
}

// nameable keeps what is about names only where machines have them, and gives some of the
// rings names for it.
func (c *composer) nameable() {
	about := func(e faults.Entry) bool { return e.Kind == ringproof.FaultNameStale }
	switch {
	case c.plan.Ring.Domain != "" || !slices.ContainsFunc(c.kinds, about):
	case c.draw("ring/named", 5) == 0:
		c.plan.Ring.Domain = domains[1]
	default:
		c.kinds = slices.DeleteFunc(c.kinds, about)
	}
}

func (c *composer) add(s ringproof.Step) {
	s.Timeout = cmp.Or(s.Timeout, 60*second)
	if c.rewound > 0 && s.Assert == nil && !s.Early() {
		s.After = &ringproof.Trigger{Event: ringproof.EventStepBegun, Nth: 1, Delay: c.rewound + 20*second, Timeout: c.rewound + 40*second}
		c.rewound = 0
	}
	if s.Fault != nil {
		c.rewound = max(c.rewound, ringproof.Duration(s.Fault.Age()))
	}
	c.plan.Steps = append(c.plan.Steps, s)
	if s.Detach {
		c.joins = append(c.joins, s.Name)
	}
}

// operation adds the nth operation, and returns what happens on its way. Most
// are detached, so that faults meet them half done.
func (c *composer) operation(n int) []ringproof.Trigger {
	label := func(what string) string { return fmt.Sprintf("op/%d/%s", n, what) }
	op := &ringproof.Op{Kind: one(c.draw, label("kind"), c.ops...)}
	step := ringproof.Step{Name: fmt.Sprintf("op-%d", n), Op: op, After: c.soon(label), Detach: c.draw(label("detach"), 4) > 0}
	restarts := op.Kind == ringproof.OpRoll || op.Kind == ringproof.OpRestart
	if c.suspended && (restarts || c.draw(label("resume"), 2) == 1) {
		op.Kind = ringproof.OpResume // a member that lost its disk meanwhile serves again only once it is replaced
	}
	more := 0
	switch op.Kind {
	case ringproof.OpScale:
		more = c.scale(op, label)
		step.Timeout = 120 * second
	case ringproof.OpReplace:
		c.spares++
		fallthrough
	case ringproof.OpMoveLeader:
		op.Target = c.aim(label("target"), "leader", "follower", "voter")
	case ringproof.OpRestart, ringproof.OpRoll:
		c.restart(&step, label)
	case ringproof.OpReset:
		c.faulty += restart
		op.Target = c.aim(label("target"), "leader", "follower", "voter", "spare")
		if op.Target == "spare" {
			c.aims = 1
		}
		if c.draw(label("asks"), 2) == 1 {
			op.Endpoint = one(c.draw, label("endpoint"), c.present("m1", "voter", "follower", "leader")...)
		}
	case ringproof.OpSuspend, ringproof.OpResume:
		c.suspended = op.Kind == ringproof.OpSuspend
	default:
		c.asCatalogued(op, label)
	}
	c.fallBehind(step.Name, label)
	c.add(step)
	c.changeOfMind(step, label)
	c.question(step.Name, label)
	return milestones(*op, more)
}

// asCatalogued draws the parameters of an operation of which nothing more is known than
// its entry.
func (c *composer) asCatalogued(op *ringproof.Op, label func(string) string) {
	entry, _ := faults.LookupOperation(op.Kind)
	for _, p := range entry.Params {
		if p.Type == faults.TypeTarget {
			faults.Put(op, p.Name, c.aim(label(p.Name), "leader", "follower", "voter"))
			continue
		}
		c.any(op, p, label(p.Name))
	}
}

// fallBehind has thousands of entries written before an operation, while the disk of one
// voter is slow: it answers like any other, and is far behind when the operation begins.
func (c *composer) fallBehind(name string, label func(string) string) {
	slow := func(e faults.Entry) bool { return e.Kind == ringproof.FaultSlowDisk }
	if c.draw(label("surges"), 8) < 7 || c.fewest < 3 || !slices.ContainsFunc(c.kinds, slow) {
		return
	}
	f := ringproof.Fault{Kind: ringproof.FaultSlowDisk, Target: one(c.draw, label("behind"), c.present("follower", "follower/2", "leader")...),
		By: one(c.draw, label("behind-by"), 3*second, 2*second, 4*second), For: one(c.draw, label("behind-for"), 4*second, 8*second, 2*second)}
	c.charge(f)
	c.add(ringproof.Step{Name: name + "-slow", Fault: &f, After: c.soon(func(what string) string { return label("behind-" + what) })})
	c.add(ringproof.Step{Name: name + "-surge", Detach: true, Op: &ringproof.Op{Kind: ringproof.OpAsk, Target: c.aim(label("surged"), "leader", "follower", "voter"), Request: ringproof.AskSurge}})
}

// question has a member asked for something on the way of an operation.
func (c *composer) question(name string, label func(string) string) {
	if c.draw(label("asks"), 4) < 3 {
		return
	}
	c.add(ringproof.Step{Name: name + "-asks", Detach: true, After: c.later(func(what string) string { return label("asks-" + what) }), Op: &ringproof.Op{
		Kind: ringproof.OpAsk, Target: c.aim(label("asked"), "leader", "follower", "voter"),
		Request: one(c.draw, label("request"), "defrag", "snapshot", "compact", "alarms", "hash", "status", "disarm"),
	}})
}

// scale asks for another size, and returns how many voters more than before.
func (c *composer) scale(op *ringproof.Op, label func(string) string) (more int) {
	sizes, weights := []int{1, 3, 5}, []int{1, 4, 4}
	if c.plan.Ring.Size > 5 || c.draw(label("many"), 12) == 11 {
		sizes, weights = []int{3, 5, 7, 9}, []int{1, 2, 2, 1}
	}
	op.To = sizes[weighted(c.draw, label("to"), weights...)]
	more = op.To - c.asked
	c.fewest = min(c.asked, op.To)
	c.asked, c.most = op.To, max(c.most, op.To)
	return more
}

// aim picks whom an operation is about.
func (c *composer) aim(label string, all ...string) string {
	target := one(c.draw, label, c.present(all...)...)
	if c.focus != "" && c.draw(label+"/focus", 2) == 1 {
		target = c.focus
	}
	return target
}

// restart ends one member or all in good order: with its agent, or by it.
func (c *composer) restart(step *ringproof.Step, label func(string) string) {
	op := step.Op
	op.Scope = []string{"process", "agent", "service", "machine"}[weighted(c.draw, label("scope"), 3, 2, 1, 2)]
	members := ringproof.Duration(c.most)
	if op.Kind == ringproof.OpRestart {
		members = 1
		op.Target = c.aim(label("target"), "leader", "follower", "voter")
		if op.Scope != "process" && c.draw(label("away"), 2) == 1 {
			op.For = one(c.draw, label("for"), c.lengths...)
		}
	}
	c.faulty += restart + op.For
	step.Timeout = 60*second + op.For + 15*second*members
}

// changeOfMind follows an operation by one that another operator asks at the same
// moment, or that takes it back.
func (c *composer) changeOfMind(step ringproof.Step, label func(string) string) {
	other := ringproof.Step{Name: step.Name + "-too", Detach: true, Timeout: 120 * second}
	switch turn := c.draw(label("mind"), 6); {
	case step.Op.Kind == ringproof.OpScale && turn == 5:
		c.spares++
		step.Op.Rival = true
		other.Op = &ringproof.Op{Kind: ringproof.OpReplace, Target: c.aim(label("also"), "follower", "leader", "voter")}
		c.detach(step.Name)
	case step.Op.Kind == ringproof.OpScale && turn == 4:
		// There are not so many machines, in most plans; what is asked for in the end there is.
		much := ringproof.Op{Kind: ringproof.OpScale, To: mostVoters}
		c.add(ringproof.Step{Name: step.Name + "-much", Op: &much, Detach: true, Timeout: 120 * second})
		other.Op, other.After = &ringproof.Op{Kind: ringproof.OpScale, To: c.asked}, c.later(label)
	case step.Op.Kind == ringproof.OpReplace && turn >= 4:
		other.Op, other.After = &ringproof.Op{Kind: ringproof.OpCancelReplace}, c.later(label)
		c.detach(step.Name)
	case step.Op.Kind == ringproof.OpReplace && turn == 3:
		c.spares++
		other.Op, other.After = &ringproof.Op{Kind: ringproof.OpReplace, Target: c.aim(label("also"), "follower", "leader", "voter")}, c.later(label)
		c.detach(step.Name)
	default:
		return
	}
	c.add(other)
}

// detach makes a step that was added one that nobody waits for.
func (c *composer) detach(name string) {
	i := slices.IndexFunc(c.plan.Steps, func(s ringproof.Step) bool { return s.Name == name })
	if !c.plan.Steps[i].Detach {
		c.plan.Steps[i].Detach = true
		c.joins = append(c.joins, name)
	}
}

// later is some time after the step before began.
func (c *composer) later(label func(string) string) *ringproof.Trigger {
	delay := one(c.draw, label("later"), second/5, second/2, second, 2*second, 4*second, 8*second)
	return &ringproof.Trigger{Event: ringproof.EventStepBegun, Nth: 1, Delay: delay, Timeout: 20 * second}
}

// soon is a short time after the step before began; nil: at once, or at the
// beginning of all. Whichever step that was: one whose trigger never came must
// not take those after it along.
func (c *composer) soon(label func(string) string) *ringproof.Trigger {
	delay := one(c.draw, label("delay"), 0, second/5, second, 3*second, 6*second)
	early := func(s ringproof.Step) bool { return s.Early() }
	if delay == 0 || len(where(c.plan, early)) == len(c.plan.Steps) {
		return nil
	}
	return &ringproof.Trigger{Event: ringproof.EventStepBegun, Nth: 1, Delay: delay, Timeout: 20 * second}
}

// settle asks for what was asked for last.
func (c *composer) settle() {
	if c.suspended {
		c.add(ringproof.Step{Name: "resume", Op: &ringproof.Op{Kind: ringproof.OpResume}})
	}
	none := 0
	c.add(ringproof.Step{Name: "settle", Join: c.joins, Timeout: 120 * second,
		Assert: &ringproof.Assert{Within: 120 * second, Voters: c.asked, Learners: &none, HashKV: "equal", Release: c.release}})
}

// judged lists the checks that fit the plan, and gives what it asks for its time.
func (c *composer) judged() {
	for _, check := range scenarios.Standard().Checks {
		i := ringproof.Invariant{Check: check.Name}
		switch {
		case !check.Suits(c.plan):
			continue
		case check.Name == "available":
			i.Params = map[string]string{"maxGap": (15*second + c.faulty).String()}
		case check.Name == "quiescent" && c.draw("load/rest", 32) == 31:
			i.Params = map[string]string{"atLeast": longRest.String()}
		case check.Name == "upgrade-in-order" || check.Name == "restarts-in-turn":
			i.Params = map[string]string{"least": "0"} // a fault may be why each ends, or another has its place
		case check.Name == "converges":
			i.Params = map[string]string{"within": c.recovery().String()}
		}
		c.plan.Invariants = append(c.plan.Invariants, i)
	}
	if c.plan.Mode == ringproof.ModeSafe {
		c.patient()
	}
}

// recovery is the time that a ring may take once no fault lasts: what is absent
// for replaceAfter is replaced, and one request after another fulfilled.
func (c *composer) recovery() ringproof.Duration {
	return 60*second + c.plan.Ring.ReplaceAfter*ringproof.Duration(1+c.spares) + 20*second*ringproof.Duration(len(c.joins)) + c.takingTurns()
}

// patient gives each operation and assert the time of all faults of the plan, and
// then that of the recovery: any of it may fall into theirs.
func (c *composer) patient() {
	for i := range c.plan.Steps {
		s := &c.plan.Steps[i]
		switch {
		case s.Op != nil:
			s.Timeout = c.recovery() + c.faulty
		case s.Assert != nil:
			s.Timeout = c.recovery() + c.faulty
			s.Assert.Within = s.Timeout
		}
	}
}
