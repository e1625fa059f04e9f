// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

// Journal is all that a subject did and decided while it was kept, in order: what a fault
// that is set when it begins can hit, and so what a sweep faults one after another.
type Journal struct {
	Effects   []Effect   `json:"effects"`
	Decisions []Decision `json:"decisions"`
}

// Effect is one side effect of the subject at its seams, by a name that package faults
// knows: "etcd put", "write disk.json", "kube create pod".
type Effect struct {
	Machine string `json:"machine"`
	Scope   string `json:"scope,omitempty"` // [ScopeController], where it is on no machine
	Name    string `json:"name"`
	Nth     int    `json:"nth"`             // of that name on that machine, from 1: what the phases before and refused count
	Done    int    `json:"done"`            // of those that were done: what the others count; 0: it failed by itself, and has no reply to lose
	State   string `json:"state,omitempty"` // what the ring was then, as far as pruning cares; "": not known
}

// Decision is one decision of the subject's brain, counted as effects are.
type Decision struct {
	Machine string `json:"machine"`
	Scope   string `json:"scope,omitempty"` // the same
	What    string `json:"what"`            // "next" or "boot"
	Nth     int    `json:"nth"`
	State   string `json:"state,omitempty"` // the same, and what was decided
}
