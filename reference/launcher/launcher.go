// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

const restPace = time.Second // between two looks at a ring in which there is nothing to do: a fifth of the lease

// Config is one machine, and where it learns of its ring.
type Config struct {
	Machine  string
	Address  string                  // IP address or host name that peers and clients reach
	Binaries map[ring.Version]string // etcd release → path of its binary
	Source   Source
	// Authority returns what signs the machine's certificates, unless they are Issued.
	Authority func(context.Context) (store.Authority, error)
	// Issued are the machine's certificates where somebody else issues and renews them;
	// nil: the machine does.
	Issued *Issued
	// Named is the identity of the disk where somebody else gives it one, before the
	// launcher runs: the launcher gives none, and fails with a DiskError once another disk
	// is there, or none. "": the launcher names a disk that is new.
	Named string
	// Unnamed says why whoever looks the machine up by its Address doesn't find it yet, "" if
	// he does; nil: it is an IP address, or nobody's to look up.
	Unnamed func(context.Context) string
	Decide  func(Evidence) Boot
	Do      func(context.Context, *admin.Ring, ring.Action, admin.Fence) error
}

// Launcher is one machine's part in a ring: its disk, its certificates, its etcd, and
// that the ring knows it to be there. It leads nothing.
type Launcher struct {
	Config
	Ring  *admin.Ring // as it is reached from here
	Known Known       // what was learned of it; others only read it
	Lease admin.Lease // what the machine's presence lives by, and whatever else its process writes into the ring

	host         host.Host
	log          *host.Recorder
	disk         Disk
	misplaced    misplaced
	certificates certificates
	memory       memory
	starts       starts
	listens      ring.Security // how the etcd that runs listens for its peers; "": none runs
	trusts       string        // whom the etcd that was started last was to trust, as Issued says; "": it isn't known
	held         held
	v2           v2
	versions     []ring.Version // the releases on this machine, sorted
	halted       string         // why no etcd may start here: the machine is no spare
	spoils       spoils         // of the log that may never run again
	told         time.Time      // when the ring was told last how far the member's log goes
	reached      reached        // and how far that was
	absent       time.Time      // since when a ring is listed without a member here
	second       absence        // of a name that is this machine's alone
	uncleared    time.Time      // when the disk was last to be cleared and could not be
	unnoted      time.Time      // when the disk was last to note how its member runs and could not
	rest         time.Time      // until then there is nothing to do, unless etcd ends or the spec changes
}

// NewLauncher returns the launcher of one machine.
func NewLauncher(h host.Host, log *host.Recorder, c Config) *Launcher {
	return &Launcher{Config: c, Ring: &admin.Ring{Host: h}, host: h, log: log, versions: slices.Sorted(maps.Keys(c.Binaries)),
		certificates: certificates{host: h, log: log, machine: c.Machine, address: c.Address, authority: c.Authority}}
}

// Turn looks after the machine, and at the ring if there is need to: nil when the turn
// has done all that there is to do.
func (l *Launcher) Turn(ctx context.Context) (*Look, error) {
	if err := l.openDisk(); err != nil {
		return nil, err
	}
	running, err := l.lookAfter()
	if err != nil {
		return nil, err
	}
	l.learn(ctx, !running)
	if !l.Known.Specified() {
		l.log.Say(host.EventWaiting, "the spec is not known: "+l.Known.Trouble)
		return nil, nil
	}
	if err := l.secure(ctx); err != nil {
		return nil, err
	}
	if running && l.resting() {
		return nil, nil
	}
	l.rest = time.Time{}
	look := l.look(ctx)
	look.running = running
	look.Second = l.Known.Identity != nil && look.Unread == nil && l.namesake(look.View)
	if look.Second {
		return &look, nil
	}
	if look.Unread == nil {
		if running, err = l.follow(ctx, look); err != nil {
			return &look, err
		}
	}
	if !running {
		err = l.boot(ctx, look)
	}
	return &look, err
}

// Rest says that nothing is to be done in the ring. The machine's own etcd is looked
// after all the same.
func (l *Launcher) Rest() { l.rest = l.host.Now().Add(restPace) }

func (l *Launcher) resting() bool {
	left := l.rest.Sub(l.host.Now())
	return left > 0 && left <= restPace // more is of a clock that went back
}

