// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import "fmt"

// Verdict is what a check, a cell or a run comes to. The zero value is
// Inconclusive: what nobody judged has not passed.
type Verdict int

// The verdicts, in the order in which Merge prefers the later.
const (
	Inconclusive Verdict = iota
	Pass
	Fail
)

var verdictNames = map[Verdict]string{Inconclusive: "inconclusive", Pass: "pass", Fail: "fail"}

// String prints pass, fail or inconclusive.
func (v Verdict) String() string { return verdictNames[v] }

// MarshalText saves v by name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (v *Verdict) UnmarshalText(text []byte) error {
	for verdict, name := range verdictNames {
		if name == string(text) {
			*v = verdict
			return nil
		}
	}
	return fmt.Errorf("verdict %q: it is one of pass, fail, inconclusive", text)
}

// Merge joins verdicts: fail beats inconclusive beats pass, and no verdict at
// all is inconclusive.
func Merge(verdicts ...Verdict) Verdict {
	if len(verdicts) == 0 {
		return Inconclusive
	}
	merged := Pass
	for _, v := range verdicts {
		switch {
		case v == Fail:
			return Fail
		case v != Pass:
			merged = Inconclusive
		}
	}
	return merged
}

// Finding is what one check says of a history.
type Finding struct {
	Check    string   `json:"check"`
	Verdict  Verdict  `json:"verdict"`
	Message  string   `json:"message"`            // what was expected, what was seen
	At       *Instant `json:"at,omitempty"`       // when it went wrong; nil when it has no one moment
	Evidence []string `json:"evidence,omitempty"` // lines that show it: events, operations
	Attached string   `json:"attached,omitempty"` // a file beside the report, such as porcupine's picture
}

// String prints "fail  linearizable  at 3.2s: …".
func (f Finding) String() string {
	at := ""
	if f.At != nil {
		at = fmt.Sprintf("  at %.3fs", f.At.Seconds())
	}
	return fmt.Sprintf("%-12s  %s%s: %s", f.Verdict, f.Check, at, f.Message)
}
