// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// timeline is what the page draws of one history. All times are seconds. Its
// field names are short because a page holds one for each cell.
type timeline struct {
	End     float64      `json:"end"`
	Lanes   []lane       `json:"lanes"`
	Faults  []span       `json:"faults"`
	Host    []stall      `json:"host,omitempty"` // when the host kept the run waiting
	Steps   []span       `json:"steps"`
	Actions []span       `json:"actions"`
	Found   []span       `json:"found"`   // what checks found wrong, and when
	Bucket  float64      `json:"bucket"`  // width of a latency bucket
	Latency [][9]float64 `json:"latency"` // see latencyBuckets
	Gap     *[2]float64  `json:"gap"`     // the longest unavailable gap
	Margin  []margin     `json:"margin"`
	Events  []eventRow   `json:"events"`
	Omitted int          `json:"omitted"` // events left out
}

// lane is one machine.
type lane struct {
	Name  string  `json:"name"`
	Spans []stint `json:"spans"`
	Marks []mark  `json:"marks"`
}

// stint is a time in which nothing about a machine changed.
type stint struct {
	From    float64 `json:"a"`
	To      float64 `json:"b"`
	Role    string  `json:"r"` // voter, learner, spare, lost
	Serving bool    `json:"s,omitempty"`
	Leader  bool    `json:"l,omitempty"`
	Version string  `json:"v,omitempty"`
	Member  string  `json:"m,omitempty"`
	Off     bool    `json:"o,omitempty"` // the machine has no power, or is paused
}

// mark is a moment on a lane: a process that started or exited, a new disk.
type mark struct {
	At   float64 `json:"t"`
	Kind string  `json:"k"`
	Text string  `json:"x,omitempty"`
}

// span is a fault, a step or an action of the subject.
type span struct {
	From  float64  `json:"a"`
	To    float64  `json:"b"`
	Name  string   `json:"n"`
	Text  string   `json:"x,omitempty"`
	State string   `json:"s,omitempty"` // done, failed, open, halted, …
	Lanes []string `json:"m,omitempty"` // faults: the machines hit
}

// stall is a time in which the host kept the run waiting, and for how much of it.
type stall struct {
	From float64 `json:"a"`
	To   float64 `json:"b"`
	Lost float64 `json:"v"`
}

// margin is the quorum margin from a moment on; nil when it wasn't known.
type margin struct {
	At     float64 `json:"t"`
	Margin *int    `json:"v"`
}

// eventRow is time, kind, where, text.
type eventRow [4]any

func timelineOf(h *ringproof.History, found []ringproof.Finding) timeline {
	events, omitted := eventRows(h.Events)
	bucket, latency := latencyBuckets(h)
	t := timeline{
		End: seconds(end(h)), Lanes: lanes(h), Faults: faultSpans(h), Host: stalls(h), Steps: stepSpans(h), Actions: actionSpans(h), Found: findingSpans(found),
		Bucket: bucket, Latency: latency, Margin: margins(h), Events: events, Omitted: omitted,
	}
	if from, to, asked := longestGap(h); asked {
		t.Gap = &[2]float64{seconds(from), seconds(to)}
	}
	return t
}

func stalls(h *ringproof.History) (all []stall) {
	for _, s := range h.Evidence.Starved.Stalls() {
		all = append(all, stall{seconds(s.From), seconds(s.To), round(s.Lost.Std().Seconds(), 3)})
	}
	return all
}

// homes knows on which machine a member lives.
type homes map[ringproof.MemberID]string

func homesOf(h *ringproof.History) homes {
	known := homes{}
	for _, o := range h.Observations {
		for _, m := range o.Members {
			if m.Machine != "" {
				known[m.ID] = m.Machine
			}
		}
	}
	return known
}

func (known homes) of(e ringproof.Event) string {
	if e.Machine != "" {
		return e.Machine
	}
	return known[e.Member]
}

// machines splits the machine field of an event: a fault that lands on several
// at once names them with commas.
func machines(e ringproof.Event) []string {
	return strings.FieldsFunc(e.Machine, func(r rune) bool { return r == ',' || r == ' ' })
}

