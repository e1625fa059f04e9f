// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringproof/ringproof/reference/ring"
)

// releases are those that machines have. With the second a member is added also while
// a voter is silent.
var releases = []ring.Version{asked, "v3.6.16"}

// chain are releases of which each may follow the one before.
var chain = []ring.Version{"v3.5.26", "v3.5.35", "v3.6.11", "v3.6.16", "v3.7.0", "v3.7.3"}

const asked ring.Version = "v3.6.10"

// box is one machine of the world.
type box struct {
	name string
	disk string
	log  ring.ID // whose log the disk holds; 0: none
	gen  int     // of the disk
	able bool
	up   bool
	mute bool // its agent is there, and its etcd does not run
	lost bool // it never comes back
	dead bool // its disk never does, and whoever hosts it knows
	gone time.Time

	lacks ring.Version  // the release that it hasn't
	fails ring.Version  // the release of which no etcd starts there
	deaf  ring.Security // the way to listen for which no etcd starts there

	says string // with which every etcd that is started there ends

	ending bool      // who hosts it is about to end its member
	static bool      // no launcher is on it
	tells  time.Time // from then on its launcher is heard, which begins with its etcd
}

// entry is one member of the world.
type entry struct {
	id      ring.ID
	machine string // "" when foreign
	disk    string // its binding
	url     string
	name    string
	learner bool
	caught  int // seconds of catching up
	quiet   time.Time
	ghost   bool // it runs without the disk that it was started on
	lag     uint64

	version ring.Version // that it runs
	heard   ring.Version // that it said last to whoever observes
	release ring.Version // that it is to run, by its record
	down    bool         // for a second, as it is restarted
	v2      uint64       // where in the log the last request of the v2 API is since its snapshot; 0: nowhere

	peers  ring.Security // how it listens for them
	known  ring.Security // by whoever observes
	listen ring.Security // how it is to listen, by its record
}

// world obeys: it carries out what Next says as etcd would, refusing what etcd
// refuses, and its launchers start whom they may. Time passes in seconds.
type world struct {
	spec     ring.Spec
	boxes    []*box
	members  []*entry
	leader   ring.ID
	now      time.Time
	begun    time.Time
	unlisted string // why the list can't be read, whatever the members do
	plain    bool   // the ring's peers spoke plain text at first
	adopts   bool   // it began without launchers
	added    int
	log      uint64 // how many entries the ring's log has
	alarms   []ring.Alarm
	bytes    int64 // of the leader's keyspace file
}

func newWorld(spec ring.Spec) *world {
	t := time.Unix(0, 0)
	return &world{spec: spec, now: t, begun: t}
}

// put adds machine n, which is up and has an empty disk.
func (w *world) put(n int) *box {
	b := &box{name: fmt.Sprintf("m%d", n), disk: fmt.Sprintf("d%d", n), able: true, up: true, gone: w.now}
	w.boxes = append(w.boxes, b)
	return b
}

// found makes the machine's member n one of those that the ring began with.
func (w *world) found(b *box, n int) {
	b.log = ring.ID(n)
	w.members = append(w.members, &entry{id: b.log, machine: b.name, disk: b.disk, url: w.url(b.name), name: b.name, quiet: w.now, version: w.spec.Version, heard: w.spec.Version, peers: w.begins(), known: w.begins()})
	w.publish(w.spec.Version)
}

// publish is what an etcd writes into the log when it starts, up to v3.5 as a request of
// the v2 API.
func (w *world) publish(by ring.Version) {
	w.log++
	for _, m := range w.members {
		if by.Compare("v3.6.0") < 0 {
			m.v2 = w.log
		}
	}
}

// snapshot has the members that run take one, if so much was written since the last.
func (w *world) snapshot() {
	for _, m := range w.members {
		if w.runs(m) && m.version.Compare("v3.6.0") >= 0 && w.log > m.v2+w.spec.SnapshotCount {
			m.v2 = 0
		}
	}
}

// url is where a machine's member is at first.
func (w *world) url(machine string) string {
	if w.plain {
		return "http://" + machine + ":2380"
	}
	return url(machine)
}

func (w *world) begins() ring.Security {
	if w.plain {
		return ring.Plain
	}
	return ring.TLS
}

