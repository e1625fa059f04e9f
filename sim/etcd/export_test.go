// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

// Records counts what a start reads.
func (d *Dir) Records() int { return len(d.wal) }