// lanes follows each machine through the observations. A change seen between
// two of them is moved to the event that tells of it, if there is one.
func lanes(h *ringproof.History) []lane {
	byName := map[string]*lane{}
	at := func(name string) *lane {
		if byName[name] == nil {
			byName[name] = &lane{Name: name, Spans: []stint{}, Marks: []mark{}}
		}
		return byName[name]
	}
	turns := turnsOf(h)
	var before ringproof.Instant
	for _, o := range h.Observations {
		for _, m := range o.Machines {
			at(m.Name).follow(stintOf(o, m), seconds(turns.between(m.Name, before, o.At)))
		}
		before = o.At
	}
	for _, e := range h.Events {
		if marked[e.Kind] && e.Machine != "" {
			l := at(e.Machine)
			l.Marks = append(l.Marks, mark{seconds(e.At), string(e.Kind), plain(e.Text)})
		}
	}
	names, last := slices.SortedFunc(maps.Keys(byName), natural), seconds(end(h))
	list := make([]lane, 0, len(names))
	for _, name := range names {
		l := byName[name]
		l.close(last)
		list = append(list, *l)
	}
	return list
}

var marked = map[ringproof.EventKind]bool{
	ringproof.EventProcessStarted: true,
	ringproof.EventProcessExited:  true,
	ringproof.EventDiskReplaced:   true,
	ringproof.EventHalted:         true,
	ringproof.EventAlarm:          true,
}

// follow adds what was seen of the machine from a moment on.
func (l *lane) follow(seen stint, from float64) {
	n := len(l.Spans)
	if n > 0 {
		last := l.Spans[n-1]
		last.From, last.To = 0, 0
		if last == seen {
			return
		}
		l.Spans[n-1].To = from
	}
	seen.From = from
	l.Spans = append(l.Spans, seen)
}

func (l *lane) close(at float64) {
	if n := len(l.Spans); n > 0 {
		l.Spans[n-1].To = at
	}
}

func stintOf(o ringproof.Observation, m ringproof.MachineView) stint {
	if m.Lost {
		return stint{Role: "lost"}
	}
	member, ok := servingOn(o, m.Name)
	if !ok {
		return stint{Role: "spare", Off: !m.Up}
	}
	s := stint{Role: "voter", Serving: member.Serving, Leader: member.Leader && member.Serving,
		Version: member.Version, Member: member.ID.String(), Off: !m.Up}
	if member.Learner {
		s.Role = "learner"
	}
	return s
}

// servingOn prefers, of two entries on one machine, the one that serves: the
// other is the dead entry that a replacement takes over from.
func servingOn(o ringproof.Observation, machine string) (ringproof.MemberView, bool) {
	for _, m := range o.Members {
		if m.Machine == machine && m.Serving {
			return m, true
		}
	}
	return o.On(machine)
}

// turns lists, by machine, the events at which its lane may change.
type turns map[string][]ringproof.Event

var turning = map[ringproof.EventKind]bool{
	ringproof.EventMemberAdded: true, ringproof.EventMemberStarted: true, ringproof.EventMemberPromoted: true,
	ringproof.EventMemberRemoved: true, ringproof.EventMemberUp: true, ringproof.EventMemberDown: true,
	ringproof.EventLeaderChanged: true, ringproof.EventProcessExited: true,
	ringproof.EventFaultLanded: true, ringproof.EventFaultHealed: true,
}

func turnsOf(h *ringproof.History) turns {
	known, found := homesOf(h), turns{}
	for _, e := range h.Events {
		if turning[e.Kind] {
			machine := known.of(e)
			found[machine] = append(found[machine], e)
		}
	}
	return found
}

// between returns the last turn of the machine in (from, to], or to.
func (t turns) between(machine string, from, to ringproof.Instant) ringproof.Instant {
	events := t[machine]
	i, _ := slices.BinarySearchFunc(events, to+1, func(e ringproof.Event, at ringproof.Instant) int { return cmp.Compare(e.At, at) })
	if i > 0 && events[i-1].At > from {
		return events[i-1].At
	}
	return to
}

