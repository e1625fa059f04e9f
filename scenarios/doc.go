// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package scenarios turns what a person writes into what a world runs:
//
//	YAML ─Parse→ Scenario ─Cells(seed)→ Cell ─Resolve→ ringproof.Plan
//
// The types in form.go are the single source of the YAML form, its JSON schema
// and its strict decoding. A problem is a Diagnostic with a place, a stable
// code and, where one is near, what was probably meant.
//
// All chance is spent in Resolve. A plan is written by WritePlan and read back
// by ReadPlan.
package scenarios
