// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// MeasureWall is the name under which a run records, in History.Measures, how
// many seconds it took on the wall. A world in real time may leave it out.
const MeasureWall = "wallSeconds"

// Measurements are the figures of one run. A nil figure was not measured.
type Measurements struct {
	// LongestGapSeconds is the longest span in which clients asked and none
	// got an answer, from LongestGapAtSeconds on. Serializable reads don't end
	// it, as one cut-off member answers them, and what clients asked before the
	// ring was created doesn't begin it.
	LongestGapSeconds   *float64 `json:"longestGapSeconds"`
	LongestGapAtSeconds *float64 `json:"longestGapAtSeconds"`
	// CreateSeconds is from the start to the first linearizable answer.
	CreateSeconds *float64 `json:"createSeconds"`
	// FullStrengthSeconds is from the last fault, heal or operation asked for
	// to the ring's convergence.
	FullStrengthSeconds *float64 `json:"fullStrengthSeconds"`

	LeaderChanges int `json:"leaderChanges"` // the first election is none
	// OthersRestarted counts the etcd processes started again on machines that
	// no fault touched. What a restart or roll step asks for isn't counted, nor
	// is a machine used again after a shrink had emptied it.
	OthersRestarted int `json:"othersRestarted"`

	Acknowledged        int      `json:"acknowledged"` // clients hold an answer
	Failed              int      `json:"failed"`       // surely not applied
	Unknown             int      `json:"unknown"`      // no answer: applied or not
	OperationsPerSecond float64  `json:"operationsPerSecond"`
	LatencyP50Ms        *float64 `json:"latencyP50Ms"` // of acknowledged operations
	LatencyP99Ms        *float64 `json:"latencyP99Ms"`
	LatencyMaxMs        *float64 `json:"latencyMaxMs"`

	FaultsLanded     int `json:"faultsLanded"`
	FaultsDowngraded int `json:"faultsDowngraded"`
	FaultsMissed     int `json:"faultsMissed"`

	// HostStalledSeconds is how long the host kept a process of the run waiting for a
	// processor or its disk, in HostStalls stretches. It is measured in real time alone.
	HostStalledSeconds float64 `json:"hostStalledSeconds,omitempty"`
	HostStalls         int     `json:"hostStalls,omitempty"`
	// HostPressureSeconds is how long some process of the host waited, by what for:
	// cpu, io, memory.
	HostPressureSeconds map[string]float64 `json:"hostPressureSeconds,omitempty"`

	SimulatedSeconds float64  `json:"simulatedSeconds"` // the run by its own clock
	WallSeconds      *float64 `json:"wallSeconds"`

	Other map[string]float64 `json:"other,omitempty"` // what else the run recorded, under its own names
}

// Measure takes the figures of a history.
func Measure(h *ringproof.History) Measurements {
	m := Measurements{SimulatedSeconds: seconds(end(h))}
	m.ofOperations(h)
	m.ofGap(h)
	m.ofEvents(h)
	m.ofMeasures(h)
	m.ofHost(h)
	m.OthersRestarted = othersRestarted(h)
	return m
}

func (m *Measurements) ofOperations(h *ringproof.History) {
	var latencies []time.Duration
	for _, o := range h.Operations {
		switch {
		case o.Acked():
			m.Acknowledged++
			latencies = append(latencies, o.Return.Sub(o.Call))
		case o.Refused:
			m.Failed++
		default:
			m.Unknown++
		}
	}
	if len(latencies) == 0 {
		return
	}
	slices.Sort(latencies)
	m.LatencyP50Ms = milliseconds(quantile(latencies, 0.50))
	m.LatencyP99Ms = milliseconds(quantile(latencies, 0.99))
	m.LatencyMaxMs = milliseconds(latencies[len(latencies)-1])
	if span := lastReturn(h).Sub(h.Operations[0].Call).Seconds(); span > 0 {
		m.OperationsPerSecond = round(float64(m.Acknowledged)/span, 1)
	}
}

