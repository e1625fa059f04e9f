// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package ringproof is the vocabulary of the harness: the values that its
// stages hand to one another, and the one interface behind which a ring lives.
//
//	scenario.yaml ─parse→ Scenario ─resolve(seed)→ Plan ─run in a World→ History ─checks→ Findings ─merge→ Verdict ─render→ Report
//
// Every noun here can be printed, saved and read back. A ring is one etcd
// cluster; a member is an entry in its membership, a voter or a learner; a
// machine is what one member runs on, a network address and a disk.
//
// The package imports the standard library alone, and everything else may
// import it.
package ringproof
