// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/ringproof/ringproof/internal/needs" // the seed, in CI
	"github.com/ringproof/ringproof/reference/ring"
)

// drawObserved draws what an observer might come to believe, sense or nonsense.
func drawObserved(t *rapid.T) (ring.Spec, ring.Observed) {
	names := []string{"m1", "m2", "m3", "m4", "m5", "m6", "m7"}
	chance := func(label string) bool { return rapid.IntRange(0, 3).Draw(t, label) > 0 }
	spec := ring.Spec{Nodes: rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "nodes"), Version: rapid.SampledFrom(releases).Draw(t, "version"), ReplaceAfter: time.Minute,
		Own:          map[string]ring.Version{rapid.SampledFrom(names).Draw(t, "apart"): rapid.SampledFrom(releases).Draw(t, "its version")},
		Decommission: rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID).Draw(t, "decommission")}
	if spec.From = rapid.SampledFrom(append(releases, "", "")).Draw(t, "from"); spec.From == spec.Version {
		spec.From = ""
	}
	spec.Encrypt = rapid.IntRange(0, 3).Draw(t, "encrypt") == 0
	spec.Restart = map[string]string{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "restart") {
		spec.Restart[name] = "its pod is to be another"
	}
	url := url
	if spec.Encrypt {
		url = (&world{plain: true}).url
	}
	o := ring.Observed{Listed: rapid.IntRange(0, 9).Draw(t, "listed") > 0, Why: "no quorum"}
	away := func(label string) time.Duration {
		return time.Duration(rapid.IntRange(1, 120).Draw(t, label)) * time.Second
	}
	for i, name := range names {
		m := ring.Machine{Name: name, PeerURL: url(name), Disk: rapid.SampledFrom([]string{"", "a", "b", "b", "b", "b"}).Draw(t, name+" disk"),
			Present: chance(name + " present"), Ending: rapid.IntRange(0, 9).Draw(t, name+" ending") == 0, Lost: rapid.IntRange(0, 9).Draw(t, name+" lost") == 0}
		if m.Versions = releases; !chance(name + " has every release") {
			m.Versions = rapid.SliceOfDistinct(rapid.SampledFrom(releases), rapid.ID).Draw(t, name+" versions")
		}
		runs := rapid.SampledFrom(releases).Draw(t, name+" runs")
		elsewhere := rapid.IntRange(0, 5).Draw(t, name+" elsewhere") == 0
		if elsewhere {
			m.PeerURL = url("another-" + name)
		}
		if !m.Present || elsewhere {
			m.Absent = away(name + " absent")
		}
		o.Machines = append(o.Machines, m)
		if !chance(name + " has a member") {
			continue
		}
		member := ring.Member{ID: ring.ID(i + 1), Name: name, Machine: name, Disk: "b", PeerURL: url(name),
			Learner: rapid.IntRange(0, 5).Draw(t, name+" learner") == 0, Serving: chance(name + " serving"), Ready: rapid.Bool().Draw(t, name+" ready"),
			Version: runs, Release: rapid.SampledFrom([]ring.Version{"", runs, spec.Version}).Draw(t, name+" release"), Schema: rapid.SampledFrom([]string{"", runs.Minor()}).Draw(t, name+" schema"),
			Lag: rapid.SampledFrom([]uint64{0, 0, 0, 5000}).Draw(t, name+" lag")}
		if rapid.IntRange(0, 9).Draw(t, name+" unstarted") == 0 {
			member.Name, member.Serving = "", false
		}
		if rapid.IntRange(0, 9).Draw(t, name+" unbound") == 0 {
			member.Disk = ""
		}
		if spec.Encrypt {
			drawPeers(t, &member)
		}
		if !member.Serving {
			member.Silent = away(name + " silent")
		}
		o.Members = append(o.Members, member)
	}
	if voters := o.Voters(); len(voters) > 0 {
		leader := rapid.SampledFrom(voters).Draw(t, "leader").ID
		for i := range o.Members {
			o.Members[i].Leader = o.Members[i].ID == leader
		}
	}
	return spec, o
}

