// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"fmt"
	"time"
)

// Instant is a moment of a run: nanoseconds since the world started. It is
// virtual in sim and virtual, and wall time in local and kind. It prints, and is saved, as
// time.Duration prints: "1.25s".
type Instant int64

// Forever is later than every moment of a run: the return of an operation
// whose reply never came.
const Forever = Instant(1<<63 - 1)

// Add returns the instant d after i; Forever stays Forever.
func (i Instant) Add(d time.Duration) Instant {
	if i == Forever {
		return Forever
	}
	return i + Instant(d)
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Seconds returns i in seconds.
func (i Instant) Seconds() float64 { return time.Duration(i).Seconds() }

// String prints "1.25s", or "never" for Forever.
func (i Instant) String() string {
	if i == Forever {
		return "never"
	}
	return time.Duration(i).String()
}

// MarshalText saves i exactly.
func (i Instant) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (i *Instant) UnmarshalText(text []byte) error {
	if string(text) == "never" {
		*i = Forever
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("instant %q: write it as a duration such as 1.25s", text)
	}
	*i = Instant(d)
	return nil
}

// Duration is a length of time that is written as text ("15s") in scenarios,
// plans and reports.
type Duration time.Duration

// Std returns d as the standard library's duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String prints "15s".
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText saves d exactly.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("duration %q: write a number with a unit, such as 15s or 500ms", text)
	}
	*d = Duration(v)
	return nil
}
