// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// Names on the data filesystem.
const (
	DataDir  = "etcd"
	diskFile = "disk.json"
	keysFile = DataDir + "/member/snap/db"
	logDir   = DataDir + "/member/wal"
	// firstFile is in etcd's directory from before its first start until the disk is marked:
	// who loses what that etcd wrote loses it too.
	firstFile = DataDir + "/first-start"
)

// Disk is what the data filesystem says of itself. It is written before
// anything else, so a disk without it has never held a member.
type Disk struct {
	ID       string `json:"id"`
	Starting bool   `json:"starting,omitempty"` // written before the first etcd is started: a log that is there later is its
	Launched bool   `json:"launched,omitempty"` // written once there was a log
	// Member is whose log the disk has, or was to have: that of another was made elsewhere.
	// 0: not yet written.
	Member ring.ID `json:"member,omitempty"`
	// Machine is the one that the disk serves: its member is known by that
	// machine's address. In another machine it would be a member that nobody
	// reaches, or two at one address once the disk is back. "": not yet written.
	Machine  string `json:"machine,omitempty"`
	Emptying bool   `json:"emptying,omitempty"` // what a member left is being set aside, or removed, and perhaps is there in part
	Aside    string `json:"aside,omitempty"`    // where the data of the last member that left are: one copy is kept
	// Spoiled is the member whose log on the disk may never run again: it is damaged, or
	// older than what the member acknowledged, or that of a ring of one.
	Spoiled ring.ID `json:"spoiled,omitempty"`
	// Accepted is a raft index up to which the log on the disk is the ring's, by a person's
	// word, though somebody made it that of a ring of one. The ring has that word, too, and
	// can't be asked while the only log waits for it. 0: there was none.
	Accepted uint64 `json:"accepted,omitempty"`
	// Release is the release of etcd that the member here runs: what it was started with
	// first, and then what its record in the ring says. "": not yet written.
	Release ring.Version `json:"release,omitempty"`
	// Tried is the release with which an etcd was started here last, if that was only this
	// machine's own: what its record in the ring says is another. "": it was no such.
	Tried ring.Version `json:"tried,omitempty"`
	// Peers is how the etcd here listens for its peers, once its record in the ring said
	// so. "": as members did when the ring was bootstrapped.
	Peers ring.Security `json:"peers,omitempty"`

	text string // of the file that says so
}

// OpenDisk reads the identity of the disk in the machine, and gives a new disk
// one; fresh tells that it did. known is what it returned the last time, or
// nothing: a file that is the same says the same.
func OpenDisk(h host.Host, machine string, known Disk) (d Disk, fresh bool, err error) {
	if d, fresh, err = openOld(h, machine, known); errors.Is(err, errUnnamed) {
		return newDisk(h, machine)
	}
	return d, fresh, err
}

var errUnnamed = errors.New("the disk has no identity")