// drawPeers draws how a member listens for its peers, is to, and is listed.
func drawPeers(t *rapid.T, m *ring.Member) {
	ways := []ring.Security{ring.Plain, ring.Mixed, ring.Mixed, ring.TLS}
	if m.Peers = rapid.SampledFrom(ways).Draw(t, m.Machine+" listens"); rapid.IntRange(0, 19).Draw(t, m.Machine+" unheard") == 0 {
		m.Peers = ""
	}
	if m.Listen = m.Peers; rapid.IntRange(0, 9).Draw(t, m.Machine+" restarts") == 0 {
		m.Listen = rapid.SampledFrom(ways).Draw(t, m.Machine+" is to listen")
	}
	if rapid.Bool().Draw(t, m.Machine+" listed with TLS") {
		m.PeerURL = ring.Encrypted(m.PeerURL)
	}
}

// TestNextIsSafe holds every action against plain statements of what must not
// happen, whatever was observed.
func TestNextIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, o := drawObserved(t)
		d := ring.Next(spec, o)
		if n := decided(d); n != 1 {
			t.Fatalf("%d of action, wait and halt: %+v", n, d)
		}
		if again := ring.Next(spec, o); again.String() != d.String() {
			t.Fatalf("decides %s, and then %s", d, again)
		}
		if wrong := breaksDue(o, d.Due); wrong != "" {
			t.Fatalf("%s: %s\nspec %+v\n%s", d, wrong, spec, draw(o))
		}
		if d.Action == nil {
			return
		}
		if wrong := breaks(spec, o, *d.Action); wrong != "" {
			t.Fatalf("%s (%s): %s\nspec %+v\n%s", d, d.Action.Why, wrong, spec, draw(o))
		}
	})
}

// breaksDue names what is broken by restarting a member now.
func breaksDue(o ring.Observed, due ring.ID) string {
	for _, m := range o.Voters() {
		i := slices.IndexFunc(o.Machines, func(x ring.Machine) bool { return x.Name == m.Machine })
		ends := i >= 0 && o.Machines[i].Ending && ring.SameAddress(o.Machines[i].PeerURL, m.PeerURL) && o.Machines[i].Disk == m.Disk
		if due != 0 && m.ID != due && (!m.Serving || m.Lag > 1000 || ends) {
			return fmt.Sprintf("a member is restarted while %s doesn't serve, is behind, or about to end", m)
		}
	}
	return ""
}

func decided(d ring.Decision) int {
	n := 0
	for _, is := range []bool{d.Action != nil, d.Wait != "", d.Halt != ""} {
		if is {
			n++
		}
	}
	return n
}

// breaks names the rule that the action breaks.
func breaks(spec ring.Spec, o ring.Observed, a ring.Action) string {
	if !o.Listed {
		return "nothing is known, and something is changed"
	}
	if spec.Paused {
		return "it is paused"
	}
	switch a.Kind {
	case ring.AddLearner:
		return breaksAdd(spec, o, a)
	case ring.AdvanceLog:
		return breaksAdvance(spec, o, a)
	}
	i := slices.IndexFunc(o.Members, func(m ring.Member) bool { return m.ID == a.Member })
	if i < 0 {
		return "there is no such member"
	}
	m := o.Members[i]
	switch {
	case a.Kind == ring.Promote && (!m.Learner || !m.Serving || !m.Ready || m.Disk == "" || diskLost(o, m)):
		return "it is no learner that is bound, caught up and serving"
	case a.Kind == ring.Upgrade:
		return breaksUpgrade(spec, o, a, m)
	case a.Kind == ring.Listen || a.Kind == ring.Update:
		return breaksEncryption(spec, o, a, m)
	case a.Kind == ring.MoveLeader && (m.Learner || !m.Serving):
		return "it can't lead"
	case a.Kind == ring.Bind && (m.Disk != "" || m.Started() || a.Disk == ""):
		return "it is bound, or ran, or there is no disk to bind it to"
	case a.Kind == ring.Remove && !m.Learner:
		if wrong := breaksRemove(spec, o, m); wrong != "" {
			return wrong
		}
	}
	return breaksMargin(o, a, m)
}

