// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// noDoomedClaim: a controller deletes a claim by name, on a view of before the pod was
// replaced, and the claim is the new pod's. Nothing happens for as long as that pod runs. It
// is the next restart, of a member in good order, that finds no data; of several such, the
// next upgrade.
var noDoomedClaim = Check{
	Name:   "no-doomed-claim",
	Claim:  "No claim and no volume of a member that runs is being deleted when the run ends.",
	Source: "Kubernetes' storage object in use protection: a claim that is deleted stays while a pod uses it, and its data goes with the pod",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		var unknowns []string
		judged := 0
		for _, c := range h.Evidence.Claims {
			m, member := h.Evidence.Final.On(c.Machine)
			i := slices.IndexFunc(c.Ending, func(o ringproof.Object) bool { return !deletedByHand(h, o) })
			switch {
			case c.Err != "":
				unknowns = append(unknowns, c.Machine+": "+c.Err)
			case member && i >= 0:
				return with(fail(ringproof.Forever, "expected member %s on %s to find its data when it is started anew, saw %s being deleted under it", m.ID, c.Machine, c.Ending[i].Name),
					fmt.Sprintf("%s holds the data of %s; uid %s is deleted once its pod is gone", c.Name, c.Machine, c.Ending[i].UID))
			default:
				judged++
			}
		}
		if len(unknowns) > 0 || judged == 0 {
			return with(unknown("the claims of %d machines could be read, and those of %d could not", judged, len(unknowns)), unknowns...)
		}
		return pass("of the claims of %s, none is being deleted", ringproof.Counted(judged, "machine"))
	},
	suits: func(p ringproof.Plan) bool { return safely(p) && p.Ring.On == ringproof.OnKubernetes },
}

// deletedByHand reports whether a step of the plan has deleted the object, and not the subject.
func deletedByHand(h *ringproof.History, o ringproof.Object) bool {
	return slices.ContainsFunc(h.Events, func(e ringproof.Event) bool {
		return e.Kind == ringproof.EventFaultLanded && e.Fault == ringproof.FaultKubeDelete && o.UID != "" && strings.Contains(e.Text, o.UID)
	})
}
