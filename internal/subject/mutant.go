// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

// Mutant is the reference with one hazard put in.
type Mutant struct {
	Name     string `json:"name"`
	Hazard   string `json:"hazard"` // what it does wrong, in one sentence
	Source   string `json:"source"` // whose hazard it is or was, by the facts' IDs
	Check    string `json:"check"`  // the check that must fail it, in every world
	Scenario string `json:"scenario"`
	SimOnly  string `json:"simOnly,omitempty"` // why it can be shown in the simulated world alone; "": in every one
	Undrawn  string `json:"undrawn,omitempty"` // why no plan that explore draws can show it; "": one can

	layer func() layer // anew for each process, as it may remember; nil: it lies beneath the reference
	flaw  func() flaw  // anew for each world; nil: it is one of the reference
}

var mutants = []Mutant{
	voterFirst, twoAtOnce, removeBeforeReplace, wrongVictim, unreachableAbsent, countMachines, neverReplaced, orphanLearner,
	trustDirectory, startOldID, wipeOnUnknown, stateNew, foundAgain, revives, insists, selfDestruct, resetAll, shrinkByWipe,
	neverRenews, ignoresRetire, putsOff, ignoresSilence, saysNothing, criesWolf, everyAgentLeads, removesMeanwhile, replacesWithVoter,
	rebalances, restartsPromoted, noHandOver, leavesEtcd, unmountedIsEmpty, resumesCopy, missesEdits, ignoresClusterID,
	probesByWriting, oneAuthority, logsKeys, dropsFlags, answersAnybody, keepsDiskID,
	staleRead, forgottenValue, lostEvent, forgetsItsTerm, hashesOtherwise, halfBackup, oldBackup, leaseCutShort, discardsNothing, anotherAnswers, listsOtherwise, fallenBack,
	answersAfterRemoval, panicsOnRequest, harmless, beginsAndRefuses,
	removesHealthy, removesSlow, removesAlarmed, startsForced, resumesCut, startsUnopened, obeysForced, startsOlder, beginsOnCopies, leavesDamaged,
	kubeResetAll, kubeNamesWhenReady, kubeLiveNeedsQuorum, kubeSetFollowsList, kubeShrinksSetFirst, kubeStatusFrozen, kubeSetByStatus,
	kubeRollingUpdate, kubeCountsOnEnding, kubeReloadsAll, kubeForgetsClaims,
	kubeBudgetFromSpec, kubeClaimBeforeShrink, kubeHotStatus, kubeTerminalPods, kubeAnySickStopsAll, kubeFrozenCluster, kubeReplaceByReadiness, kubeURLNotHost,
	kubeDeletesToRestart, kubeNameNotUID, kubeClaimByName, kubeStartsUnnamed, kubeSeedStaysNew, kubeClaimsGoWithSet, kubeRecordsGoWithRing, kubeMadeOnce, kubeReplicasLeft, kubeRollsForItself, kubeNeverForces, kubeEndsWithSet, kubeShowsKeys,
	kubeDegradedStays, kubeDropsResources, kubeReadyWhileItLives, kubeBesideAnother,
	kubeFoundAgain, kubeWrongVictim, kubeClosesBeforeListed, kubeJoinsByOldURLs, kubeFirstBootStale, kubeGateOverRing,
	adoptsAtOnce, distrustsBeginnings,
	upgradesAtOnce, upgradesLeaderFirst, upgradesOverSilent, upgradesUnread, replacesUpgraded, tellsAgain,
	countsStrangers, servesLeaderless, forgetsFailing, addsUpAbsences, addsWhileFull, heedsFirstSilent, goesByMachine, trustsWhoAnswers,
	closesBeforeListed, joinsByOldURLs, keepsPlainPort, movesInBatches,
}

// Mutants lists every mutant: first those that decide wrongly about the ring,
// then those that start or stop an etcd wrongly.
func Mutants() []Mutant { return slices.Clone(mutants) }

// IsBeneath reports whether the mistake is one of what is seen of the ring, and
// not one of the reference.
func (m Mutant) IsBeneath() bool { return m.flaw != nil }

// only is the layer of a mutant that remembers nothing.
func only(l layer) func() layer { return func() layer { return l } }

func act(a ring.Action) ring.Decision      { return ring.Decision{Action: &a} }
func wait(why string) ring.Decision        { return ring.Decision{Wait: why} }
func is(d ring.Decision, k ring.Kind) bool { return d.Action != nil && d.Action.Kind == k }

// decidedOn is the decision as one on o, whatever the brain inside a mutant was
// shown: the guard is to find that o is no more, not that the mutant is wrong.
func decidedOn(o ring.Observed, d ring.Decision) ring.Decision {
	if d.Action != nil {
		a := *d.Action
		a.On = ring.Roles(o.Members)
		d.Action = &a
	}
	return d
}

func memberOf(o ring.Observed, id ring.ID) (ring.Member, bool) {
	i := slices.IndexFunc(o.Members, func(m ring.Member) bool { return m.ID == id })
	if i < 0 {
		return ring.Member{}, false
	}
	return o.Members[i], true
}

// otherDisk reports whether the member's machine is here with another disk in it
// than the one the member lives on.
func otherDisk(o ring.Observed, m ring.Member) bool {
	return slices.ContainsFunc(o.Machines, func(on ring.Machine) bool {
		return on.Name == m.Machine && on.Present && m.Disk != "" && on.Disk != m.Disk
	})
}

// blind shows the ring as one sees it who can't tell one disk from another.
func blind(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
	o.Machines = slices.Clone(o.Machines)
	for _, m := range o.Members {
		for i, on := range o.Machines {
			if on.Name == m.Machine && m.Disk != "" {
				o.Machines[i].Disk = m.Disk
			}
		}
	}
	return inner(spec, o)
}

// adopting shows an added voter that has not started as what the reference
// adds, so that it binds it and waits for it; it halts on a voter it didn't add.
func adopting(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
	o.Members = slices.Clone(o.Members)
	for i, m := range o.Members {
		if !m.Started() && m.Disk == "" {
			o.Members[i].Learner = true
		}
	}
	return inner(spec, o)
}

// peers is the ring as a launcher knows it that goes by names and addresses:
// the member list, else the initial members.
func peers(e launcher.Evidence) []ring.Member {
	if e.Listed || e.Identity == nil {
		return e.Members
	}
	var all []ring.Member
	for _, f := range e.Identity.Members {
		all = append(all, ring.Member{Name: f.Name, Machine: f.Machine, PeerURL: f.PeerURL})
	}
	return all
}

// resurrect starts the member of this machine with what there is on the disk.
// With "existing" etcd takes over the ID that its peers list at this peer URL,
// and has no log for it.
func resurrect(e launcher.Evidence, why string) (launcher.Boot, bool) {
	here := false
	var all []string
	for _, m := range peers(e) {
		here = here || m.Machine == e.Machine && m.Started()
		for url := range strings.SplitSeq(m.PeerURL, ",") {
			all = append(all, cmp.Or(m.Name, m.Machine)+"="+url)
		}
	}
	return launcher.Boot{Do: launcher.Start, State: launcher.Existing, Cluster: all, Why: why}, here
}