func (m *Measurements) ofGap(h *ringproof.History) {
	if from, to, asked := longestGap(h); asked {
		m.LongestGapSeconds = figure(seconds(to - from))
		m.LongestGapAtSeconds = figure(seconds(from))
	}
}

func (m *Measurements) ofEvents(h *ringproof.History) {
	var asked, leader = ringproof.Instant(-1), ringproof.MemberID(0)
	unrefused := askedOps(h.Plan)
	for _, e := range h.Events {
		switch e.Kind {
		case ringproof.EventRingCreated:
			m.CreateSeconds = firstOf(m.CreateSeconds, seconds(e.At))
		case ringproof.EventLeaderChanged:
			if e.Member != 0 && leader != 0 && e.Member != leader {
				m.LeaderChanges++
			}
			if e.Member != 0 {
				leader = e.Member
			}
		case ringproof.EventFaultLanded:
			m.FaultsLanded++
			asked, m.FullStrengthSeconds = e.At, nil
		case ringproof.EventFaultDowngraded:
			m.FaultsDowngraded++
		case ringproof.EventFaultMissed:
			m.FaultsMissed++
		case ringproof.EventFaultHealed:
			asked, m.FullStrengthSeconds = e.At, nil
		case ringproof.EventStepBegun:
			if unrefused[e.Step] {
				asked, m.FullStrengthSeconds = e.At, nil
			}
		case ringproof.EventConverged:
			if asked >= 0 {
				m.FullStrengthSeconds = firstOf(m.FullStrengthSeconds, seconds(e.At-asked))
			}
		}
	}
}

