// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import "github.com/ringproof/ringproof/sim/etcd"

// OpenAlone is a world whose members do all of their work themselves. They ask as
// much as ever: questions are events.
func OpenAlone(seed uint64, s Subject) *World {
	w := New(seed, s)
	w.work = etcd.Work{Own: true}
	return w
}