func url(machine string) string { return "https://" + machine + ":2380" }

func (w *world) box(name string) *box {
	i := slices.IndexFunc(w.boxes, func(b *box) bool { return b.name == name })
	if i < 0 {
		return nil
	}
	return w.boxes[i]
}

func (w *world) member(id ring.ID) *entry {
	i := slices.IndexFunc(w.members, func(m *entry) bool { return m.id == id })
	if i < 0 {
		return nil
	}
	return w.members[i]
}

func (w *world) at(machine string) *entry {
	i := slices.IndexFunc(w.members, func(m *entry) bool { return m.machine == machine })
	if i < 0 {
		return nil
	}
	return w.members[i]
}

// runs reports whether the member's etcd is up, with its own log.
func (w *world) runs(m *entry) bool {
	if m.machine == "" {
		return m.name != ""
	}
	b := w.box(m.machine)
	return b != nil && b.up && !b.mute && b.log == m.id && m.name != "" && !m.down
}

// intact reports whether the member still has its log, and will run again.
func (w *world) intact(m *entry) bool {
	b := w.box(m.machine)
	return b == nil || !b.lost && b.log == m.id && !m.ghost
}

func (w *world) voters() []*entry {
	return slices.DeleteFunc(slices.Clone(w.members), func(m *entry) bool { return m.learner })
}

func (w *world) count(is func(*entry) bool) int {
	n := 0
	for _, m := range w.voters() {
		if is(m) {
			n++
		}
	}
	return n
}

func (w *world) quorate() bool { return w.count(w.runs) >= ring.Quorum(len(w.voters())) }

// here reports whether the member is intact and its machine not away: one that is
// away for longer than replace-after is as good as lost, and Next is told so.
func (w *world) here(m *entry) bool {
	b := w.box(m.machine)
	return w.intact(m) && (b == nil || b.up)
}

// margin is how many of those here the ring can lose.
func (w *world) margin() int { return w.count(w.here) - ring.Quorum(len(w.voters())) }

// longLog is how many entries the ring's log had before, in what an observer sees: more than
// a voter may be behind.
const longLog = 5000

