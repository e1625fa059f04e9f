// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// Check is one property that a history has or has not.
type Check struct {
	Name   string
	Claim  string // what holds when it passes, in one sentence
	Source string // the rule or the hazard that it follows
	Params []Param
	Judge  func(h *ringproof.History, params Values) ringproof.Finding
	Doubts bool // it never fails: what it finds is that a run proves nothing
	Timed  bool // it judges how long things took, so that a slow host alone may fail it

	// counts: it passes by what was changed in the membership, all of it.
	counts bool

	// hears is what nobody but a subject can tell, and the check rests on.
	hears []ringproof.EventKind

	// suits reports whether plans that list no invariants are asked this one;
	// nil: all are.
	suits func(ringproof.Plan) bool
}

// Param is a number or a duration that a plan may set for a check.
type Param struct {
	Name    string
	Default string // its form, "0" or "15s", is the form that a plan must use
	Doc     string
}

// All returns every check that a plan may list, in the order in which reports
// show them.
func All() []Check {
	return []Check{
		linearizable, acknowledgedWritesSurvive, watchGuarantees, revisionMonotone, hashEqual, backupWhole, upkeep, leasesKeepTheirTime, noPanic, available,
		oneClusterIdentity, quorumMargin, oneChangeAtATime, learnerFirst, noGhostMembers, noIdentityReuse,
		oneLead, upgradeInOrder, restartsInTurn, noPlaintextPeer, statusHonest, noDoomedClaim, workBounded, refusals, noTrespass, peersTrustPeers, clientsShowCertificates, noKeyPrinted, runsAsAsked, converges, quiescent, noFalseAlarm, disaster, halts, noLeftovers, leavesNothing,
	}
}

// Always returns the checks that judge every run, and first: they are not for a
// plan to leave out.
func Always() []Check { return []Check{assumptions, steps} }

// Lookup returns the check with that name, those that judge every run too.
func Lookup(name string) (Check, bool) {
	for _, c := range append(All(), Always()...) {
		if c.Name == name {
			return c, true
		}
	}
	return Check{}, false
}

// Judge runs the plan's invariants, or all that suit the plan if it lists
// none, and before them what judges every run. A check that suits the plan only
// for a step that its assumptions let go, and that did not take place, is not asked,
// nor one that rests on what the subject never tells.
func Judge(h *ringproof.History) []ringproof.Finding {
	tried := h.Plan
	tried.Steps = took(h)
	var findings []ringproof.Finding
	for _, c := range Always() {
		if c.Suits(tried) {
			findings = append(findings, c.Finding(h, nil))
		}
	}
	for _, invariant := range invariants(h.Plan) {
		c, ok := Lookup(invariant.Check)
		always := slices.ContainsFunc(Always(), func(c Check) bool { return c.Name == invariant.Check })
		idle := ok && c.Suits(h.Plan) && !c.Suits(tried)
		if !always && !idle && len(c.unheard(h.Plan)) == 0 {
			findings = append(findings, judge(h, invariant))
		}
	}
	return named(h, findings)
}

// unheard is what the check rests on and the plan's subject never tells.
func (c Check) unheard(p ringproof.Plan) (kinds []string) {
	for _, kind := range c.hears {
		if slices.Contains(p.Untold, kind) {
			kinds = append(kinds, string(kind))
		}
	}
	return kinds
}

// Unjudged says which checks of the plan aren't asked about its subject, and why.
func Unjudged(p ringproof.Plan) (all []string) {
	for _, invariant := range invariants(p) {
		c, _ := Lookup(invariant.Check)
		if unheard := c.unheard(p); len(unheard) > 0 {
			all = append(all, fmt.Sprintf("%s: %s never tells of %s", c.Name, p.Subject, strings.Join(unheard, " and ")))
		}
	}
	return all
}

// invariants are those that the plan lists, or all that suit it.
func invariants(p ringproof.Plan) []ringproof.Invariant {
	if len(p.Invariants) > 0 {
		return p.Invariants
	}
	var all []ringproof.Invariant
	for _, c := range All() {
		if c.Suits(p) {
			all = append(all, ringproof.Invariant{Check: c.Name})
		}
	}
	return all
}

// Suits reports whether the check has something to judge in runs of the plan.
func (c Check) Suits(p ringproof.Plan) bool { return c.suits == nil || c.suits(p) }

// Proves reports whether the finding fails its run however slow the host was: what it
// tells of, such as a lost write, takes no time to be wrong.
func Proves(f ringproof.Finding) bool {
	c, known := Lookup(f.Check)
	return f.Verdict == ringproof.Fail && known && !c.Timed
}

func judge(h *ringproof.History, invariant ringproof.Invariant) ringproof.Finding {
	c, ok := Lookup(invariant.Check)
	if !ok {
		f := unknown("there is no check %q; see `ringproof list checks`", invariant.Check)
		f.Check = invariant.Check
		return f
	}
	return c.Finding(h, invariant.Params)
}

// Finding judges h with the given parameters. A check that panics has judged
// nothing: its finding is inconclusive, and tells whose fault it is.
func (c Check) Finding(h *ringproof.History, params map[string]string) (f ringproof.Finding) {
	defer func() {
		if broken := recover(); broken != nil {
			f = unknown("the check itself broke, which is a bug of ringproof: %v", broken)
		}
		f.Check = c.Name
	}()
	values, err := c.Values(params)
	if err != nil {
		return unknown("%v", err)
	}
	f = c.Judge(h, values)
	if c.counts && f.Verdict == ringproof.Pass && h.Evidence.Gap != "" {
		f = with(unknown("how the membership was changed in the end isn't known: %s", h.Evidence.Gap), "before that: "+f.Message)
	}
	return f
}