func breaksAdd(spec ring.Spec, o ring.Observed, a ring.Action) string {
	for _, m := range o.Members {
		if m.Learner {
			return "there is a learner already"
		}
		if m.Machine == a.Machine || ring.SameAddress(m.PeerURL, a.PeerURL) {
			return "there is a member on the machine already"
		}
	}
	for _, m := range o.Machines {
		if m.Name == a.Machine && m.Present && !m.Lost && slices.ContainsFunc(m.Versions, func(v ring.Version) bool { return begins(spec, o, m.Name, v) }) && m.Disk != "" && m.Disk == a.Disk && ring.SameAddress(m.PeerURL, a.PeerURL) && !slices.Contains(spec.Decommission, m.Name) {
			return ""
		}
	}
	return "its machine is absent, unable, without a disk, or decommissioned"
}

// breaksAdvance wants a release to be asked for that can't read a log.
func breaksAdvance(spec ring.Spec, o ring.Observed, a ring.Action) string {
	unread := slices.ContainsFunc(o.Machines, func(m ring.Machine) bool { return m.V2 > 0 })
	if spec.Version.Minor() != "v3.7" || !unread || a.Entries == 0 || a.Entries > spec.SnapshotCount {
		return "every log can be read"
	}
	return ""
}

// begins reports whether a member that is added on the machine may begin with a release:
// its own; else what is asked for; else, in an upgrade, what others run or ran.
func begins(spec ring.Spec, o ring.Observed, machine string, v ring.Version) bool {
	own := spec.Own[machine]
	if own != "" || spec.From == "" {
		return v == spec.VersionOf(machine)
	}
	return v == spec.From || slices.ContainsFunc(o.Voters(), func(m ring.Member) bool { return m.Serving && m.Version == v })
}

// breaksUpgrade wants all voters to serve, nobody else to be on the way, and the leader
// to be the last.
func breaksUpgrade(spec ring.Spec, o ring.Observed, a ring.Action, m ring.Member) string {
	switch {
	case m.Learner || a.Version != spec.Version || spec.Own[m.Machine] != "":
		return "it is no voter that is to have the release"
	case m.Version.Hop(spec.Version) != "" || m.Version == spec.Version && (m.Release == "" || m.Release == spec.Version):
		return "the release is none that it may have next"
	case len(o.Voters()) != len(o.Members) || len(o.Voters()) < spec.Nodes:
		return "the ring is not whole"
	}
	for _, other := range o.Voters() {
		told := other.Release != "" && other.Release != spec.Version
		waits := spec.Own[other.Machine] == "" && (told || other.Version != spec.Version)
		switch {
		case !other.Serving || other.Lag > 1000:
			return other.String() + " doesn't serve, or is behind"
		case waits && !told && other.Release == spec.Version:
			return other.String() + " is on the way"
		case m.Leader && other.ID != m.ID && (waits || spec.Own[other.Machine] == ""):
			return "it leads, and another could"
		case waits && !slices.ContainsFunc(o.Machines, func(x ring.Machine) bool {
			return x.Name == other.Machine && x.Present && slices.Contains(x.Versions, spec.Version)
		}):
			return "the machine of " + other.String() + " has not the release"
		}
	}
	return ""
}

