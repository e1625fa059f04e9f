// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package run carries out plans: one executor and one workload for every
// world. It is straight-line code over the World seam, so that it runs in
// virtual time as it runs in real time: a trigger is a state that is looked
// for, and waiting is World.Sleep.
package run
