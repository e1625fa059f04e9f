// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

var errBroken = errors.New("input/output error")

// machine is a Host with a disk in memory, whose n-th change breaks. A change
// breaks in one of three ways: nothing happened, all of it happened and the
// caller never knew, or, for the removal of a tree, some of it happened.
type machine struct {
	host.Host
	files     map[string]string
	nonces    int
	started   []string // what the disk said when etcd was started
	steps     int
	unmounted bool
	breakAt   int // 0: never
	how       string
	now       time.Duration
	unread    error         // of a look whether a file is there
	log       time.Duration // when the etcd that was started makes its log; 0: never
}

func (m *machine) Disk() host.Disk          { return memoryDisk{m} }
func (m *machine) Process() host.Process    { return memoryProcess{m: m} }
func (m *machine) Now() time.Time           { return time.Unix(0, 0).Add(m.now) }
func (m *machine) Monotonic() time.Duration { return m.now }
func (m *machine) Nonce() string            { m.nonces++; return fmt.Sprintf("disk-%d", m.nonces) }

// Sleep has the etcd that was started make its log meanwhile.
func (m *machine) Sleep(_ context.Context, d time.Duration) error {
	m.now += d
	if len(m.started) > 0 && m.log > 0 && m.now >= m.log {
		m.files["etcd/wal.0"], m.files["etcd/wal.1"] = "", ""
	}
	return nil
}

// breaks counts a step and tells how it goes.
func (m *machine) breaks() string {
	m.steps++
	if m.steps == m.breakAt {
		return m.how
	}
	return ""
}

type memoryDisk struct{ m *machine }

func (d memoryDisk) Path(name string) string { return "/" + name }

