// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package sim is the deterministic world: machines, disks, a network, a store
// and etcd servers (package etcd) in virtual time, on one thread, the same in
// every run of the same plan, bit for bit.
//
// It runs the subject's own code, unchanged, as long as that code is
// straight-line and blocks only in the calls of the seams: a [Machine] is a
// host.Host, a store and the clients of the ring are the real interfaces. Every
// such call gives the thread to the scheduler, which may let anything happen
// before it returns, or never return. To put automation of your own on trial,
// implement [Subject]; examples/tiny is one of a hundred lines.
//
// raft draws its election timeouts from crypto/rand.Reader, a variable of the
// whole program, which a world puts a stream of its own in. So one world runs in
// a process at a time.
package sim