func (m *Measurements) ofMeasures(h *ringproof.History) {
	rest := maps.Clone(h.Measures)
	maps.DeleteFunc(rest, func(_ string, v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) // JSON has no such numbers
	if wall, ok := rest[MeasureWall]; ok {
		m.WallSeconds = figure(round(wall, 3))
		delete(rest, MeasureWall)
	} else if !h.Tools.Virtual {
		m.WallSeconds = figure(m.SimulatedSeconds)
	}
	if len(rest) > 0 {
		m.Other = rest
	}
}

func (m *Measurements) ofHost(h *ringproof.History) {
	stalls := h.Evidence.Starved.Stalls()
	m.HostStalls = len(stalls)
	for _, s := range stalls {
		m.HostStalledSeconds = round(m.HostStalledSeconds+s.Lost.Std().Seconds(), 3)
	}
	for resource, waited := range h.Evidence.Pressure { // order: into a map
		if m.HostPressureSeconds == nil {
			m.HostPressureSeconds = map[string]float64{}
		}
		m.HostPressureSeconds[resource] = round(waited.Std().Seconds(), 3)
	}
}

// askedOps names the steps that ask for an operation which the subject is to
// carry out.
func askedOps(p ringproof.Plan) map[string]bool {
	names := map[string]bool{}
	for _, s := range p.Steps {
		if s.Op != nil && !s.Op.Refused {
			names[s.Name] = true
		}
	}
	return names
}

// longestGap finds the longest span in which clients asked and none got an
// answer. Walking the returns in their order, a span begins at an answer, or
// at the first call after it when nobody was waiting then, and ends with the
// next answer, or with the last error when none came.
func longestGap(h *ringproof.History) (from, to ringproof.Instant, asked bool) {
	stop, created := stopsAsking(h), createdAt(h)
	asks := quorumOps(h.Operations, stop)
	waiting := slices.Clone(asks) // waiting[i].Call: the first call of those that return at i or later
	for i := len(waiting) - 2; i >= 0; i-- {
		waiting[i].Call = min(waiting[i].Call, waiting[i+1].Call)
	}
	last, open := created, 0
	for i, o := range asks {
		if !o.Acked() && i < len(asks)-1 {
			continue
		}
		begin := max(last, waiting[open].Call)
		if !asked || o.Return-begin > to-from {
			from, to, asked = begin, max(begin, o.Return), true
		}
		last, open = max(last, o.Return), i+1
	}
	return from, to, asked
}

// stopsAsking is when the clients' load ended, or else the run: what is asked
// after the rest ends no gap.
func stopsAsking(h *ringproof.History) ringproof.Instant {
	for _, e := range h.Events {
		if e.Kind == ringproof.EventLoadEnds {
			return e.At
		}
	}
	return end(h)
}

// quorumOps returns the operations that need a quorum, by their return. One
// that never returned waits until the end of the run.
func quorumOps(all []ringproof.Operation, stop ringproof.Instant) []ringproof.Operation {
	var asks []ringproof.Operation
	for _, o := range all {
		if o.Request.Serializable || o.Call > stop {
			continue
		}
		o.Return = min(o.Return, stop)
		asks = append(asks, o)
	}
	slices.SortStableFunc(asks, func(a, b ringproof.Operation) int { return cmp.Compare(a.Return, b.Return) })
	return asks
}

// othersRestarted counts the starts, beyond the first, of etcd on machines
// that no fault touched and nobody asked to restart.
func othersRestarted(h *ringproof.History) int {
	hit, ops := machinesHit(h), opsByStep(h.Plan)
	started, restarting := map[string]bool{}, map[string]bool{}
	size, shrinking, count := h.Plan.Ring.Size, false, 0
	homes := homesOf(h)
	for _, e := range h.Events {
		op, isOp := ops[e.Step]
		switch e.Kind {
		case ringproof.EventStepBegun:
			if isOp && op.Bounces() {
				restarting[e.Step] = true
			}
			if isOp && op.Kind == ringproof.OpScale && !op.Refused {
				shrinking, size = op.To < size, op.To
			}
		case ringproof.EventStepDone, ringproof.EventStepFailed, ringproof.EventStepMissed:
			delete(restarting, e.Step)
		case ringproof.EventMemberRemoved:
			if shrinking {
				delete(started, homes.of(e))
			}
		case ringproof.EventProcessStarted:
			if started[e.Machine] && !hit[e.Machine] && len(restarting) == 0 {
				count++
			}
			started[e.Machine] = true
		}
	}
	return count
}

func opsByStep(p ringproof.Plan) map[string]ringproof.Op {
	ops := map[string]ringproof.Op{}
	for _, s := range p.Steps {
		if s.Op != nil {
			ops[s.Name] = *s.Op
		}
	}
	return ops
}

func machinesHit(h *ringproof.History) map[string]bool {
	hit := map[string]bool{}
	for _, e := range h.Events {
		if e.Kind == ringproof.EventFaultLanded {
			for _, m := range machines(e) {
				hit[m] = true
			}
		}
	}
	return hit
}

func createdAt(h *ringproof.History) ringproof.Instant {
	for _, e := range h.Events {
		if e.Kind == ringproof.EventRingCreated {
			return e.At
		}
	}
	return 0
}

// end is the last moment that the history knows of.
func end(h *ringproof.History) ringproof.Instant {
	last := lastReturn(h)
	if n := len(h.Events); n > 0 {
		last = max(last, h.Events[n-1].At)
	}
	if n := len(h.Observations); n > 0 {
		last = max(last, h.Observations[n-1].At)
	}
	return last
}

func lastReturn(h *ringproof.History) ringproof.Instant {
	var last ringproof.Instant
	for _, o := range h.Operations {
		last = max(last, o.Call)
		if o.Return != ringproof.Forever {
			last = max(last, o.Return)
		}
	}
	return last
}

// quantile returns the smallest value that at least the share q of the sorted
// values does not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(i, 0)]
}

func figure(v float64) *float64 { return &v }

func firstOf(had *float64, v float64) *float64 {
	if had != nil {
		return had
	}
	return &v
}

func milliseconds(d time.Duration) *float64 {
	return figure(round(float64(d)/float64(time.Millisecond), 3))
}

func seconds(i ringproof.Instant) float64 { return round(i.Seconds(), 3) }

func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}
