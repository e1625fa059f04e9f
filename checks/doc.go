// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package checks judges histories: one file a property, history → finding.
//
// A check reads a ringproof.History and nothing else, so a saved history can
// be judged again by a later release. It passes only what it has seen to hold:
// when the evidence doesn't reach, the finding is inconclusive and says what
// was missing; when a check itself breaks, the finding is inconclusive and
// names it.
//
// Three things are rebuilt once and shared by several checks. The timeline is
// the clients' keyspace at every revision, from answered writes and from what
// watches, reads and the last dump tell of unanswered ones. The ledger is what
// each machine lost and when. The config is the membership as the ring's own
// log changes it, entry by entry.
package checks
