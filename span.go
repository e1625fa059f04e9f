// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import "time"

// Span is when something happened that was only seen between two looks: after
// From, and at To at the latest. Of two spans that overlap nobody knows which came
// first, and a check may charge only what is wrong in both orders.
type Span struct {
	From Instant `json:"from"`
	To   Instant `json:"to"`
}

// Before reports whether all of s is over when t begins.
func (s Span) Before(t Span) bool { return s.To <= t.From }

// Length is the time from the one end to the other.
func (s Span) Length() time.Duration { return max(s.To.Sub(s.From), 0) }

// overlap is the time that both have in common.
func (s Span) overlap(t Span) time.Duration {
	return Span{max(s.From, t.From), min(s.To, t.To)}.Length()
}

// Starvation is a stretch of a run in which for Lost of the time a process of it was ready to
// run and waited for a processor, or a sync for a disk that the host shares with others.
type Starvation struct {
	Span
	Lost Duration `json:"lost"`
}

// mostLost is how much of a stretch counts as lost at most, in tenths. Some is
// always left, so that every deadline comes.
const mostLost = 9

// Starved is the starvation of a run, in the order of time. On a host that has both to
// spare it is empty.
type Starved []Starvation

// Within is how much of the span the host took from the run. It is never all of
// it: a deadline that runs on what is left comes, however busy the host is.
func (s Starved) Within(span Span) (lost time.Duration) {
	for i := len(s) - 1; i >= 0 && s[i].To > span.From; i-- {
		if length := s[i].Length(); length > 0 {
			share := float64(s[i].Lost.Std()) / float64(length)
			lost += time.Duration(min(share, float64(mostLost)/10) * float64(s[i].overlap(span)))
		}
	}
	return lost
}

// Stalls are the stretches in which the host kept the run waiting, those that meet
// taken together.
func (s Starved) Stalls() (stalls Starved) {
	for _, one := range s {
		if n := len(stalls); n > 0 && one.From <= stalls[n-1].To {
			stalls[n-1].To = max(stalls[n-1].To, one.To)
			stalls[n-1].Lost += one.Lost
			continue
		}
		stalls = append(stalls, one)
	}
	return stalls
}

// Overran judges a deadline that runs on the time the host gave: Pass when it was
// kept, Fail when it passed whatever the host took, and Inconclusive when what the
// host took explains it.
func (s Starved) Overran(span Span, within time.Duration) Verdict {
	switch length := span.Length(); {
	case length <= within:
		return Pass
	case length-s.Within(span) > within:
		return Fail
	}
	return Inconclusive
}

// Pressure is how long some process of the host, of the run or not, waited for a
// resource while the run went on: cpu, io, memory. It is the kernel's own account, and
// empty where it keeps none. https://docs.kernel.org/accounting/psi.html
type Pressure map[string]Duration

// Pressed is a world whose processes compete for a host that others use too.
type Pressed interface {
	// Starved returns the starvation of the span so far.
	Starved(Span) time.Duration
}
