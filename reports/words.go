// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringproof/ringproof"
)

// unmeasured stands where a figure was not measured.
const unmeasured = "–"

// secs prints a figure in seconds: 0.84s, 12.1s, 340s.
func secs(v *float64) string {
	switch {
	case v == nil:
		return unmeasured
	case *v < 10:
		return fmt.Sprintf("%.2fs", *v)
	case *v < 100:
		return fmt.Sprintf("%.1fs", *v)
	}
	return fmt.Sprintf("%.0fs", *v)
}

// millis prints a figure in milliseconds: 4.2 ms, 1,204 ms.
func millis(v *float64) string {
	switch {
	case v == nil:
		return unmeasured
	case *v < 100:
		return fmt.Sprintf("%.1f ms", *v)
	}
	return count(int(*v+0.5)) + " ms"
}

// count prints 1,842.
func count(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, r := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// plain makes a text one line that a terminal and an XML parser can take:
// no control character, and nothing that is not UTF-8.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// atText prints " at 12.345s", or nothing.
func atText(f ringproof.Finding) string {
	if f.At == nil {
		return ""
	}
	return fmt.Sprintf(" at %.3fs", f.At.Seconds())
}

// started prints when the run began, in UTC.
func (r Report) started() string {
	if r.Started.IsZero() {
		return ""
	}
	return r.Started.UTC().Format("2006-01-02 15:04:05 UTC")
}

// figures are the measurements as a reader's lines: name, value, explanation.
func (m Measurements) figures() [][3]string {
	started := ""
	if m.LongestGapAtSeconds != nil {
		started = fmt.Sprintf("from %.2fs on", *m.LongestGapAtSeconds)
	}
	rows := [][3]string{
		{"longest gap", secs(m.LongestGapSeconds), started},
		{"ring created", secs(m.CreateSeconds), "first linearizable answer"},
		{"full strength", secs(m.FullStrengthSeconds), "after the last fault, heal or operation"},
		{"leader changes", count(m.LeaderChanges), ""},
		{"others restarted", count(m.OthersRestarted), "etcd processes that no fault touched"},
		{"acknowledged", count(m.Acknowledged), fmt.Sprintf("%.1f operations a second", m.OperationsPerSecond)},
		{"failed", count(m.Failed), "surely not applied"},
		{"unknown", count(m.Unknown), "no answer: applied or not"},
		{"latency", fmt.Sprintf("%s p50", millis(m.LatencyP50Ms)), fmt.Sprintf("%s p99, %s longest", millis(m.LatencyP99Ms), millis(m.LatencyMaxMs))},
		{"faults", count(m.FaultsLanded) + " landed", fmt.Sprintf("%d downgraded, %d missed", m.FaultsDowngraded, m.FaultsMissed)},
		{"time", secs(&m.SimulatedSeconds) + " run", secs(m.WallSeconds) + " on the wall"},
	}
	rows = append(rows, m.host()...)
	return append(rows, m.others()...)
}

// host is what the run's host did to it; nothing where nobody looked.
func (m Measurements) host() (rows [][3]string) {
	if text := m.stalled(); text != "" {
		rows = append(rows, [3]string{"host", text, "it kept a process of the run waiting"})
	}
	for _, resource := range sortedNames(m.HostPressureSeconds) {
		rows = append(rows, [3]string{resource + " pressure", fmt.Sprintf("%.1fs", m.HostPressureSeconds[resource]), "somebody on the host waited for it"})
	}
	return rows
}

// stalled prints "stalled 4.1s in 3 spans", or nothing.
func (m Measurements) stalled() string {
	switch m.HostStalls {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("stalled %s in 1 span", secs(&m.HostStalledSeconds))
	}
	return fmt.Sprintf("stalled %s in %s spans", secs(&m.HostStalledSeconds), count(m.HostStalls))
}

// stalled prints what the hosts did to all cells, as a cell's own line does.
func (r Report) stalled() string {
	var all Measurements
	cells := 0
	for _, c := range r.Cells {
		if m := c.Measurements; m.HostStalls > 0 {
			all.HostStalls += m.HostStalls
			all.HostStalledSeconds += m.HostStalledSeconds
			cells++
		}
	}
	if cells == 0 {
		return ""
	}
	return fmt.Sprintf("%s, in %d of %d cells", all.stalled(), cells, len(r.Cells))
}

func (m Measurements) others() [][3]string {
	var rows [][3]string
	for _, name := range sortedNames(m.Other) {
		rows = append(rows, [3]string{name, strconv.FormatFloat(m.Other[name], 'g', 6, 64), ""})
	}
	return rows
}

func wall(m Measurements) time.Duration {
	if m.WallSeconds == nil {
		return 0
	}
	return time.Duration(*m.WallSeconds * float64(time.Second))
}
