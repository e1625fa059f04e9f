// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package reports renders what a run came to: text for a terminal, JSON for
// programs, JUnit for a CI server, Markdown for a job's summary, and one
// self-contained HTML page for a person who wants to see what happened.
//
// A [Report] holds one [Cell] a plan. [CellOf] makes a cell of a history and
// the findings on it, [Write] saves everything into a directory, [Terminal]
// prints the summary:
//
//	DIR/result.json   the verdict, and all figures; always written
//	DIR/junit.xml     fail → failure, inconclusive → error, not applicable → skipped
//	DIR/index.html    a timeline a cell, no request leaves it
//	DIR/summary.md    for $GITHUB_STEP_SUMMARY
//
// Findings are handed in. This package judges nothing: it merges verdicts,
// measures ([Measure]), and draws.
//
// # result.json
//
// The names are stable; a field is added, never renamed. Times are seconds
// since the world started, as numbers; null is "not measured", never zero.
//
//	format      "ringproof-report/v1"
//	verdict     pass | fail | inconclusive
//	error       why the run could not be made; the verdict is then never pass
//	counts      {cells, pass, fail, inconclusive, notApplicable, skipped, baseline}
//	subject, world, command, started, tools {ringproof, go, etcd {release: sha256}, subject}
//	cells       [{name, scenario, subject, world, seed, hypothesis, verdict,
//	              notApplicable, skipped, baseline, findings [{check, verdict, message, at, evidence, attached}],
//	              measurements, phases, budget [{at, what, used, left}], plan, history, replay, trace}]
//
// plan, history and attached are file paths relative to DIR. The measurements
// are described at [Measurements]; phases is one sentence, budget the timeline
// of the ledger that keeps faults fair, and trace the hash and the length of
// the run of a world that repeats itself.
package reports
