// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import (
	"fmt"
	"strings"
)

// otherData is what an etcd says that ends at its start, as the data of a peer differ from its
// own: corruptionChecker.InitialCheck in etcdserver/corrupt.go, the same in v3.5, v3.6 and
// v3.7, after the member's ID.
const otherData = "found data inconsistency with peers"

// differs halts on a member whose etcd finds other data at a peer at each start, and ends. That
// is all that it says: no alarm is raised, and one peer that differs is enough. The leader has
// lost what was acknowledged, and m2, which has it, is restarted: who replaced m2 for not coming
// up would have the wrong data left. It holds while the machine is away, too, as its copy may be
// the right one; of a disk that is lost there is none.
func differs(_ Spec, o Observed) (Decision, bool) {
	for _, m := range o.Members {
		machine, _ := o.own(m)
		if m.Serving || o.lostDisk(m) || !strings.Contains(machine.Failing, otherData) {
			continue
		}
		return Decision{
			Halt:     fmt.Sprintf("the etcd of %s finds other data at a peer at each start, and ends (%s): which copy is right is not known, and nobody is added or removed. Compare the hash of its file with the others' at one revision, and remove who is wrong", m, otherData),
			Commands: []string{"etcdctl endpoint hashkv --cluster --rev REVISION", "etcdutl hashkv DATA/etcd/member/snap/db --rev REVISION", "ringadm member remove ID"},
		}, true
	}
	return pass()
}
