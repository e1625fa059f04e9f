// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import "github.com/coreos/go-semver/semver"

// Records counts what a start reads.
func (d *Dir) Records() int { return len(d.wal) }

// Forget has the next start make all of the log again.
func (d *Dir) Forget() { d.made = made{} }

// GoesOn tells whether a start of that release need not.
func (d *Dir) GoesOn(release string) bool {
	kept := d.made
	defer func() { d.made = kept }()
	return d.ready(d.read(), *semver.New(release)) != nil
}