// openOld reads the identity of a disk that has one, and fails with errUnnamed if it
// has none.
func openOld(h host.Host, machine string, known Disk) (d Disk, fresh bool, err error) {
	text, err := h.Disk().Read(diskFile)
	if err == nil && known.text != "" && string(text) == known.text {
		return known, false, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Disk{}, false, errUnnamed
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

// stays reports whether a disk whose identity is gone is the one that it was: an etcd runs,
// and the log of its member is there. last is how far that has come: one that ends before
// was put there from a copy. Nobody who has started since knows the identity; to him the
// disk is a new one, on which that log is a stranger's.
func (d Disk) stays(h host.Host, last uint64) (bool, error) {
	args, err := h.Process().Running()
	if err != nil || args == nil || d.Member == 0 {
		return false, err
	}
	log, err := h.Disk().WAL(DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s is gone, and whether this is still disk %s its log would tell: %w", h.Disk().Path(diskFile), d.ID, err)
	}
	return ring.ID(log.Member) == d.Member && log.Last >= last, nil
}

// unlinked reports whether the log of the member that runs here is gone: somebody has removed it,
// and etcd goes on with the files that it has open. It acknowledges, and once it ends it has
// forgotten all of that.
func (d Disk) unlinked(h host.Host) (bool, error) {
	if !d.Launched || d.Member == 0 {
		return false, nil
	}
	there, err := h.Disk().Exists(logDir)
	if err != nil || there {
		return false, err
	}
	args, err := h.Process().Running()
	return args != nil, err
}

// newDisk gives a disk an identity. A directory whose filesystem isn't mounted yet
// is none: named now, the member whose log is on that filesystem would be replaced
// for nothing, and its log be another member's leftovers once it is mounted.
func newDisk(h host.Host, machine string) (Disk, bool, error) {
	if err := mounted(h); err != nil {
		return Disk{}, false, err
	}
	d, err := NewDisk(h, machine)
	return d, err == nil, err
}

func mounted(h host.Host) error {
	prepared, err := h.Disk().Prepared()
	switch {
	case err != nil:
		return fmt.Errorf("looking what is mounted on %s: %w", h.Disk().Path(""), err)
	case !prepared:
		return fmt.Errorf("no filesystem is mounted on %[1]s, and nobody prepared that directory: mount it, or, to have a plain directory be the disk, run ringadm init-disk --data %[1]s", h.Disk().Path(""))
	}
	return nil
}

// NewDisk writes a new identity, whatever the place is.
func NewDisk(h host.Host, machine string) (Disk, error) {
	d := Disk{ID: h.Nonce(), Machine: machine}
	err := d.write(h)
	return d, err
}

// Named reads the identity of a disk that has one.
func Named(h host.Host) (d Disk, known bool) {
	text, err := h.Disk().Read(diskFile)
	return d, err == nil && json.Unmarshal(text, &d) == nil && d.ID != ""
}

// Strange reports whether a log that is on the disk was made elsewhere: somebody
// copied it here, or the file that said more is lost.
func (d Disk) Strange() bool { return !d.Starting && !d.Launched }

// blank reports whether no etcd has written on the disk.
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
// identity: an initial member's, put into another machine before it ran and then put
// back, is still the initial member's.
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

// mayBecome tries whether the disk takes what it is to say next: it is told once more what
// it says, in as many bytes.
func (d Disk) mayBecome(h host.Host, next Disk) error {
	says, err := json.Marshal(d)
	text, failed := json.Marshal(next)
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	return h.Disk().Write(diskFile, append(says, bytes.Repeat([]byte(" "), max(0, len(text)-len(says)))...))
}

// ReadLog adds to the evidence what the disk holds.
func ReadLog(h host.Host, e *Evidence) {
	log, err := h.Disk().WAL(DataDir)
	switch {
	case err == nil:
		e.WAL, e.Damaged = &log, cmp.Or(log.Cut, log.Unopened)
	case !errors.Is(err, fs.ErrNotExist):
		e.Damaged = err.Error()
	}
}

// Launch starts etcd as the command says. A disk is marked as soon as there is a
// log on it, not before: an etcd that ended earlier has promised nothing, and its
// disk, marked, would be taken for one that has lost its log. All machines of a ring
// lose their power as its initial members start; they would wait for a person for ever.
// What is written before the start says less: that a log may come to be here.
// Without it, nobody could tell the log of an etcd whose agent died with it from one
// that was copied here.
func Launch(ctx context.Context, h host.Host, d Disk, c Command) error {
	was := d
	if d.Tried = c.Version; c.Pinned {
		d.Release, d.Tried = c.Version, ""
	}
	d.Member = cmp.Or(c.Boot.Member, d.Member)
	if err := d.expect(h, true, d != was); err != nil {
		return err
	}
	if err := h.Process().Start(ctx, c.Args()); err != nil {
		return err
	}
	for end := h.Monotonic() + logWithin; !d.Launched && d.blank(h) && h.Monotonic() < end; {
		if err := h.Sleep(ctx, logPace); err != nil {
			break
		}
	}
	return Mark(h, d)
}

// A log is there within a few hundredths of a second: it is looked for often, as
// whoever loses power and log between log and mark has forgotten that it promised
// anything. A member that joins asks its peers first; who calls Launch marks the
// disk later, then.
const (
	logPace   = 10 * time.Millisecond
	logWithin = 150 * time.Millisecond
)

// Mark notes on the disk that there is a log on it: from now on, a disk without has
// lost it.
func Mark(h host.Host, d Disk) error {
	if d.Launched || d.blank(h) {
		return nil
	}
	if err := d.launched(h); err != nil {
		return fmt.Errorf("marking the disk after etcd's first start: %w", err)
	}
	return nil
}

func (d *Disk) launched(h host.Host) error {
	d.Launched = true
	if err := d.write(h); err != nil {
		return err
	}
	return h.Disk().Remove(firstFile) // etcd warns of what isn't its own
}

// Ended takes back, once no etcd runs, that a log may come to be on the disk: one
// that is found on it later was made elsewhere. It returns what the disk says now. If what the
// first etcd wrote is gone, there may have been a log, before anybody could mark the disk: a
// initial member's volume is emptied as it has run for a twentieth of a second, and its vote is gone.
func Ended(h host.Host, d Disk) (Disk, error) {
	if d.Launched || !d.blank(h) {
		return d, nil
	}
	there, err := h.Disk().Exists(firstFile)
	switch {
	case err != nil:
		return d, fmt.Errorf("looking for what etcd's first start left: %w", err)
	case d.Starting && !there:
		if err := d.launched(h); err != nil {
			return d, fmt.Errorf("marking the disk whose first log may be lost: %w", err)
		}
		return d, nil
	}
	return d, d.expect(h, false, false)
}

// expect notes whether a log may come to be on the disk; anew: something else is to be
// noted too.
func (d *Disk) expect(h host.Host, log, anew bool) error {
	if !anew && (d.Launched || d.Starting == log) {
		return nil
	}
	d.Starting = d.Starting && d.Launched || log && !d.Launched
	var err error
	if d.Starting && d.blank(h) {
		err = h.Disk().Write(firstFile, nil)
	}
	if err == nil {
		err = d.write(h)
	}
	if err != nil {
		return fmt.Errorf("marking the disk before etcd's first start: %w", err)
	}
	return nil
}

// Empty sets the etcd data aside and gives the disk a new identity, in an order
// that a crash may interrupt anywhere: the disk says first that it is being
// emptied. One copy is kept; whatever a member's data were set aside for in error,
// a person can put them back. A disk that is so full that it can't say so gives up
// the older copy, and then the data: nothing else would ever make room, and that the
// member has left is known. It serves the machine from then on; "": whichever it
// is in.
func Empty(h host.Host, machine string) (Disk, error) {
	was, _ := Named(h)
	before := was.Aside
	name, err := was.asideName(h)
	if err != nil {
		return Disk{}, fmt.Errorf("looking for the data of a member that has left: %w", err)
	}
	if name != "" && before != "" && before != name {
		if err := h.Disk().Remove(before); err != nil {
			return Disk{}, fmt.Errorf("removing what an earlier member left: %w", err)
		}
	}
	d := Disk{ID: h.Nonce(), Machine: machine, Emptying: true, Aside: cmp.Or(name, before)}
	if marking := d.write(h); errors.Is(marking, syscall.ENOSPC) {
		return emptyFull(h, d)
	} else if marking != nil {
		return Disk{}, fmt.Errorf("marking the disk before it is emptied: %w", marking)
	}
	if err := setAside(h, name); err != nil {
		return Disk{}, fmt.Errorf("setting aside the data of a member that has left: %w", err)
	}
	d.Emptying = false
	err = d.write(h)
	return d, err
}

// emptyFull removes what Empty would set aside.
func emptyFull(h host.Host, d Disk) (Disk, error) {
	for _, name := range []string{d.Aside, DataDir} {
		if name == "" {
			continue
		}
		if err := h.Disk().Remove(name); err != nil {
			return Disk{}, fmt.Errorf("removing the data of a member that has left, as the disk is full: %w", err)
		}
	}
	d.Emptying, d.Aside = false, ""
	err := d.write(h)
	return d, err
}

// asideName is where the data belong that are on the disk, by their member and the date;
// "" when there are none for certain: then nothing is kept. Without a log nothing says whose
// they are, and a member's keys are there all the same.
func (d Disk) asideName(h host.Host) (string, error) {
	member := "unread"
	log, err := h.Disk().WAL(DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if there, err := h.Disk().Exists(keysFile); !there {
			return "", err
		}
		member = "logless"
	case err != nil && d.Spoiled != 0:
		member = d.Spoiled.String()
	case err == nil:
		member = ring.ID(log.Member).String()
	}
	return fmt.Sprintf("%s.removed-%s-%s", DataDir, member, h.Now().UTC().Format("20060102T150405Z")), nil
}

func setAside(h host.Host, name string) error {
	if name == "" {
		return h.Disk().Remove(DataDir)
	}
	there, err := h.Disk().Exists(name)
	if err == nil && there {
		err = h.Disk().Remove(name)
	}
	if err != nil {
		return err
	}
	return h.Disk().Rename(DataDir, name)
}

// Listing is a ring's membership, read with a quorum.
type Listing struct {
	Cluster uint64
	Members []uint64
}

// Reset is Empty for a person: it refuses unless no etcd runs on the data, the
// data are those of the member that the person named, and the list of that very
// ring doesn't hold it. Another ring lists none of this one's members. list is
// asked only if there is a log. Where there is no disk, as its filesystem isn't mounted,
// none is made: the member whose disk is away would be replaced for it.
func Reset(h host.Host, member uint64, list func() (Listing, error)) (Disk, error) {
	running, err := h.Process().Running()
	if err != nil {
		return Disk{}, err
	}
	if running != nil {
		return Disk{}, errors.New("reset refused: an etcd runs on this data; it stops by itself once its member is removed")
	}
	if there, err := h.Disk().Exists(diskFile); err != nil || !there {
		if err := cmp.Or(err, mounted(h)); err != nil {
			return Disk{}, fmt.Errorf("reset refused: %w", err)
		}
	}
	var e Evidence
	if ReadLog(h, &e); e.Damaged != "" {
		return Disk{}, fmt.Errorf("reset refused: whose the data is can't be read: %s; move it away by hand", e.Damaged)
	}
	if e.WAL != nil {
		if err := hasLeft(*e.WAL, member, list); err != nil {
			return Disk{}, fmt.Errorf("reset refused: %w", err)
		}
	}
	return Empty(h, "")
}

func hasLeft(log host.WAL, member uint64, list func() (Listing, error)) error {
	if member != log.Member {
		return fmt.Errorf("the data are those of member %x of ring %x, up to index %d; if it is that one which is to go, say so: ringadm reset %x", log.Member, log.Cluster, log.Last, log.Member)
	}
	l, err := list()
	switch {
	case err != nil:
		return fmt.Errorf("whether member %x has left is unknown: %w", member, err)
	case l.Cluster != log.Cluster:
		return fmt.Errorf("member %x is of ring %x, and the endpoints are those of ring %x, which can't know whether it has left", member, log.Cluster, l.Cluster)
	case slices.Contains(l.Members, member):
		return fmt.Errorf("member %x is in the ring; remove it first: ringadm member remove %x", member, member)
	}
	return nil
}