// Values joins params with the check's defaults. It refuses a parameter that
// the check hasn't got, and one in another form than its default.
func (c Check) Values(params map[string]string) (Values, error) {
	values := Values{}
	for _, p := range c.Params {
		values[p.Name] = p.Default
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		usual, ok := values[name]
		if !ok {
			return nil, fmt.Errorf("check %s has no parameter %q; it has %s", c.Name, name, c.paramNames())
		}
		if err := sameForm(usual, params[name]); err != nil {
			return nil, fmt.Errorf("check %s, parameter %s: %w", c.Name, name, err)
		}
		values[name] = params[name]
	}
	return values, nil
}

func (c Check) paramNames() string {
	var names []string
	for _, p := range c.Params {
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func sameForm(usual, given string) error {
	if _, err := strconv.Atoi(usual); err == nil {
		if _, err := strconv.Atoi(given); err != nil {
			return fmt.Errorf("%q is not a whole number such as %s", given, usual)
		}
		return nil
	}
	if d, err := time.ParseDuration(given); err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration such as %s", given, usual)
	}
	return nil
}

// Values are a check's parameters, each in the form of its default.
type Values map[string]string

// Int returns a number.
func (v Values) Int(name string) int {
	n, err := strconv.Atoi(v[name])
	if err != nil {
		panic(fmt.Sprintf("parameter %s=%q was not read by Check.Values", name, v[name]))
	}
	return n
}

// Duration returns a length of time.
func (v Values) Duration(name string) time.Duration {
	d, err := time.ParseDuration(v[name])
	if err != nil {
		panic(fmt.Sprintf("parameter %s=%q was not read by Check.Values", name, v[name]))
	}
	return d
}

// safely suits the plans whose faults a correct subject survives.
func safely(p ringproof.Plan) bool { return p.Mode == ringproof.ModeSafe }

// said is a message with its times as a reader can use them: "28.51ms, from 1.967s".
func said(format string, args []any) string {
	args = slices.Clone(args)
	for i, a := range args {
		switch a := a.(type) {
		case time.Duration:
			args[i] = readable(a)
		case ringproof.Instant:
			args[i] = rounded(a)
		}
	}
	return fmt.Sprintf(format, args...)
}

func readable(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

func rounded(at ringproof.Instant) ringproof.Instant {
	if at == ringproof.Forever {
		return at
	}
	return ringproof.Instant(readable(at.Sub(0)))
}

func pass(format string, args ...any) ringproof.Finding {
	return ringproof.Finding{Verdict: ringproof.Pass, Message: said(format, args)}
}

func fail(at ringproof.Instant, format string, args ...any) ringproof.Finding {
	f := ringproof.Finding{Verdict: ringproof.Fail, Message: said(format, args)}
	if at != ringproof.Forever {
		f.At = &at
	}
	return f
}

func unknown(format string, args ...any) ringproof.Finding {
	return ringproof.Finding{Verdict: ringproof.Inconclusive, Message: said(format, args)}
}

// starved is the finding of what the host's starvation may explain.
func starved(h *ringproof.History, span ringproof.Span, format string, args ...any) ringproof.Finding {
	f := unknown(format, args...)
	f.Message += fmt.Sprintf("; the host kept the run waiting for %s of it", h.Evidence.Starved.Within(span).Round(time.Millisecond))
	return f
}

// A host that takes so much of the time before something happened may be why: a machine without a
// processor tells nothing of itself for seconds, and is taken for one that is away; and what
// it does is seen as late.
const (
	explainsFor   = 30 * time.Second
	explainsShare = 5 // one part in so many
)

// unlessStarved is a failure by what the subject did at a moment, or not known where the host took a good
// part of the time before. A ring of three lost a filesystem for six seconds beside eight busy loops
// and replaced its member, which nobody had heard of for ten.
func unlessStarved(h *ringproof.History, f ringproof.Finding) ringproof.Finding {
	if f.At == nil {
		return f
	}
	before := ringproof.Span{From: max(0, f.At.Add(-explainsFor)), To: *f.At}
	lost := h.Evidence.Starved.Within(before)
	if lost == 0 || lost*explainsShare < before.Length() {
		return f
	}
	return with(unknown("%s at %s; the host kept the run waiting for %s of the %s before",
		f.Message, *f.At, lost.Round(time.Second/10), before.Length().Round(time.Second/10)), f.Evidence...)
}

// mostEvidence is how many lines of evidence a finding carries: a reader needs
// the first ones, and a report has to stay small.
const mostEvidence = 20

func with(f ringproof.Finding, lines ...string) ringproof.Finding {
	room := mostEvidence - len(f.Evidence)
	if len(lines) > room {
		lines = lines[:max(room, 0)]
	}
	f.Evidence = append(f.Evidence, lines...)
	return f
}

// events returns the events of one kind, in order.
func events(h *ringproof.History, kinds ...ringproof.EventKind) []ringproof.Event {
	var found []ringproof.Event
	for _, e := range h.Events {
		if slices.Contains(kinds, e.Kind) {
			found = append(found, e)
		}
	}
	return found
}

// ended returns when the run ended.
func ended(h *ringproof.History) (ringproof.Instant, bool) {
	ends := events(h, ringproof.EventRunEnds)
	if len(ends) == 0 {
		return 0, false
	}
	return ends[len(ends)-1].At, true
}