// breaksEncryption wants all voters to be heard and in step, and nobody on the way; a URL
// for TLS listed once all take it, and the port for plain text closed once none is listed.
func breaksEncryption(spec ring.Spec, o ring.Observed, a ring.Action, m ring.Member) string {
	if !spec.Encrypt || m.Learner || len(o.Voters()) != len(o.Members) || len(o.Voters()) < spec.Nodes {
		return "nobody asked for it, or the ring is not whole"
	}
	plain, listed := false, false
	for _, other := range o.Voters() {
		plain = plain || other.Peers == ring.Plain
		listed = listed || strings.HasPrefix(other.PeerURL, "http:")
		switch {
		case !other.Serving || other.Lag > 1000:
			return other.String() + " doesn't serve, or is behind"
		case other.Peers == "" || other.Listen != "" && other.Listen != other.Peers:
			return other.String() + " is on the way, or may be"
		case a.Kind == ring.Listen && m.Leader && other.ID != m.ID && other.Peers == a.Peers:
			return "it leads, and another could"
		}
	}
	switch {
	case a.Kind == ring.Update && (plain || a.PeerURL != "https://"+m.Machine+":2381" && a.PeerURL != "https://another-"+m.Machine+":2381"):
		return "a voter takes no TLS, or it isn't where the member does"
	case a.Kind == ring.Listen && a.Peers == ring.Mixed && m.Peers != ring.Plain:
		return "it takes TLS, and is restarted to"
	case a.Kind == ring.Listen && a.Peers == ring.TLS && (plain || listed || m.Peers != ring.Mixed):
		return "it closes a port at which members are listed, or may be dialled"
	case a.Kind == ring.Listen && a.Peers == ring.Plain:
		return "it takes TLS back"
	}
	return ""
}

func breaksRemove(spec ring.Spec, o ring.Observed, m ring.Member) string {
	n, serving := len(o.Voters()), count(o, func(m ring.Member) bool { return m.Serving })
	left := serving
	if m.Serving {
		left--
	}
	if serving < majority(n) || left < majority(n-1) {
		return fmt.Sprintf("%d of the other %d voters answer", left, n-1)
	}
	// Where etcd adds nobody beside a silent voter, one that is decommissioned goes first.
	asked := slices.Contains(spec.Decommission, m.Machine) && !m.Serving && m.Silent > spec.ReplaceAfter
	for _, machine := range o.Machines {
		own := machine.Name == m.Machine && machine.Present && !machine.Lost && machine.Disk == m.Disk
		if own && !asked && n <= spec.Nodes && m.Started() {
			return "it is on its own disk, and nobody asked for it to leave"
		}
		learner := slices.ContainsFunc(o.Members, func(m ring.Member) bool { return m.Learner })
		patient := !m.Serving && m.Silent > spec.ReplaceAfter && machine.Absent > spec.ReplaceAfter && !learner
		if machine.Name == m.Machine && m.DisplacedBy(machine) && !asked && n <= spec.Nodes && !patient {
			return "another has its machine's name, which says nothing of its own disk"
		}
	}
	return ""
}

// breaksMargin compares how many voters more than a quorum can vote, before
// and after. A ring that becomes smaller may lose what the smaller size costs.
func breaksMargin(o ring.Observed, a ring.Action, m ring.Member) string {
	votes := func(m ring.Member) bool { return m.Serving && !diskLost(o, m) }
	n, intact := len(o.Voters()), count(o, votes)
	before := intact - majority(n)
	full := n - majority(n)
	switch {
	case a.Kind == ring.Promote:
		n++
		if votes(m) {
			intact++
		}
	case a.Kind == ring.Remove && !m.Learner:
		n--
		if votes(m) {
			intact--
		}
	}
	if after := intact - majority(n); after < min(before, full, n-majority(n)) {
		return fmt.Sprintf("the margin goes from %d to %d", before, after)
	}
	return ""
}

func count(o ring.Observed, is func(ring.Member) bool) int {
	n := 0
	for _, m := range o.Voters() {
		if is(m) {
			n++
		}
	}
	return n
}

// majority is ring.Quorum, found by counting.
func majority(n int) int {
	q := 0
	for 2*q <= n {
		q++
	}
	return q
}

