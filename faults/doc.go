// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package faults is the catalogue of harms: what each does, its parameters,
// the targets it may have, how it heals, and what a correct subject must
// survive. It also holds the selectors that name targets and the ledger that
// keeps a run fair.
//
// Nothing here does harm. Worlds do; this package says what is meant and what
// is admissible.
package faults