// openDisk sees to it that the disk has an identity.
func (l *Launcher) openDisk() error {
	if l.Named != "" {
		return l.openNamed()
	}
	d, fresh, err := l.openKnown()
	if errors.Is(err, errUnnamed) {
		d, fresh, err = newDisk(l.host, l.Machine)
	}
	var foreign *ForeignError
	if errors.As(err, &foreign) && foreign.Blank && l.misplaced.stays(foreign.Disk.ID, l.host.Now()) {
		d, err = Adopt(l.host, foreign)
	}
	if err != nil {
		return err
	}
	l.disk, l.misplaced = d, misplaced{}
	if fresh {
		// What came of starts on the disk before says nothing of this one: held against
		// the machine, it left a ring with nobody else a voter short for some time.
		l.starts = starts{}
		l.tellDisk()
	}
	return nil
}

// openKnown opens a disk that has an identity, or had it until now. Somebody tidies up on
// three machines, and removes disk.json: each took its disk for a new one, the ring removed
// two voters for it that served, and one was left.
func (l *Launcher) openKnown() (d Disk, fresh bool, err error) {
	d, fresh, err = openOld(l.host, l.Machine, l.disk)
	if !errors.Is(err, errUnnamed) {
		return d, fresh, err
	}
	stays, unknown := l.disk.stays(l.host, l.reachedHere())
	if !stays && unknown == nil {
		stays, unknown = l.emptied()
	}
	if !stays {
		return d, false, cmp.Or(unknown, err)
	}
	l.log.Say(host.EventTrouble, fmt.Sprintf("%s was removed from under the etcd that runs here, and is written again: without it a disk is taken for a new one", l.host.Disk().Path(diskFile)))
	d = l.disk
	l.certificates.looked, l.memory.written = time.Time{}, Known{} // they may be gone as well
	err = d.write(l.host)
	return d, false, err
}

// emptied reports whether all that was on the disk was removed from under the etcd that runs here.
// It stays the disk that it was until that has ended: on a new one no log is missing, and another
// member would be started beside it. A volume that was named before is told of by whoever named it.
func (l *Launcher) emptied() (bool, error) {
	if _, err := l.host.Disk().WAL(DataDir); l.Named != "" || !errors.Is(err, fs.ErrNotExist) || mounted(l.host) != nil {
		return false, nil
	}
	return l.disk.unlinked(l.host)
}

func (l *Launcher) tellDisk() {
	l.host.Log(host.Line{Event: host.EventDiskReplaced, Text: "disk " + l.disk.ID + " is new"})
}

// misplaced is a blank disk with another machine's name on it. Whoever has mixed
// up two disks soon puts them back, and then each must be as it was: a member
// that was started on one meanwhile would be lost. One that stays was named in
// passing, and nobody else will ever use it.
type misplaced struct {
	id     string
	stayed time.Duration // for as long as it was looked at
	looked time.Time
}

const (
	adoptAfter = 15 * time.Second
	mostApart  = time.Second // two looks at a disk, at most: what is longer counts as that
)

// stays reports whether the disk has stayed: through so many looks, as a clock that goes ahead
// by forty days, or a machine that is suspended, makes a second no longer than it was.
func (m *misplaced) stays(id string, now time.Time) bool {
	if m.id != id {
		*m = misplaced{id: id, looked: now}
	}
	m.stayed += min(max(now.Sub(m.looked), 0), mostApart)
	m.looked = now
	return m.stayed >= adoptAfter
}

// lookAfter takes notice of what became of the etcd that was started last, and reports
// whether one runs.
func (l *Launcher) lookAfter() (running bool, err error) {
	args, err := l.host.Process().Running()
	if err != nil {
		return false, fmt.Errorf("looking for the etcd process: %w", err)
	}
	if l.listens = listening(args); args != nil {
		l.starts.runs(l.host.Monotonic())
		return true, cmp.Or(Mark(l.host, l.disk), l.lookForLog())
	}
	if l.starts.ended(l.host.Process().LastWords()) {
		l.log.Say(host.EventTrouble, "etcd ends whenever it is started, and is started ever more rarely: "+l.starts.why)
	}
	if l.starts.vain >= hopeless {
		l.log.Say(host.EventHalted, fmt.Sprintf("no etcd starts on this machine, tried %d times, and tried on: %s", hopeless, l.starts.why))
	}
	l.disk, err = Ended(l.host, l.disk)
	return false, err
}

// lookForLog sees whether the log is still there that the etcd which runs here writes. Three
// machines are tidied up, with rm -rf in the wrong place; all three members answer, for weeks, and
// with the first restart of each the ring forgets.
func (l *Launcher) lookForLog() error {
	unlinked, err := l.disk.unlinked(l.host)
	if err != nil || !unlinked {
		l.spoils = spoils{}
		return err
	}
	l.log.Say(host.EventTrouble, fmt.Sprintf("%s was removed from under the etcd that runs here: member %s answers from the files that it has open, and is lost as it ends. ringadm snapshot makes a backup", l.host.Disk().Path(DataDir), l.disk.Member))
	return l.spoil(l.disk.Member)
}

