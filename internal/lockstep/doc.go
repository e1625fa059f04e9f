// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package lockstep runs unchanged programs of Go's as the processes of a world that has its
// own time: a process each, under a coordinator that is their clock, their network and their
// kernel's table of processes. The same seed is meant to give the same world, to the byte and
// the nanosecond, however busy the host is: the hash in an [Outcome] says whether it did.
//
//	coordinator ([Run])      grants each process to run until the next thing that can reach it
//	└─ socket, a process     what was sent, and the next timer ↔ what comes, and until when
//	   └─ internal/lockstep  of the standard library: takes the place of kernel and clock
//	      └─ main            in a bubble (package testing/synctest), as it is
//
// Nothing of a program is changed. It is built with another standard library
// ([MakeOverlay]), in which some places ask this package's inside first: see patches.go for
// what is replaced, and inside/ for what is added.
//
// What it can't do: programs that aren't Go's or have no net/http run to their end in no
// time; computing takes no time; writes that were never synced are not lost; names are those of a
// file. TCP is reliable streams with a window, and no back-off.
package lockstep