func TestQuorum(t *testing.T) {
	for n := range 20 {
		if ring.Quorum(n) != majority(n) {
			t.Errorf("Quorum(%d) = %d, want %d", n, ring.Quorum(n), majority(n))
		}
	}
}

func diskLost(o ring.Observed, m ring.Member) bool {
	for _, machine := range o.Machines {
		if machine.Name == m.Machine && machine.Lost && ring.SameAddress(m.PeerURL, machine.PeerURL) {
			return true
		}
		if machine.Name == m.Machine && machine.Present && machine.Disk != "" && m.Disk != "" && machine.Disk != m.Disk && ring.SameAddress(m.PeerURL, machine.PeerURL) {
			return true
		}
	}
	return false
}

func draw(o ring.Observed) string {
	var out strings.Builder
	for _, m := range o.Members {
		fmt.Fprintf(&out, "%+v\n", struct{ M any }{m})
	}
	for _, m := range o.Machines {
		fmt.Fprintf(&out, "%+v\n", m)
	}
	return out.String()
}

// TestNextConverges injects fair faults into an obedient world, then stops
// injecting them, and wants what was asked for within a bounded time. Every action
// on the way is held against the margin of intact logs, which Next can't see
// and must keep all the same.
func TestNextConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		story := w.drawStory(t, w.drawFault, w.run)
		w.heal()
		story = append(story, "healed: "+w.String())
		w.converge(t, &story, w.run)
		w.run(t, &story, 30) // and so it stays
		w.met(t, story)
	})
}

// drawStory injects faults into the world, lets the automation act in between, and tells both.
func (w *world) drawStory(t *rapid.T, fault func(*rapid.T) string, run func(*rapid.T, *[]string, int)) (story []string) {
	for range rapid.IntRange(0, 25).Draw(t, "faults") {
		if done := fault(t); done != "" {
			story = append(story, fmt.Sprintf("%3.0fs fault: %-22s %s", w.now.Sub(w.begun).Seconds(), done, w))
		}
		run(t, &story, rapid.IntRange(0, 12).Draw(t, "seconds"))
	}
	return story
}

// converge runs the ring until it is what is asked for, which takes ten minutes at most.
func (w *world) converge(t *rapid.T, story *[]string, run func(*rapid.T, *[]string, int)) {
	for range 60 {
		if run(t, story, 10); w.unmet() == "" {
			return
		}
	}
	w.met(t, *story)
}

// met fails where the ring is not what is asked for.
func (w *world) met(t *rapid.T, story []string) {
	if left := w.unmet(); left != "" {
		t.Fatalf("%s\n%s", left, strings.Join(story, "\n"))
	}
}

func drawWorld(t *rapid.T) *world {
	n := rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "voters")
	w := newWorld(ring.Spec{Nodes: n, Version: rapid.SampledFrom(releases).Draw(t, "version"), ReplaceAfter: 10 * time.Second})
	for i := range n + rapid.IntRange(0, 4).Draw(t, "spares") {
		b := w.put(i + 1)
		b.able = i < n || rapid.IntRange(0, 4).Draw(t, b.name+" able") > 0
		if i < n {
			w.found(b, i+1)
		}
	}
	w.elect()
	return w
}

// run lets the automation act for so many seconds, one decision each.
func (w *world) run(t *rapid.T, story *[]string, seconds int) {
	for range seconds {
		d := ring.Next(w.spec, w.observe())
		if text := d.String(); len(*story) == 0 || !strings.Contains((*story)[len(*story)-1], text) {
			*story = append(*story, fmt.Sprintf("%3.0fs %s", w.now.Sub(w.begun).Seconds(), text))
		}
		if d.Halt != "" {
			t.Fatalf("halts with nobody else around\n%s", strings.Join(*story, "\n"))
		}
		if d.Action != nil {
			before, size := w.margin(), len(w.voters())
			if err := w.do(*d.Action); err != nil {
				*story = append(*story, "     etcd refuses: "+err.Error())
			}
			small := min(size, len(w.voters()))
			if after := w.margin(); after < min(before, small-majority(small)) {
				t.Fatalf("%s: the margin goes from %d to %d\n%s", d, before, after, strings.Join(*story, "\n"))
			}
		}
		w.pass(1)
	}
}

