// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

func TestPhases(t *testing.T) {
	hit := func(at float64, kind ringproof.FaultKind, machine string) ringproof.Event {
		return ringproof.Event{At: instant(at), Kind: ringproof.EventFaultLanded, Fault: kind, Machine: machine}
	}
	moment := func(at float64, kind ringproof.EventKind) ringproof.Event {
		return ringproof.Event{At: instant(at), Kind: kind}
	}
	healed, converged, over := moment(12.3, ringproof.EventHealPhase), moment(14.4, ringproof.EventConverged), moment(58, ringproof.EventRunEnds)
	for _, c := range []struct {
		why, want string
		mode      ringproof.Mode
		events    []ringproof.Event
	}{
		{"it was cut short under a fault", "", ringproof.ModeSafe, []ringproof.Event{hit(5, ringproof.FaultKill, "m2"), over}},
		{"no fault landed", "no fault in 12.3s; then the ring converged in 2.10s", ringproof.ModeSafe, []ringproof.Event{healed, converged, over}},
		{"all came back", "safety under faults until 12.3s; then every fault had ended, and the ring converged in 2.10s", ringproof.ModeSafe,
			[]ringproof.Event{hit(5, ringproof.FaultKill, "m2"), healed, converged, over}},
		{"one stays dead, once, though it was killed and then lost", "safety under faults until 12.3s; then m2 stayed dead and the rest converged in 2.10s", ringproof.ModeSafe,
			[]ringproof.Event{hit(5, ringproof.FaultKill, "m2"), hit(5, ringproof.FaultMachineLoss, "m2"), hit(12, ringproof.FaultMachineLoss, "m2"), healed, converged, over}},
		{"what converged under a fault doesn't count", "safety under faults until 12.3s; then m2, m3 and m10 stayed dead and the rest did not converge in the 45.7s that were left", ringproof.ModeSafe,
			[]ringproof.Event{hit(5, ringproof.FaultMachineLoss, "m10,m3"), hit(6, ringproof.FaultMachineLoss, "m2"), moment(9, ringproof.EventConverged), healed, over}},
		{"a disaster has its own rule", "safety under faults until 12.3s; then m1 and m2 stayed dead and the rest was asked to stop and say so, not to converge", ringproof.ModeDisaster,
			[]ringproof.Event{hit(5, ringproof.FaultMachineLoss, "m1,m2"), healed, over}},
	} {
		h := &ringproof.History{Plan: ringproof.Plan{Mode: c.mode}, Events: c.events}
		require.Equal(t, c.want, CellOf(h, nil).Phases, c.why)
	}
}

func TestSpent(t *testing.T) {
	require.Equal(t, "1 of 1", spent(ringproof.Budget{Used: 1}))
	require.Equal(t, "2 of 1", spent(ringproof.Budget{Used: 2, Left: -1}), "a disaster takes more than there is")
	require.Equal(t, "0 of 0", spent(ringproof.Budget{Left: -1}), "no membership was seen yet")
}

// TestALongBudgetDoesNotHideTheFindings: a terminal names where it is.
func TestALongBudgetDoesNotHideTheFindings(t *testing.T) {
	c := growReport().Cells[1]
	for len(c.Budget) <= shortBudget {
		c.Budget = append(c.Budget, c.Budget...)
	}
	var out bytes.Buffer
	require.NoError(t, Terminal(&out, Report{Cells: []Cell{c}}, Style{}))
	require.Contains(t, out.String(), "\n  budget: 12 entries, see index.html\n")
	require.NotContains(t, out.String(), "volume-loss of m1")
}

func TestThePageShowsTheLedger(t *testing.T) {
	text, err := page(growReport())
	require.NoError(t, err)
	for _, want := range []string{
		"safety under faults until 30.0s; then every fault had ended, and the ring converged in 1.20s.",
		`<td class="n">5.500s</td><td class="n">1 of 1</td><td class="n">0</td><td>volume-loss of m1</td>`,
		"<code>9f86d081884c7d65, 48213 events</code>",
	} {
		require.Contains(t, string(text), want)
	}
}
