// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package subject is the reference on trial: the program that ships, run with
// its seams decorated. The reference holds no switch; every mutant and every
// fault at a seam is a decorator over auto.Brain, host.Host and store.Store.
// [Processes] puts them into real processes, by the hidden command that [Main]
// is; [Simulated] puts the same into sim.
//
// A [Mutant] is the reference with one hazard that launchers and controllers of
// the field have or had, to prove that a check would notice. The comment of each
// says why the hazard is reached: past ring.Next and launcher.Decide, and past
// etcd's own guards.
//
// Faults at the seams (package seam keeps which are set) are a store that doesn't answer or answers from
// the past, an agent that is cut at an action or at any effect of its own, a
// brain that decides on an old view or not at all. Those at effects lie next to
// the real thing, inside the mutants, so that they hit what a mutant does as
// well; those of views lie around them, so that all of a brain sees the same.
package subject
