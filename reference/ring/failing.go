// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import (
	"fmt"
	"regexp"
	"slices"
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

// toldWrong is what an etcd says that ends at its start because of what it was told, and not of
// its machine: Go's flag package of a flag that the release doesn't have or can't read, etcdmain
// of what it finds wrong with the others ("failed to verify flags"), and etcd of a release that
// the ring doesn't take (mustDetectDowngrade in v3.5's membership/downgrade.go, later in
// etcdserver/version).
var toldWrong = regexp.MustCompile(`flag provided but not defined|^invalid (?:boolean )?value "|failed to verify flags|` + badDowngrade)

const badDowngrade = "invalid downgrade"

// toldWrong reports whether no etcd starts on the member's machine because of what it is told.
func (o Observed) toldWrong(m Member) bool {
	machine, known := o.own(m)
	return known && machine.Present && !m.Serving && toldWrong.MatchString(machine.Failing)
}

// mistold halts on a member whose etcd ends at each start because of what it is told: any other
// machine would be told the same. A flag is asked for that etcd doesn't have. Each voter that
// was restarted from then on ended, was taken for one that its machine fails, and replaced by
// one that had not been restarted yet.
func mistold(spec Spec, o Observed, quiet []Member) (Decision, bool) {
	i := slices.IndexFunc(quiet, o.toldWrong)
	if i < 0 {
		return pass()
	}
	machine, _ := o.own(quiet[i])
	return Decision{
		Halt:     fmt.Sprintf("no etcd starts on %s with what it is told: %s; it would on no other machine, so nobody is replaced for it. Take back what was asked for", quiet[i], machine.Failing),
		Commands: o.takesBack(spec, quiet[i], machine.Failing),
	}, true
}

// flagNamed is the flag in the words of Go's flag package.
var flagNamed = regexp.MustCompile(` -([a-z0-9-]+)(?::|$)`)

// takesBack are the commands that have the member's etcd told otherwise than it complains of.
func (o Observed) takesBack(spec Spec, m Member, words string) []string {
	switch {
	case !strings.Contains(words, badDowngrade):
		name := "NAME"
		if found := flagNamed.FindStringSubmatch(words); found != nil {
			name = found[1]
		}
		return []string{"ringadm spec STORE flag." + name + "=", fmt.Sprintf("ringadm spec STORE %s.flag.%s=", m.Machine, name)}
	case strings.Contains(words, "downgrade is enabled"):
		return []string{"etcdctl downgrade cancel"}
	case spec.Own[m.Machine] != "":
		return []string{fmt.Sprintf("ringadm spec STORE %s.version=", m.Machine)}
	}
	return []string{fmt.Sprintf("ringadm member upgrade %s --version %s", m.ID, o.joins(spec, m.Machine))}
}