// drawFault injects one fair fault and names it. Losing a member's log for good is
// fair only while the rest that keep theirs are a quorum; and a machine is lost
// only while enough are left for what is asked for.
func (w *world) drawFault(t *rapid.T) string {
	b := rapid.SampledFrom(w.boxes).Draw(t, "machine")
	m := w.at(b.name)
	fair := w.spares(m)
	kind := rapid.SampledFrom([]string{"crash", "return", "blackout", "mute", "unmute", "lose-disk", "lose-machine", "ghost", "spec", "decommission", "new-observer"}).Draw(t, "fault")
	switch kind {
	case "crash":
		if !fair {
			return ""
		}
		b.up = false
	case "blackout":
		w.blackout(rapid.IntRange(1, 9).Draw(t, "dark"))
		return kind
	case "return":
		b.up = !b.lost
	case "mute", "unmute":
		b.mute = kind == "mute"
	case "lose-disk":
		if b.lost || !fair {
			return ""
		}
		w.renew(b)
	case "ghost":
		if b.lost || !b.up || !fair || m == nil || !w.runs(m) {
			return ""
		}
		w.renew(b)
		b.log, m.ghost = m.id, true
	case "lose-machine":
		if !fair || !w.roomWithout(b) {
			return ""
		}
		w.lose(b.name)
	case "spec":
		n := rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "nodes")
		if w.room() < n {
			return ""
		}
		w.spec.Nodes = n
		return fmt.Sprintf("spec nodes=%d", n)
	case "decommission":
		if len(w.spec.Decommission) > 0 {
			w.spec.Decommission = nil
			return "decommission nothing"
		}
		w.spec.Decommission = []string{b.name}
		if w.room() < w.spec.Nodes {
			w.spec.Decommission = nil
			return ""
		}
	case "new-observer":
		w.forget()
		return kind
	}
	w.elect()
	return kind + " " + b.name
}

// spares reports whether the ring has a quorum without the machine of m.
func (w *world) spares(m *entry) bool {
	return m == nil || m.learner || w.count(func(x *entry) bool { return x != m && w.here(x) }) >= ring.Quorum(len(w.voters()))
}

// room counts the machines that could hold a voter of the ring as asked for.
func (w *world) room() int {
	n := 0
	for _, b := range w.boxes {
		if !b.lost && b.able && !slices.Contains(w.spec.Decommission, b.name) {
			n++
		}
	}
	return n
}

func (w *world) roomWithout(b *box) bool {
	was := b.lost
	b.lost = true
	defer func() { b.lost = was }()
	return w.room() >= w.spec.Nodes
}

// blackout takes the power from every machine for so many seconds.
func (w *world) blackout(seconds int) {
	var were []*box
	for _, b := range w.boxes {
		if b.up {
			were, b.up = append(were, b), false
		}
	}
	w.elect()
	w.pass(seconds)
	for _, b := range were {
		b.up = true
	}
	w.elect()
}

// heal brings back all that was not lost for good.
func (w *world) heal() {
	for _, b := range w.boxes {
		b.up, b.mute = !b.lost, false
	}
	w.elect()
}

func (w *world) unmet() string {
	if d := ring.Next(w.spec, w.observe()); d.Wait != ring.Steady {
		return "not steady after ten minutes: " + d.String()
	}
	if len(w.members) != w.spec.Nodes || w.count(w.runs) != w.spec.Nodes {
		return fmt.Sprintf("%d nodes are asked for, and the ring is %s", w.spec.Nodes, w)
	}
	for _, m := range w.members {
		if slices.Contains(w.spec.Decommission, m.machine) {
			return m.machine + " is decommissioned, and keeps its member"
		}
	}
	return ""
}
