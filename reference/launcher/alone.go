// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Alone takes one turn of a machine on which nobody leads the ring: its etcd runs if it
// is to, and the ring knows of the machine.
func (l *Launcher) Alone(ctx context.Context) error {
	look, err := l.Turn(ctx)
	if look == nil || err != nil || look.Unread != nil || look.Second {
		return err
	}
	if err := l.Attend(ctx, look); err != nil {
		return err
	}
	l.Rest()
	return nil
}

// Disk is the identity of the disk as the launcher knows it: of one that it emptied,
// another than before.
func (l *Launcher) Disk() string { return cmp.Or(l.disk.ID, l.Named) }

// DiskError says that another disk is in the machine than the one that it was told of,
// or none. Whatever runs there has lost its log, and must end.
type DiskError struct {
	Want string
	Here string // "": there is none that has an identity
}

func (e *DiskError) Error() string {
	if e.Here == "" {
		return fmt.Sprintf("the disk was %s, and has no identity now: what was on it is gone", e.Want)
	}
	return fmt.Sprintf("the disk was %s, and is %s now", e.Want, e.Here)
}

// openNamed opens the disk that was named before, and no other.
func (l *Launcher) openNamed() error {
	want := l.Disk()
	d, _, err := l.openKnown()
	switch {
	case errors.Is(err, errUnnamed):
		return &DiskError{Want: want}
	case err != nil:
		return err
	case d.ID != want:
		return &DiskError{Want: want, Here: d.ID}
	}
	l.disk = d
	return nil
}