// secure keeps certificates on the disk that will do for some time, and makes of
// them the credentials with which this machine asks the ring. It looks at them now
// and then, because a launcher and its etcd run for years.
func (l *Launcher) secure(ctx context.Context) error {
	spec := l.Known.Spec
	if spec.Security.Secure() && l.Issued != nil {
		return l.takeIssued()
	}
	if !spec.Security.Secure() || l.Ring.Secure != nil && !l.certificates.due(lifetimeOf(spec)) {
		return nil
	}
	changed, err := l.certificates.keep(ctx, lifetimeOf(spec))
	if err != nil || l.Ring.Secure != nil && !changed {
		return err
	}
	credentials, err := Credentials(l.host.Disk().Read)
	if err != nil {
		return err
	}
	l.Ring.Close() // clients dial with what they were given
	l.Ring.Secure = credentials
	return nil
}

// boot decides on the etcd that does not run, and carries it out.
func (l *Launcher) boot(ctx context.Context, look Look) error {
	e := l.evidence(look)
	if e.unheardOf() {
		e.Applied = l.appliedBy(ctx, look.View)
	}
	if l.Unnamed != nil && e.unstarted() {
		e.Unnamed = l.Unnamed(ctx)
	}
	b := l.Decide(e)
	l.log.Say(host.EventBoot, b.String())
	l.halted = ""
	switch b.Do {
	case Start:
		if l.starts.wait(l.host.Monotonic()) > 0 {
			return nil
		}
		if l.disk.Spoiled != 0 { // it could not be read for a while, and can now
			if err := l.noteSpoiled(0); err != nil {
				return err
			}
		}
		return l.launch(ctx, b, look.Unread != nil)
	case Wait:
		if e.WAL != nil { // whose log it is can't be told yet: nobody else may come here
			l.halted = b.Why
		}
	case Disown:
		return l.clear(b.Do, nil)
	case Clear:
		return l.clearLeft(ctx, e, look)
	case Halt:
		l.halted = b.Why
		l.log.Say(host.EventHalted, b.Why)
		return l.spoil(b.Spoils)
	}
	return nil
}

// spoils is whose log may never run again, and since when that is known, by the monotonic
// clock.
type spoils struct {
	member ring.ID
	since  time.Duration
}

// spoilAfter is for a disk that can't be read for a moment, and for one that was put in
// by mistake.
const spoilAfter = 10 * time.Second

// spoil notes on the disk that the member on it is to be replaced, once that has been so
// for some time: from then on its presence says so.
func (l *Launcher) spoil(id ring.ID) error {
	now := l.host.Monotonic()
	if l.spoils.member != id {
		l.spoils = spoils{id, now}
	}
	if id == 0 || id == l.disk.Spoiled || now-l.spoils.since < spoilAfter {
		return nil
	}
	return l.noteSpoiled(id)
}

func (l *Launcher) noteSpoiled(id ring.ID) error {
	d := l.disk
	d.Spoiled = id
	err := d.write(l.host)
	if err == nil {
		l.disk = d
	}
	return err
}

// evidence is what this machine goes by when it decides on its etcd.
func (l *Launcher) evidence(look Look) Evidence {
	known := l.Known
	e := Evidence{Machine: l.Machine, Disk: l.disk.ID, Launched: l.disk.Launched, Strange: l.disk.Strange(), Ran: l.disk.Member, Listed: look.Unread == nil,
		Identity: known.Identity, Formed: known.Formed || known.Answered}
	if look.Unread == nil {
		e.Members, e.Recorded = look.View.RingMembers(), look.View.Recorded()
	} else {
		e.Why = look.Unread.Error()
	}
	if !known.IdentityKnown || !known.FormedKnown && !known.Answered {
		e.Unknown = known.Trouble
	}
	if known.Identity != nil {
		e.Cluster = known.Identity.ClusterID()
	}
	ReadLog(l.host, &e)
	e.Lost, e.Accepted = l.starts.lost, l.disk.Accepted
	if e.Spoiled = l.disk.Spoiled; look.Unread == nil {
		whose := e.Spoiled
		if e.WAL != nil {
			whose = ring.ID(e.WAL.Member)
		}
		e.LetGo = look.View.LetGo(whose)
	}
	return e
}

