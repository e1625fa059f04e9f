// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package faults is the catalogue of what a step may do: faults, and what can be
// asked of a subject. An entry says what it does, its parameters, the targets it
// may have, what it may cause, how it heals, what a correct subject must survive or
// owes, and the sentence that tells it. Scenarios are read by it, and their schema,
// lint, explanations and draws are made of it. [Register] and [RegisterOperation]
// add to it. The package also holds the selectors that name targets and the ledger
// that keeps a run fair.
//
// Nothing here injects a fault. Worlds do; this package says what is meant and what
// is admissible.
package faults