func (w *world) observe() ring.Observed {
	if w.unlisted != "" || !w.quorate() {
		return ring.Observed{Why: cmp.Or(w.unlisted, "no quorum")}
	}
	o := ring.Observed{Listed: true, Alarms: w.alarms, Bytes: w.bytes}
	for _, m := range w.members {
		seen := ring.Member{ID: m.id, Name: m.name, Machine: m.machine, Disk: m.disk, PeerURL: m.url,
			Learner: m.learner, Serving: w.runs(m), Leader: m.id == w.leader,
			Version: m.heard, Release: m.release, Schema: w.schema(m), Peers: m.known, Listen: m.listen, Applied: w.log, Lag: m.lag}
		if w.adopts && m.disk == "" {
			seen.Peers = "" // whose machine says so isn't known
		}
		seen.Serving = seen.Serving && !slices.Contains(w.alarms, ring.Alarm{Kind: ring.Corrupt, Member: m.id})
		seen.Ready = m.learner && seen.Serving && m.caught >= 2
		if !seen.Serving {
			seen.Silent = w.now.Sub(m.quiet)
		}
		if !w.runs(m) { // it tells nothing, and is as far behind as others have come
			seen.Applied, seen.Lag = 0, longLog+w.log
		}
		o.Members = append(o.Members, seen)
	}
	for _, b := range w.boxes {
		seen := ring.Machine{Name: b.name, PeerURL: w.url(b.name), Disk: b.disk, Present: b.up, Told: true, Lost: b.dead}
		if w.adopts {
			seen.Registered, seen.Holds = true, b.log
		}
		seen.Ending = b.ending
		if w.now.Before(b.tells) {
			seen.Present, seen.Told, seen.Disk = false, false, ""
		}
		if b.static {
			seen = ring.Machine{Name: b.name, PeerURL: w.url(b.name), Static: true, Registered: true, Absent: w.now.Sub(w.begun)}
		}
		if b.able && !b.static {
			seen.Versions = slices.DeleteFunc([]ring.Version{w.spec.Version, w.spec.From}, func(v ring.Version) bool { return v == b.lacks })
		}
		if m := w.at(b.name); m != nil && w.runs(m) && w.schema(m) == ring.ReadsV2 {
			seen.ToldV2, seen.V2 = true, m.v2
		}
		if m := w.at(b.name); m != nil && b.fails != "" && m.version == b.fails {
			seen.Failing = "it can't read its files"
		}
		if m := w.at(b.name); m != nil && b.deaf != "" && m.peers == b.deaf {
			seen.Failing = "its port is taken"
		}
		if b.says != "" {
			seen.Failing = b.says
		}
		if !b.up && !b.static {
			seen.Absent = w.now.Sub(b.gone)
		}
		o.Machines = append(o.Machines, seen)
	}
	slices.SortFunc(o.Members, func(a, b ring.Member) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(o.Machines, func(a, b ring.Machine) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return o
}

// forget makes everyone's absence begin now, as it does for a new observer.
func (w *world) forget() {
	for _, m := range w.members {
		m.quiet, m.heard, m.known = w.now, "", ""
		if w.runs(m) {
			m.heard, m.known = m.version, m.peers
		}
	}
	for _, b := range w.boxes {
		b.gone = w.now
	}
}

// do is one request to etcd, with the refusals of etcd v3.6.16
// (server.go mayAddMember, mayRemoveMember, mayPromoteMember).
func (w *world) do(a ring.Action) error {
	if !w.quorate() {
		return fmt.Errorf("no quorum")
	}
	voters, m := w.voters(), w.member(a.Member)
	if a.Kind != ring.AddLearner && a.Kind != ring.AdvanceLog && m == nil {
		return fmt.Errorf("member not found")
	}
	switch a.Kind {
	case ring.AddLearner:
		if slices.ContainsFunc(w.members, func(m *entry) bool { return m.url == a.PeerURL }) {
			return fmt.Errorf("peer URL exists")
		}
		if slices.ContainsFunc(w.members, func(m *entry) bool { return m.learner }) {
			return fmt.Errorf("too many learners")
		}
		if len(voters) > 1 && w.count(w.runs) < ring.Quorum(len(voters)+1) {
			return fmt.Errorf("unhealthy cluster")
		}
		w.added++
		number, _ := strconv.Atoi(strings.TrimLeft(a.Machine, "m"))
		w.members = append(w.members, &entry{id: ring.ID(0x100*w.added + number), machine: a.Machine, url: a.PeerURL, learner: true, quiet: w.now})
	case ring.Bind:
		if m.disk != "" {
			return fmt.Errorf("bound already")
		}
		m.disk, m.release, m.listen = a.Disk, a.Version, a.Peers
	case ring.Upgrade:
		m.release = a.Version
	case ring.Listen:
		m.listen = a.Peers
	case ring.Update:
		m.url = a.PeerURL
	case ring.Promote:
		if !m.learner || m.caught < 2 || !w.runs(m) {
			return fmt.Errorf("learner not ready")
		}
		m.learner = false
	case ring.Remove:
		if err := w.mayRemove(m); err != nil {
			return err
		}
		w.members = slices.DeleteFunc(w.members, func(x *entry) bool { return x == m })
	case ring.AdvanceLog:
		w.log += a.Entries
		w.snapshot()
	case ring.MoveLeader:
		if m.learner || !w.runs(m) {
			return fmt.Errorf("bad leader transferee")
		}
		w.leader = m.id
	}
	w.elect()
	return nil
}

func (w *world) mayRemove(m *entry) error {
	if m.learner {
		return nil
	}
	others := len(w.voters()) - 1
	if started := w.count(func(x *entry) bool { return x != m && x.name != "" }); started < ring.Quorum(others) {
		return fmt.Errorf("not enough started members")
	}
	if w.runs(m) && w.count(w.runs)-1 < 1+others/2 {
		return fmt.Errorf("unhealthy cluster")
	}
	return nil
}

func (w *world) elect() {
	if m := w.member(w.leader); m != nil && !m.learner && w.runs(m) {
		return
	}
	w.leader = 0
	for _, m := range w.voters() {
		if w.runs(m) && w.quorate() {
			w.leader = m.id
			return
		}
	}
}

// pass lets seconds go by: launchers start and clear, learners catch up.
func (w *world) pass(seconds int) {
	for range seconds {
		w.now = w.now.Add(time.Second)
		for _, b := range w.boxes {
			w.launch(b)
		}
		for _, m := range w.members {
			if w.runs(m) {
				m.quiet, m.heard, m.known = w.now, m.version, m.peers
				m.caught++
			}
		}
		for _, b := range w.boxes {
			if b.up {
				b.gone = w.now
			}
		}
		w.elect()
	}
}

// restart makes the machine of a member anew with a launcher, if it has none.
func (w *world) restart(id ring.ID) {
	m := w.member(id)
	if m == nil {
		return
	}
	if _, due := w.spec.Restart[m.machine]; due && !m.down {
		delete(w.spec.Restart, m.machine)
		m.down = true
	}
	if !w.box(m.machine).static {
		return
	}
	b := w.box(m.machine)
	b.static, m.down, m.peers, b.tells = false, true, ring.Mixed, w.now.Add(3*time.Second)
	if m.ghost {
		b.log = 0
	}
}

// launch is launcher.Decide, in this world's terms.
func (w *world) launch(b *box) {
	m := w.at(b.name)
	if b.static && m == nil {
		b.static = false // with no member on it the machine is made anew at once
		w.renew(b)
	}
	if m != nil && m.down && b.up && !b.mute {
		m.down = b.fails == m.version || b.deaf != "" && b.deaf == m.peers || m.v2 > 0 && m.version.Compare("v3.7.0") >= 0
		if !m.down {
			w.publish(m.version)
		}
		return
	}
	if !b.up || b.mute || !w.quorate() || w.unlisted != "" {
		return
	}
	switch {
	case m != nil && b.log == m.id && m.release != "" && m.release != m.version:
		m.version, m.down = m.release, true // it is ended, and started with the other
	case m != nil && b.log == m.id && m.listen != "" && m.listen != m.peers:
		m.peers, m.down = m.listen, true
	case b.log != 0 && w.member(b.log) == nil:
		w.renew(b) // clear
	case b.log != 0, m == nil, m.disk != b.disk:
	case m.name != "":
		w.renew(b) // disown
	default:
		b.log, m.name, m.version = m.id, b.name, cmp.Or(m.release, w.spec.From, w.spec.Version)
		m.peers = cmp.Or(m.listen, w.begins())
		if leader := w.member(w.leader); leader != nil {
			m.v2 = leader.v2 // it is sent the leader's snapshot, and the log since
		}
		w.publish(m.version)
	}
}

// schema is the minor that a member's files are of: that of the ring, once all run it.
func (w *world) schema(m *entry) string {
	least := m.version
	for _, other := range w.voters() {
		if other.version.Compare(least) < 0 {
			least = other.version
		}
	}
	if least.Compare("v3.6.0") < 0 {
		return ""
	}
	return least.Minor()
}

// ends has every etcd that is started on the machine end with the words; "" has them start again.
func (w *world) ends(b *box, words string) {
	b.says, b.mute = words, words != ""
	w.elect()
}

func (w *world) renew(b *box) {
	b.gen++
	b.disk, b.log = fmt.Sprintf("%s.%d", strings.Replace(b.name, "m", "d", 1), b.gen), 0
}

// deleteVolume takes the disk for good, and the machine, which can't start without.
func (w *world) deleteVolume(b *box) {
	b.up, b.dead = false, true
	w.renew(b)
}

func (w *world) putInVolume(b *box) {
	b.up, b.dead = true, false
	w.renew(b)
}

// deleteUnder takes the disk for good under the machine's member m, which runs on.
func (w *world) deleteUnder(b *box, m *entry) { b.dead, m.ghost = true, true }

func (w *world) lose(name string) {
	b := w.box(name)
	b.up, b.lost = false, true
	w.elect()
}

// String draws the ring: a star leads, brackets are a learner, a dash is down.
func (w *world) String() string {
	var all []string
	for _, m := range w.members {
		text := cmp.Or(m.machine, m.url)
		if !w.runs(m) {
			text = "-" + text
		}
		if m.id == w.leader {
			text += "*"
		}
		if w.plain {
			text += ":" + string(m.peers)
			if strings.HasPrefix(m.url, "https:") {
				text += "@https"
			}
		}
		if m.learner {
			text = "[" + text + "]"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}
