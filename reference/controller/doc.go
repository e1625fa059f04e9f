// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package controller makes a running ring of an EtcdRing: it keeps the objects that the
// pods need, bootstraps the ring once all its disks have told what is on them, and then runs
// the ring's own automation, as reconcile has it, over slots.
//
// A reconcile goes straight on: it looks, ground decides on objects, ring.Next on the
// ring, and each change is made if what it rests on still is. What it writes into the
// ring's status decides nothing.
package controller
