// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// TestFindingsNameMachines: an ID gets the machine of its member, unless the text has it,
// and what only looks like an ID stays.
func TestFindingsNameMachines(t *testing.T) {
	const member = ringproof.MemberID(0x8e9e05c52164694d)
	h := &ringproof.History{Observations: []ringproof.Observation{{
		Machines: []ringproof.MachineView{{Name: "m10", Disk: 1}},
		Members:  []ringproof.MemberView{{ID: member, Machine: "m10", Serving: true}},
	}}}
	found := []ringproof.Finding{fail(0, "expected remove of 8e9e05c52164694d to wait for m1, cluster 8e9e05c521646 is whole")}
	found[0].Evidence = []string{"member-removed m10 8e9e05c52164694d", "remove 8e9e05c52164694d, index 59"}
	f := named(h, found)[0]
	require.Equal(t, "expected remove of 8e9e05c52164694d (m10) to wait for m1, cluster 8e9e05c521646 is whole", f.Message)
	require.Equal(t, []string{"member-removed m10 8e9e05c52164694d", "remove 8e9e05c52164694d (m10), index 59"}, f.Evidence)
	require.Equal(t, "expected 8e9e05c52164694d", named(&ringproof.History{}, []ringproof.Finding{fail(0, "expected 8e9e05c52164694d")})[0].Message)
}