// appliedBy is the raft index that the member which gave the view has come to; 0: it doesn't say.
func (l *Launcher) appliedBy(ctx context.Context, v admin.View) (index uint64) {
	for _, m := range v.Members {
		if ring.ID(m.ID) == v.Answered && len(m.ClientURLs) > 0 {
			index, _, _ = l.Ring.Applied(ctx, m.ClientURLs[0], v.Answered)
		}
	}
	return index
}

func (l *Launcher) launch(ctx context.Context, b Boot, alone bool) error {
	spec := l.Known.Spec
	version := l.release()
	binary, ok := l.Binaries[version]
	if !ok {
		return fmt.Errorf("etcd %s is asked for and not on this machine; it has %v", version, l.versions)
	}
	c := Command{Binary: binary, Version: version, Pinned: !l.apart(), Name: l.Machine,
		DataDir: l.host.Disk().Path(DataDir), PeerURLs: l.peers().PeerURLs(l.peerURL()), ClientURL: l.clientURL(), Boot: b,
		Heartbeat: time.Duration(spec.HeartbeatMillis) * time.Millisecond,
		Election:  time.Duration(spec.ElectionMillis) * time.Millisecond,
		SnapCount: spec.SnapshotCount, Alone: alone, Flags: spec.FlagsOf(l.Machine)}
	switch {
	case spec.Security.Secure() && l.Issued != nil:
		c.PKI, c.PeerCA = l.Issued.Dir, PeersCA
		var err error
		if l.trusts, err = l.Issued.trusts(); err != nil { // before etcd reads them: what is newer by then is trusted, and not told
			return fmt.Errorf("the authorities that others have issued: %w", err)
		}
	case spec.Security.Secure():
		l.certificates.looked = time.Time{} // the disk may be another than the last time
		if err := l.secure(ctx); err != nil {
			return err
		}
		c.PKI = l.host.Disk().Path(pkiDir)
		if c.PeerCA = l.certificates.shown["peer"].file; c.PeerCA == ClientsCA && l.peers().Secure() {
			l.log.Say(host.EventTrouble, "peers and clients of this ring have one authority, as it was bootstrapped before they were parted: let only its machines reach port 2380, as whoever holds a client's certificate can speak as a peer there")
		}
	}
	return l.act("launch", strings.Join(c.Args(), " "), "", func() error {
		l.starts.begun(l.host.Monotonic())
		return Launch(ctx, l.host, l.disk, c)
	})
}

// clearLeft clears what a member left that the ring has let go, once the ring has noted that.
func (l *Launcher) clearLeft(ctx context.Context, e Evidence, look Look) error {
	return l.clear(Clear, func() error {
		if e.WAL != nil && e.WAL.Left {
			if err := l.Ring.SayLeft(ctx, ring.ID(e.WAL.Member), look.View); err != nil {
				return err
			}
		}
		return l.Ring.Settle(ctx)
	})
}

// tryAgain is how soon a disk is cleared again that could not be, or written to: a ring takes
// no note while an alarm stands, and a filesystem that is broken or full stays so.
const tryAgain = 5 * time.Second

// lately reports whether what failed at a moment is not to be tried again yet. A clock that
// went back is no reason to wait.
func (l *Launcher) lately(failed time.Time) bool {
	since := l.host.Now().Sub(failed)
	return since >= 0 && since < tryAgain
}

// clear empties the disk of what a member left that can't come back, once what must be
// done first is.
func (l *Launcher) clear(do Do, first func() error) error {
	if l.lately(l.uncleared) {
		return nil
	}
	err := l.act(string(do), "ringadm reset", "", func() error {
		if first != nil {
			if err := first(); err != nil {
				return err
			}
		}
		d, err := Empty(l.host, l.Machine)
		if err == nil {
			l.disk, l.starts.lost = d, ""
			l.tellDisk()
		}
		if err == nil && do == Disown { // as on any new disk; else what kept an etcd from starting may keep the next from it
			l.starts = starts{}
		}
		return err
	})
	if l.uncleared = (time.Time{}); err != nil {
		l.uncleared = l.host.Now()
	}
	return err
}

// act takes an action on this machine.
func (l *Launcher) act(action, command, member string, do func() error) error {
	return l.log.Act(host.Line{Action: action, Command: command, Member: member, Target: l.Machine}, do)
}

// Where a machine's etcd listens for clients.
const clientPort = 2379

// peerURL is where peers reach the machine while they speak as the ring was bootstrapped.
func (l *Launcher) peerURL() string   { return l.Known.Spec.PeerURL(l.Address) }
func (l *Launcher) clientURL() string { return l.Known.Spec.Security.URL(l.Address, clientPort) }
