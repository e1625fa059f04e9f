// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package kube is a Kubernetes API server in virtual time: a state machine that
// never blocks, holds no goroutine and reads no clock. All that it takes from its
// surroundings is a [Host]. Its errors are apimachinery's own, with the texts of
// a real server, so that code which tells them apart runs unchanged.
//
// A kind that a CRD defines is pruned, completed and held to its schema and its CEL
// rules by a real server's own code. The transcripts in sim/kube/fidelity are of
// Kubernetes 1.36.3, and this server prints the same.
//
// [Server.Reconcile] has the cluster's own controllers act: that of StatefulSets ([Set]
// is a step of it, from what it sees to what it writes), the protection of claims in
// use, and the garbage collector.
//
// Not there: server-side apply, scales, bindings, foreground and
// orphan deletions (they are refused), admission, a scheduler, kubelets, volumes, and
// for built-in kinds other than StatefulSets all defaults, and every validation but
// that of metadata and of immutable ConfigMaps and Secrets.
package kube

import "time"

// Host is what a server takes from its surroundings. All calls come from one thread.
type Host interface {
	// Elapsed is time that only goes forward.
	Elapsed() time.Duration
	// Draw returns 64 random bits; the nth draw of a stream is always the same.
	Draw(stream string) uint64
	// Log writes a line for a person.
	Log(line string)
}
