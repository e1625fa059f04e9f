// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package harness runs plans and has them judged.
//
// [Run] carries out one plan in a world: one executor and one workload for
// every world. It is straight-line code over the World seam, so that it runs in
// virtual time as it runs in real time: a trigger is a state that is looked
// for, and waiting is World.Sleep.
//
// A [Suite] runs many plans, has each history judged, and keeps plan, history
// and report in one directory.
//
// [Mutate] tests the checks: it runs mutants of a subject, and releases of etcd with
// known bugs, until each is noticed or was tried enough; [Weigh] says which check is
// the only one to notice what. A [Confirmation] says what a finding of the simulated
// world came to in a real one.
package harness