func (d memoryDisk) Read(name string) ([]byte, error) {
	text, ok := d.m.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

func (d memoryDisk) Write(name string, content []byte) error {
	how := d.m.breaks()
	if how == "before" || how == "half" {
		return errBroken
	}
	d.m.files[name] = string(content)
	if how != "" {
		return errBroken
	}
	return nil
}

func (d memoryDisk) Remove(name string) error {
	how := d.m.breaks()
	if how == "before" {
		return errBroken
	}
	for _, file := range slices.Sorted(maps.Keys(d.m.files)) {
		if strings.HasPrefix(file, name+"/") {
			delete(d.m.files, file)
			if how == "half" {
				return errBroken
			}
		}
	}
	if how != "" {
		return errBroken
	}
	return nil
}

func (d memoryDisk) Rename(old, name string) error {
	how := d.m.breaks()
	if how == "before" || how == "half" {
		return errBroken
	}
	for _, file := range slices.Sorted(maps.Keys(d.m.files)) {
		if rest, in := strings.CutPrefix(file, old+"/"); in {
			d.m.files[name+"/"+rest] = d.m.files[file]
			delete(d.m.files, file)
		}
	}
	if how != "" {
		return errBroken
	}
	return nil
}

func (d memoryDisk) Prepared() (bool, error) { return !d.m.unmounted, nil }

func (d memoryDisk) Exists(name string) (bool, error) {
	if d.m.unread != nil {
		return false, d.m.unread
	}
	for file := range d.m.files {
		if file == name || strings.HasPrefix(file, name+"/") {
			return true, nil
		}
	}
	return false, nil
}

// WAL knows a log of two segments; one without the other is damage, as in etcd.
func (d memoryDisk) WAL(dir string) (host.WAL, error) {
	_, first := d.m.files[dir+"/wal.0"]
	_, second := d.m.files[dir+"/wal.1"]
	switch {
	case first && second:
		return *own, nil
	case first || second:
		return host.WAL{}, errors.New("sequence numbers do not increase continuously")
	}
	return host.WAL{}, fs.ErrNotExist
}

type memoryProcess struct {
	host.Process
	m *machine
}

func (p memoryProcess) Running() ([]string, error) { return nil, nil }

func (p memoryProcess) Start(context.Context, []string) error {
	if how := p.m.breaks(); how == "before" || how == "half" {
		return errBroken
	}
	p.m.started = append(p.m.started, p.m.files["disk.json"])
	return nil
}

// used is a machine whose member ran, and has left the ring.
func used() *machine {
	return &machine{nonces: 1, files: map[string]string{"disk.json": `{"id":"disk-1","launched":true}`,
		"etcd/snap": "s", "etcd/wal.0": "w", "etcd/wal.1": "w", "pki/ca.crt": "c"}}
}

// TestEmptyMayBreakAnywhere breaks each step of emptying a disk in each way.
// The agent dies there and starts again; the disk must end empty, under a new
// identity, and never on the way look like one that a person has to see to.
func TestEmptyMayBreakAnywhere(t *testing.T) {
	for _, how := range []string{"before", "after", "half"} {
		for at := range 5 {
			t.Run(fmt.Sprintf("%s step %d", how, at), func(t *testing.T) {
				m := used()
				m.breakAt, m.how = at, how
				if _, err := launcher.Empty(m, "m1"); (err != nil) != (m.steps >= at && at > 0) {
					t.Fatalf("broke at %d of %d: %v", at, m.steps, err)
				}
				for turn := range 3 {
					m.turn(t, turn)
				}
				m.wantEmpty(t)
			})
		}
	}
}

// TestKeysWithoutALogAreKept: whose they are nothing says, and a person may want them.
func TestKeysWithoutALogAreKept(t *testing.T) {
	m := used()
	m.files = map[string]string{"disk.json": `{"id":"disk-1","launched":true,"aside":"etcd.removed-7"}`, "etcd/member/snap/db": "keys", "etcd.removed-7/wal.0": "w"}
	m.breakAt = -1
	d, err := launcher.Empty(m, "m1")
	if err != nil || d.Aside != "etcd.removed-logless-19700101T000000Z" || m.files[d.Aside+"/member/snap/db"] != "keys" {
		t.Fatalf("%+v, %v; on the disk: %v", d, err, m.files)
	}
	m.files = map[string]string{"disk.json": `{"id":"disk-1","launched":true,"aside":"etcd.removed-7"}`, "etcd/member/snap/tmp": "", "etcd.removed-7/wal.0": "w"}
	if d, err := launcher.Empty(m, "m1"); err != nil || d.Aside != "etcd.removed-7" || m.files["etcd.removed-7/wal.0"] == "" {
		t.Errorf("an etcd that has kept nothing took the place of who has: %+v, %v; on the disk: %v", d, err, m.files)
	}
}

// TestWhatCantBeReadIsKept: whether a member has left its keys here can't be told, as the
// disk answers with an error. Taken for none they would be removed.
func TestWhatCantBeReadIsKept(t *testing.T) {
	for _, says := range []string{"disk-1\",\"launched\":true}", "disk-1\",\"machine\":\"m1\",\"emptying\":true}"} {
		m := used()
		m.files = map[string]string{"disk.json": `{"id":"` + says, "etcd/member/snap/db": "keys"}
		m.unread = errBroken
		before := maps.Clone(m.files)
		if d, err := launcher.Empty(m, "m1"); !errors.Is(err, errBroken) || d.ID != "" || !maps.Equal(m.files, before) {
			t.Errorf("%+v, %v; on the disk: %v", d, err, m.files)
		}
	}
}

// turn is what an agent does at its start, when its member has left.
func (m *machine) turn(t *testing.T, n int) {
	d, _, err := launcher.OpenDisk(m, "m1", launcher.Disk{})
	if err != nil {
		t.Fatal(err)
	}
	e := launcher.Evidence{Machine: "m1", Disk: d.ID, Launched: d.Launched, Listed: true, Cluster: ours, LetGo: true}
	launcher.ReadLog(m, &e)
	switch b := launcher.Decide(e); b.Do {
	case launcher.Clear:
		if _, err := launcher.Empty(m, "m1"); err != nil {
			t.Fatal(err)
		}
	case launcher.Wait:
	default:
		t.Fatalf("turn %d: %s", n, b)
	}
}

func (m *machine) wantEmpty(t *testing.T) {
	d, fresh, err := launcher.OpenDisk(m, "m1", launcher.Disk{})
	if err != nil || fresh || d.ID == "disk-1" || d.Launched || d.Emptying {
		t.Errorf("disk %+v, fresh %t, %v", d, fresh, err)
	}
	if left := slices.Sorted(maps.Keys(m.files)); !slices.Equal(left, []string{"disk.json", "etcd.removed-1-19700101T000000Z/snap", "etcd.removed-1-19700101T000000Z/wal.0", "etcd.removed-1-19700101T000000Z/wal.1", "pki/ca.crt"}) || d.Aside != "etcd.removed-1-19700101T000000Z" {
		t.Errorf("on the disk: %v", left)
	}
}

// TestLaunchMarksTheDisk breaks each step of a launch: the disk says that an etcd
// has run on it only if there is a log, and once the agent has found it running,
// always.
func TestLaunchMarksTheDisk(t *testing.T) {
	for _, how := range []string{"before", "after"} {
		for at := range 6 {
			m := &machine{files: map[string]string{}, breakAt: at, how: how, log: 40 * time.Millisecond}
			for range 3 {
				d, _, err := launcher.OpenDisk(m, "m1", launcher.Disk{})
				if err != nil {
					continue
				}
				if ran := len(m.started) > 0; d.Launched && !ran {
					t.Errorf("%s step %d: the disk says that an etcd ran, and none was started", how, at)
				} else if ran {
					_ = launcher.Mark(m, d)
					continue
				}
				_ = launcher.Launch(t.Context(), m, d, launcher.Command{Binary: "etcd"})
			}
			if d, _, err := launcher.OpenDisk(m, "m1", launcher.Disk{}); err != nil || len(m.started) == 0 || !d.Launched {
				t.Errorf("%s step %d: %d etcds were started, and the disk says %+v (%v)", how, at, len(m.started), d, err)
			}
		}
	}
}

// TestNoLogNoMark: an etcd whose machine loses its power before it made a log has
// promised nothing, and one that takes its time is marked when the log is there. Once
// none runs, a log that is found later is a stranger's.
func TestNoLogNoMark(t *testing.T) {
	m := &machine{files: map[string]string{}, log: time.Second}
	look := func(launched, strange bool) launcher.Disk {
		t.Helper()
		d, _, err := launcher.OpenDisk(m, "m1", launcher.Disk{})
		if err != nil || d.Launched != launched || d.Strange() != strange {
			t.Fatalf("the disk says %+v (%v)", d, err)
		}
		return d
	}
	if err := launcher.Launch(t.Context(), m, look(false, true), launcher.Command{Binary: "etcd"}); err != nil {
		t.Fatal(err)
	}
	if _, err := launcher.Ended(m, look(false, false)); err != nil {
		t.Fatal(err)
	}
	if err := launcher.Launch(t.Context(), m, look(false, true), launcher.Command{Binary: "etcd"}); err != nil {
		t.Fatal(err)
	}
	_ = m.Sleep(t.Context(), time.Second)
	if err := launcher.Mark(m, look(false, false)); err != nil {
		t.Fatal(err)
	}
	if _, err := launcher.Ended(m, look(true, false)); err != nil {
		t.Fatal(err)
	}
	look(true, false)
}

// TestAFirstLogThatIsLost: what the first etcd wrote may be lost before anybody could mark the
// disk, and with it a vote. Who merely lost the power before a log was synced has promised
// nothing, and finds what was there before the start.
func TestAFirstLogThatIsLost(t *testing.T) {
	for lost, launched := range map[string]bool{"": false, launcher.DataDir: true} {
		m := &machine{files: map[string]string{}, log: time.Second}
		d, _, err := launcher.OpenDisk(m, "m1", launcher.Disk{})
		require.NoError(t, err)
		require.NoError(t, launcher.Launch(t.Context(), m, d, launcher.Command{Binary: "etcd"}))
		if lost != "" {
			require.NoError(t, m.Disk().Remove(lost))
		}
		d, _, err = launcher.OpenDisk(m, "m1", launcher.Disk{})
		require.NoError(t, err)
		d, err = launcher.Ended(m, d)
		require.NoError(t, err)
		assert.Equal(t, launched, d.Launched)
		assert.Equal(t, !launched, d.Strange())
		again, _, err := launcher.OpenDisk(m, "m1", launcher.Disk{})
		require.NoError(t, err)
		assert.Equal(t, launched, again.Launched, "it stays on the disk")
	}
}

// TestADiskOfAnotherMachine is left alone: its member is known by the other's
// address.
func TestADiskOfAnotherMachine(t *testing.T) {
	m := &machine{files: map[string]string{}}
	d, _, err := launcher.OpenDisk(m, "m1", launcher.Disk{})
	if err != nil {
		t.Fatal(err)
	}
	m.files["etcd/wal.0"], m.files["etcd/wal.1"] = "", ""
	if err := launcher.Mark(m, d); err != nil {
		t.Fatal(err)
	}
	d, _, _ = launcher.OpenDisk(m, "m1", d)
	before := m.files["disk.json"]
	if other, fresh, err := launcher.OpenDisk(m, "m2", launcher.Disk{}); err == nil || fresh || other.ID != "" || m.files["disk.json"] != before {
		t.Errorf("m1's disk in m2: %+v, fresh %t, %v", other, fresh, err)
	}
	if again, _, err := launcher.OpenDisk(m, "m1", launcher.Disk{}); err != nil || again != d {
		t.Errorf("back in m1: %+v, %v", again, err)
	}
}

// TestABlankDiskIsAdopted: m1's new disk was in m2 for a second, and only its name
// was written there. Refused for that, it would wait in m1 for ever.
func TestABlankDiskIsAdopted(t *testing.T) {
	m := &machine{files: map[string]string{}}
	first, _, err := launcher.OpenDisk(m, "m2", launcher.Disk{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = launcher.OpenDisk(m, "m1", launcher.Disk{})
	var foreign *launcher.ForeignError
	if !errors.As(err, &foreign) || !foreign.Blank {
		t.Fatalf("m2's blank disk in m1: %v", err)
	}
	moved, err := launcher.Adopt(m, foreign)
	if err != nil || moved.ID != first.ID || moved.Machine != "m1" {
		t.Errorf("adopted: %+v, %v", moved, err)
	}
	m.files["etcd/wal.0"], m.files["etcd/wal.1"] = "of a member that was started", "and not yet marked"
	if _, _, err := launcher.OpenDisk(m, "m2", launcher.Disk{}); !errors.As(err, &foreign) || foreign.Blank {
		t.Errorf("the disk holds a log that was begun in m1, and in m2: %v", err)
	}
	if _, err := launcher.Adopt(m, foreign); err == nil {
		t.Error("m2 adopted it")
	}
	if _, _, err := launcher.OpenDisk(m, "m1", launcher.Disk{}); err != nil {
		t.Errorf("at home: %v", err)
	}
}

// TestAnEmptiedDiskKeepsItsMachine: in another it would be put to use at once, and
// be missing there when it is put back.
func TestAnEmptiedDiskKeepsItsMachine(t *testing.T) {
	m := &machine{files: map[string]string{}}
	if _, err := launcher.Empty(m, "m1"); err != nil {
		t.Fatal(err)
	}
	var foreign *launcher.ForeignError
	if _, _, err := launcher.OpenDisk(m, "m2", launcher.Disk{}); !errors.As(err, &foreign) || !foreign.Blank {
		t.Errorf("m1's emptied disk in m2: %v", err)
	}
	m.files["disk.json"] = `{"id":"disk-9","machine":"m1","emptying":true}`
	m.files["etcd/wal.0"] = "half of a log"
	if _, _, err := launcher.OpenDisk(m, "m2", launcher.Disk{}); !errors.As(err, &foreign) || !foreign.Blank {
		t.Fatalf("emptied in part, in m2: %v", err)
	}
	if d, err := launcher.Adopt(m, foreign); err != nil || d.Machine != "m2" || d.Emptying || m.files["etcd/wal.0"] != "" {
		t.Errorf("adopted: %+v, %v", d, err)
	}
}

func TestOpenDisk(t *testing.T) {
	for _, torn := range []string{"", "{", `{"id":""}`, `{"id":"disk-1"`, "null", "\x00\x00\x00\x00"} {
		m := &machine{files: map[string]string{"disk.json": torn}}
		if d, fresh, err := launcher.OpenDisk(m, "m1", launcher.Disk{}); err == nil || fresh || d.ID != "" || m.files["disk.json"] != torn {
			t.Errorf("%q was taken for disk %+v, fresh %t: a torn identity must be neither trusted nor replaced", torn, d, fresh)
		}
	}
	m := &machine{files: map[string]string{}}
	first, fresh, err := launcher.OpenDisk(m, "m1", launcher.Disk{})
	if err != nil || !fresh || first.ID == "" {
		t.Fatalf("a new disk: %+v %t %v", first, fresh, err)
	}
	if again, fresh, err := launcher.OpenDisk(m, "m1", launcher.Disk{}); err != nil || fresh || again != first {
		t.Errorf("the same disk: %+v %t %v, and was %+v", again, fresh, err, first)
	}
	broken := &machine{files: map[string]string{}, breakAt: 1, how: "before"}
	if _, _, err := launcher.OpenDisk(broken, "m1", launcher.Disk{}); !errors.Is(err, errBroken) {
		t.Errorf("an identity that could not be written: %v", err)
	}
}

// TestAPlaceThatNobodyPreparedIsNoDisk: its filesystem may be mounted late.
func TestAPlaceThatNobodyPreparedIsNoDisk(t *testing.T) {
	m := &machine{files: map[string]string{}, unmounted: true}
	if d, fresh, err := launcher.OpenDisk(m, "m1", launcher.Disk{}); err == nil || fresh || d.ID != "" || len(m.files) > 0 {
		t.Errorf("an unmounted place: %+v, fresh %t, %v, and %v on it", d, fresh, err, m.files)
	}
	if _, err := launcher.NewDisk(m, ""); err != nil {
		t.Errorf("prepared by hand: %v", err)
	}
	if d, fresh, err := launcher.OpenDisk(m, "m1", launcher.Disk{}); err != nil || fresh || d.ID == "" {
		t.Errorf("once it is prepared: %+v, fresh %t, %v", d, fresh, err)
	}
}

// TestOneCopyIsKeptAside: what the next member leaves takes its place.
func TestOneCopyIsKeptAside(t *testing.T) {
	m := used()
	for range 2 {
		m.files["etcd/snap"], m.files["etcd/wal.0"], m.files["etcd/wal.1"] = "s", "w", "w"
		if d, err := launcher.Empty(m, "m1"); err != nil || d.Aside != "etcd.removed-1-19700101T000000Z" {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	m.wantEmpty(t)
}

// TestResetAsksTheRightRing: no other knows whether the member has left.
func TestResetAsksTheRightRing(t *testing.T) {
	list := func(cluster uint64, members ...uint64) func() (launcher.Listing, error) {
		return func() (launcher.Listing, error) { return launcher.Listing{Cluster: cluster, Members: members}, nil }
	}
	for _, c := range []struct {
		member uint64
		list   func() (launcher.Listing, error)
		why    string
	}{
		{0, list(ours, 2), "ringadm reset 1"},
		{2, list(ours, 3), "ringadm reset 1"},
		{1, list(0xbad, 2), "those of ring bad"},
		{1, list(ours, 1, 2), "ringadm member remove 1"},
		{1, func() (launcher.Listing, error) { return launcher.Listing{}, errBroken }, "is unknown"},
	} {
		m := used()
		if _, err := launcher.Reset(m, c.member, c.list); err == nil || !strings.Contains(err.Error(), c.why) || m.files["etcd/wal.0"] == "" {
			t.Errorf("reset %x: %v, want %q", c.member, err, c.why)
		}
	}
	away := &machine{files: map[string]string{}, unmounted: true}
	if _, err := launcher.Reset(away, 0, list(ours, 2)); err == nil || !strings.Contains(err.Error(), "no filesystem is mounted") || len(away.files) > 0 {
		t.Errorf("reset where no filesystem is mounted: %v, and %v is there", err, away.files)
	}
	m := used()
	if d, err := launcher.Reset(m, 1, list(ours, 2)); err != nil || d.Aside != "etcd.removed-1-19700101T000000Z" || m.files["etcd.removed-1-19700101T000000Z/wal.0"] == "" {
		t.Errorf("of a member that has left: %+v, %v", d, err)
	}
}

// TestLaunchPinsTheRelease: the disk remembers what was started on it, and by itself what
// was only that machine's own.
func TestLaunchPinsTheRelease(t *testing.T) {
	m := &machine{files: map[string]string{}, log: 40 * time.Millisecond, breakAt: -1}
	for _, c := range []struct {
		command     launcher.Command
		want, tried ring.Version
	}{
		{launcher.Command{Binary: "etcd", Version: "v3.5.35"}, "", "v3.5.35"},
		{launcher.Command{Binary: "etcd", Version: "v3.5.35", Pinned: true}, "v3.5.35", ""},
		{launcher.Command{Binary: "etcd", Version: "v3.6.11"}, "v3.5.35", "v3.6.11"},
		{launcher.Command{Binary: "etcd", Version: "v3.6.12"}, "v3.5.35", "v3.6.12"},
		{launcher.Command{Binary: "etcd", Version: "v3.6.16", Pinned: true}, "v3.6.16", ""},
	} {
		d, _, err := launcher.OpenDisk(m, "m1", launcher.Disk{})
		if err == nil {
			err = launcher.Launch(t.Context(), m, d, c.command)
		}
		if d, _, read := launcher.OpenDisk(m, "m1", launcher.Disk{}); err != nil || read != nil || d.Release != c.want || d.Tried != c.tried || !d.Launched {
			t.Errorf("%+v: the disk says %+v (%v, %v)", c.command, d, err, read)
		}
	}
}
