// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package explore searches for plans that make a subject fail in the simulated
// world: it draws plans from seeds, sweeps the side effects of one plan, makes
// a failing plan small, and runs all of them in worker processes. It knows the
// simulation as one function, so it can be tested on a toy.
//
// [Search] draws and runs plans, [Sweep] goes through all that a subject did in one,
// [Shrinker] makes one small. Each runs its plans by a [Runner]: a [Pool] of worker
// processes that call [Serve], or anything else that can run a plan.
package explore
