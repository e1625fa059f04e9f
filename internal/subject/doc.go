// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package subject is the reference on trial: the program that ships, run with
// its seams decorated. The reference holds no switch; every mutant and every
// fault at a seam is a decorator over auto.Brain, host.Host and store.Store,
// put in place by the hidden command that [Main] is.
//
// A [Mutant] is the reference with one hazard that launchers and controllers of
// the field have or had, to prove that a check would notice. The comment of each
// says why the hazard is reached: past ring.Next and launcher.Decide, and past
// etcd's own guards.
//
// [Faults] are harms at the seams: a store that doesn't answer or answers from
// the past, and an agent that dies at a named action. They lie next to the real
// thing, inside the mutants, so that they hit what a mutant does as well.
package subject