// faultSpans pairs each landing with its heal. What nothing heals lasts until
// the machine serves again, or to the end.
func faultSpans(h *ringproof.History) []span {
	known, stop := homesOf(h), seconds(end(h))
	spans := []span{}
	for i, e := range h.Events {
		if e.Kind != ringproof.EventFaultLanded {
			continue
		}
		s := span{From: seconds(e.At), To: stop, Name: string(e.Fault), Text: plain(e.Text), State: "open", Lanes: machines(e)}
		for _, later := range h.Events[i+1:] {
			if state := ends(e, later, known); state != "" {
				s.To, s.State = seconds(later.At), state
				break
			}
		}
		spans = append(spans, s)
	}
	return spans
}

// ends reports whether the later event ends the fault that landed.
func ends(landed, later ringproof.Event, known homes) string {
	if later.Kind == ringproof.EventFaultHealed && later.Step == landed.Step &&
		(later.Machine == landed.Machine || later.Machine == "") {
		return "healed"
	}
	serves := later.Kind == ringproof.EventMemberUp || later.Kind == ringproof.EventMemberStarted
	if serves && ownHeal[landed.Fault] && landed.Machine != "" && known.of(later) == landed.Machine {
		return "serves again"
	}
	return ""
}

// ownHeal lists the faults that no heal follows: the subject mends them.
var ownHeal = map[ringproof.FaultKind]bool{
	ringproof.FaultKill: true, ringproof.FaultVolumeLoss: true, ringproof.FaultAgentCrash: true,
}

func stepSpans(h *ringproof.History) []span {
	stop := map[ringproof.EventKind]string{ringproof.EventStepDone: "done", ringproof.EventStepFailed: "failed", ringproof.EventStepMissed: "failed"}
	return spansBetween(h, ringproof.EventStepBegun, stop, func(e ringproof.Event) string { return e.Step })
}

// actionSpans are the subject's changes, and the moments at which it refused
// or gave up. Its waits are in the list of events: they are too many to draw.
func actionSpans(h *ringproof.History) []span {
	stop := map[ringproof.EventKind]string{ringproof.EventActionDone: "done", ringproof.EventActionFailed: "failed"}
	spans := spansBetween(h, ringproof.EventActionBegun, stop, actionName)
	for _, e := range h.Events {
		if e.Kind == ringproof.EventHalted || e.Kind == ringproof.EventRefused {
			spans = append(spans, span{From: seconds(e.At), To: seconds(e.At), Name: string(e.Kind), Text: plain(e.Text), State: "halted"})
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.From, b.From) })
	return spans
}

// findingSpans are the moments at which something went wrong.
func findingSpans(found []ringproof.Finding) []span {
	spans := []span{}
	for _, f := range found {
		if f.At != nil && f.Verdict != ringproof.Pass {
			spans = append(spans, span{From: seconds(*f.At), To: seconds(*f.At), Name: plain(f.Check), Text: plain(f.Message), State: "failed"})
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.From, b.From) })
	return spans
}

func actionName(e ringproof.Event) string {
	return strings.TrimSpace(e.Action + " " + e.Machine)
}

// spansBetween pairs each beginning with the next end of the same name.
func spansBetween(h *ringproof.History, begin ringproof.EventKind, stop map[ringproof.EventKind]string, name func(ringproof.Event) string) []span {
	spans, open, last := []span{}, map[string]int{}, seconds(end(h))
	for _, e := range h.Events {
		key := name(e)
		if e.Kind == begin {
			open[key] = len(spans)
			spans = append(spans, span{From: seconds(e.At), To: last, Name: plain(key), Text: spanText(e), State: "open"})
		}
		i, ok := open[key]
		if state := stop[e.Kind]; state != "" && ok {
			spans[i].To, spans[i].State = seconds(e.At), state
			if state == "failed" && e.Text != "" {
				spans[i].Text = plain(e.Text)
			}
			delete(open, key)
		}
	}
	return spans
}

