// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/ringproof/ringproof/reference/host"
)

// Names on the data filesystem.
const (
	DataDir  = "etcd"
	diskFile = "disk.json"
)

// Disk is what the data filesystem says of itself. It is written before
// anything else, so a disk without it has never held a member.
type Disk struct {
	ID       string `json:"id"`
	Launched bool   `json:"launched,omitempty"` // written once the first etcd was started
	// Machine is the one that the disk serves: its member is known by that
	// machine's address. In another machine it would be a member that nobody
	// reaches, or two at one address once the disk is back. "": not yet written.
	Machine  string `json:"machine,omitempty"`
	Emptying bool   `json:"emptying,omitempty"` // what a member left is being removed, and perhaps is there in part

	text string // of the file that says so
}

// OpenDisk reads the identity of the disk in the machine, and gives a new disk
// one; fresh tells that it did. known is what it returned the last time, or
// nothing: a file that is the same says the same.
func OpenDisk(h host.Host, machine string, known Disk) (d Disk, fresh bool, err error) {
	text, err := h.Disk().Read(diskFile)
	if err == nil && known.text != "" && string(text) == known.text {
		return known, false, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		d = Disk{ID: h.Nonce(), Machine: machine}
		err = d.write(h)
		return d, true, err
	}
	if err != nil {
		return Disk{}, false, fmt.Errorf("reading the disk's identity: %w", err)
	}
	if err := json.Unmarshal(text, &d); err != nil || d.ID == "" {
		return Disk{}, false, fmt.Errorf("reading the disk's identity: %s is not what was written: %v; empty the disk, and its member will be replaced", h.Disk().Path(diskFile), err)
	}
	if d.Machine != "" && d.Machine != machine {
		return Disk{}, false, &ForeignError{Disk: d, Here: machine, Blank: d.Emptying || d.blank(h)}
	}
	if d.Emptying {
		d, err = Empty(h, machine)
		return d, err == nil, err
	}
	d.Machine, d.text = machine, string(text)
	return d, false, nil
}

// blank tells that no etcd has written on the disk.
func (d Disk) blank(h host.Host) bool {
	_, err := h.Disk().WAL(DataDir)
	return !d.Launched && errors.Is(err, fs.ErrNotExist)
}

// ForeignError refuses a disk that serves another machine.
type ForeignError struct {
	Disk  Disk
	Here  string // the machine that it is in
	Blank bool   // no etcd has written on it, so that it may be adopted
}

func (e *ForeignError) Error() string {
	if e.Blank {
		return fmt.Sprintf("this disk was named by machine %s, and holds nothing: put it back there; if it stays, it will serve %s", e.Disk.Machine, e.Here)
	}
	return fmt.Sprintf("this disk is that of machine %s: put it back there; or, to use it in %s, empty it with ringadm reset", e.Disk.Machine, e.Here)
}

// Adopt makes a blank disk serve the machine that it is in. It keeps its
// identity: a founder's, put into another machine before it ran and then put
// back, is still the founder's.
func Adopt(h host.Host, e *ForeignError) (Disk, error) {
	if e.Disk.Emptying {
		return Empty(h, e.Here)
	}
	if !e.Disk.blank(h) {
		return Disk{}, e
	}
	d := e.Disk
	d.Machine = e.Here
	err := d.write(h)
	return d, err
}

func (d *Disk) write(h host.Host) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	d.text = string(text)
	return h.Disk().Write(diskFile, text)
}

// ReadLog adds to the evidence what the disk holds.
func ReadLog(h host.Host, e *Evidence) {
	log, err := h.Disk().WAL(DataDir)
	switch {
	case err == nil:
		e.WAL = &log
	case !errors.Is(err, fs.ErrNotExist):
		e.Damaged = err.Error()
	}
}

// Launch starts etcd as the command says, and marks the disk. Who dies in
// between leaves an etcd that runs, and [Mark] is made up for; or one that came
// to nothing before it made a log, and so has promised nothing. Marked before
// the start, the disk of an etcd that never ran would be taken for one that has
// lost its log, and its member be replaced.
func Launch(ctx context.Context, h host.Host, d Disk, c Command) error {
	if err := h.Process().Start(ctx, c.Args()); err != nil {
		return err
	}
	return Mark(h, d)
}

// Mark notes on the disk that an etcd has run on it: one that leaves no log has
// lost it.
func Mark(h host.Host, d Disk) error {
	if d.Launched {
		return nil
	}
	d.Launched = true
	if err := d.write(h); err != nil {
		return fmt.Errorf("marking the disk after etcd's first start: %w", err)
	}
	return nil
}

// Empty removes the etcd data and gives the disk a new identity, in an order
// that a crash may interrupt anywhere: what is half removed would look like a
// damaged log, so the disk says first that it is being emptied. A disk that is
// so full that it can't say so is emptied all the same: nothing else would ever
// make room, and that the member has left is known. It serves the machine from
// then on; "": whichever it is in.
func Empty(h host.Host, machine string) (Disk, error) {
	d := Disk{ID: h.Nonce(), Machine: machine, Emptying: true}
	marking := d.write(h)
	if marking != nil && !errors.Is(marking, syscall.ENOSPC) {
		return Disk{}, fmt.Errorf("marking the disk before it is emptied: %w", marking)
	}
	if err := h.Disk().Remove(DataDir); err != nil {
		return Disk{}, fmt.Errorf("removing the data of a member that has left: %w", err)
	}
	d.Emptying = false
	err := d.write(h)
	return d, err
}
