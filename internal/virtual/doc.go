// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package virtual is the world of real processes in virtual time: real etcd and the
// subject's real processes, unmodified, a process each, in lockstep under one clock
// (package lockstep). It does what the local world does, by the same code, and a plan comes
// to the same in every run, however busy the host is.
//
//	ringproof                    Carry, for each plan: the coordinator, and the judge
//	└─ ringproof seat            the local world, its run and its clients, on machine 1
//	   ├─ ringadm, etcd, …       on machines 11, 12, …
//
// All but the first are built with another standard library ([Build]).
package virtual