func spanText(e ringproof.Event) string {
	return plain(strings.TrimSpace(cmp.Or(e.Command, e.Text)))
}

// latencyBuckets sorts the operations into buckets of time, of 100 ms or wider
// so that there are at most 1,200. A row is: bucket number, p50, p99 and
// longest latency of the acknowledged in ms, how many those are, how many were
// refused, how many had no answer, and the longest of each of these two in ms.
func latencyBuckets(h *ringproof.History) (float64, [][9]float64) {
	stop := end(h)
	width := 0.1 * math.Max(1, math.Ceil(stop.Seconds()/120))
	type bucket struct {
		acked            []float64
		refused, unknown float64
		refusal, silence float64 // the longest
	}
	buckets := map[int]*bucket{}
	for _, o := range h.Operations {
		done := min(o.Return, stop)
		n := int(done.Seconds() / width)
		if buckets[n] == nil {
			buckets[n] = &bucket{}
		}
		b, ms := buckets[n], done.Sub(o.Call).Seconds()*1000
		switch {
		case o.Acked():
			b.acked = append(b.acked, ms)
		case o.Refused:
			b.refused, b.refusal = b.refused+1, max(b.refusal, ms)
		default:
			b.unknown, b.silence = b.unknown+1, max(b.silence, ms)
		}
	}
	rows := make([][9]float64, 0, len(buckets))
	for _, n := range slices.Sorted(maps.Keys(buckets)) {
		b := buckets[n]
		slices.Sort(b.acked)
		rows = append(rows, [9]float64{float64(n), rank(b.acked, 0.5), rank(b.acked, 0.99), rank(b.acked, 1),
			float64(len(b.acked)), b.refused, b.unknown, round(b.refusal, 2), round(b.silence, 2)})
	}
	return width, rows
}

func rank(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return round(sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)], 2)
}

// margins is how many voters the ring could lose at each moment and still
// commit: voters that serve, less the quorum.
func margins(h *ringproof.History) []margin {
	list := []margin{}
	for _, o := range h.Observations {
		value := marginOf(o)
		n := len(list)
		if n > 0 && same(list[n-1].Margin, value) {
			continue
		}
		list = append(list, margin{seconds(o.At), value})
	}
	return list
}

func marginOf(o ringproof.Observation) *int {
	voters := o.Voters()
	if len(voters) == 0 {
		return nil
	}
	value := -ringproof.Quorum(len(voters))
	for _, v := range voters {
		if v.Serving {
			value++
		}
	}
	return &value
}

func same(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

const mostEvents = 1000

// eventRows lists the events. Of a history with too many, the subject's waits
// are left out first, then the middle: the history's file holds all.
func eventRows(events []ringproof.Event) (rows []eventRow, omitted int) {
	kept := events
	if len(kept) > mostEvents {
		kept = slices.DeleteFunc(slices.Clone(kept), func(e ringproof.Event) bool { return e.Kind == ringproof.EventWaiting })
	}
	if len(kept) > mostEvents {
		half := mostEvents / 2
		kept = slices.Concat(kept[:half], kept[len(kept)-half:])
	}
	rows = make([]eventRow, 0, len(kept))
	for _, e := range kept {
		rows = append(rows, eventRow{seconds(e.At), e.Kind, plain(eventPlace(e)), plain(eventText(e))})
	}
	return rows, len(events) - len(kept)
}

func eventPlace(e ringproof.Event) string {
	if e.Member == 0 {
		return e.Machine
	}
	return strings.TrimSpace(e.Machine + " " + e.Member.String())
}

func eventText(e ringproof.Event) string {
	parts := []string{e.Step, string(e.Fault), e.Action}
	if e.Learner {
		parts = append(parts, "as learner")
	}
	parts = append(parts, e.Text, e.Command)
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// natural orders m2 before m10.
func natural(a, b string) int {
	numberless := func(s string) string { return strings.TrimRight(s, "0123456789") }
	if numberless(a) == numberless(b) && len(a) != len(b) {
		return cmp.Compare(len(a), len(b))
	}
	return cmp.Compare(a, b)
}
