// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

const ours = 0xc1

var (
	bootstrapped = &store.Identity{Token: "ring-1", Epoch: 1, Members: []store.InitialMember{
		{Name: "m1", Machine: "m1", Disk: "d1", PeerURL: "https://m1:2380", ClientURL: "https://m1:2379"},
		{Name: "m2", Machine: "m2", Disk: "d2", PeerURL: "https://m2:2380", ClientURL: "https://m2:2379"},
		{Name: "m3", Machine: "m3", Disk: "d3", PeerURL: "https://m3:2380", ClientURL: "https://m3:2379"},
	}}
	// static is a ring that began without launchers. Its initial members' IDs are those that etcd
	// gives them.
	static = &store.Identity{Token: "ring-1", Epoch: 1, Static: true, Members: []store.InitialMember{
		{Name: "m1", Machine: "m1", PeerURL: "http://m1:2380", ClientURL: "https://m1:2379"},
		{Name: "m2", Machine: "m2", PeerURL: "http://m2:2380", ClientURL: "https://m2:2379"},
		{Name: "m3", Machine: "m3", PeerURL: "http://m3:2380", ClientURL: "https://m3:2379"},
	}}
	began   = &host.WAL{Member: 0xc3f85856b3920fb2, Cluster: ours, Last: 77}
	other   = &host.WAL{Member: 0x6f75e25ffc68a71c, Cluster: ours, Last: 77}
	one     = ring.Member{ID: 1, Name: "m1", Machine: "m1", Disk: "d1", PeerURL: "https://m1:2380"}
	two     = ring.Member{ID: 2, Name: "m2", Machine: "m2", Disk: "d2", PeerURL: "https://m2:2380"}
	bound   = ring.Member{ID: 9, Machine: "m1", Disk: "d1", PeerURL: "https://m1:2380", Learner: true}
	further = ring.Member{ID: 1, Name: "m1", Machine: "m1", Disk: "d1", PeerURL: "https://m1:2380", Log: 90}
	own     = &host.WAL{Member: 1, Cluster: ours, Last: 77}
)

// TestDecide tells each case as a sentence. Every machine is m1, with disk d1.
func TestDecide(t *testing.T) {
	bare := launcher.Evidence{Machine: "m1", Disk: "d1"}
	listed := func(e launcher.Evidence, members ...ring.Member) launcher.Evidence {
		e.Listed, e.Cluster, e.Members = true, ours, members
		return e
	}
	with := func(e launcher.Evidence, change func(*launcher.Evidence)) launcher.Evidence {
		change(&e)
		return e
	}
	unlisted := with(bare, func(e *launcher.Evidence) { e.Why = "no endpoint answered" })
	identity := with(unlisted, func(e *launcher.Evidence) { e.Identity = bootstrapped })
	ran := with(bare, func(e *launcher.Evidence) { e.Launched = true })
	log := with(ran, func(e *launcher.Evidence) { e.WAL = own })

	for _, c := range []struct {
		name string
		e    launcher.Evidence
		want string
	}{
		{"a log, and no list: after a power loss there is none before the members have started", log,
			"start (resume): the disk holds the log of member 1 up to 77"},
		{"a log, and its member is in the ring", listed(log, one, two),
			"start (resume): the disk holds the log of member 1 up to 77"},
		{"a log, and its member was let go", with(listed(log, two), func(e *launcher.Evidence) { e.LetGo, e.Recorded = true, 1 }),
			"clear: member 1 has left the ring"},
		{"a log that says itself that its member is removed", with(listed(log, two), func(e *launcher.Evidence) { e.WAL = &host.WAL{Member: 1, Cluster: ours, Last: 77, Left: true} }),
			"clear: member 1 has left the ring"},
		{"a log of another member than the one that is on this machine now", with(listed(log, bound, two), func(e *launcher.Evidence) { e.LetGo, e.Recorded = true, 2 }),
			"clear: member 1 has left the ring"},
		{"a log, and a ring of one answers that has never heard of its member", with(listed(log, two), func(e *launcher.Evidence) { e.Recorded = 1 }),
			"halt: the ring that answers doesn't list member 1, whose log up to 77 is on this disk, and nobody is on record to have let it go: if that ring was begun anew from one member (--force-new-cluster), this log may hold more, and which of the two goes further is not known. Nothing here is touched; if the member is to go, ringadm reset 1 sets its log aside"},
		{"a log that goes further than a ring of one that answers", with(listed(log, two), func(e *launcher.Evidence) { e.Recorded, e.Applied = 1, 70 }),
			"halt: the ring that answers doesn't list member 1, whose log up to 77 is on this disk, and nobody is on record to have let it go: if that ring was begun anew from one member (--force-new-cluster), this log may hold more, and it goes further than that ring. Nothing here is touched; if the member is to go, ringadm reset 1 sets its log aside"},
		{"a log that a ring of one has overtaken", with(listed(log, two), func(e *launcher.Evidence) { e.Recorded, e.Applied = 1, 80 }),
			"halt: the ring that answers doesn't list member 1, whose log up to 77 is on this disk, and nobody is on record to have let it go: if that ring was begun anew from one member (--force-new-cluster), this log may hold more, and that ring has gone further than it. Nothing here is touched; if the member is to go, ringadm reset 1 sets its log aside"},
		{"a log, and the records are gone that would tell whether its member has left", listed(log, two),
			"wait: member 1 is not listed, and whether somebody let it go can't be told: the ring's records are missing"},
		{"a log that was made that of a ring of one", with(listed(log, one, two), func(e *launcher.Evidence) { e.WAL = &host.WAL{Member: 1, Cluster: ours, Last: 77, Forced: 75} }),
			"halt: somebody made the log on this disk that of a ring of one (--force-new-cluster): member 1 is alone in it from 75 to 77, and what the others have acknowledged since is not there"},
		{"a log that was made that of a ring of one, and no list", with(log, func(e *launcher.Evidence) { e.WAL = &host.WAL{Member: 1, Cluster: ours, Last: 77, Forced: 75} }),
			"halt: somebody made the log on this disk that of a ring of one (--force-new-cluster): member 1 is alone in it from 75 to 77, and what the others have acknowledged since is not there"},
		{"a log that was made that of a ring of one, which somebody has taken for the ring since", with(log, func(e *launcher.Evidence) {
			e.WAL, e.Accepted = &host.WAL{Member: 1, Cluster: ours, Last: 77, Forced: 75}, 76
		}),
			"start (resume): the disk holds the log of member 1 up to 77"},
		{"a log that was made that of a ring of one once more since", with(log, func(e *launcher.Evidence) {
			e.WAL, e.Accepted = &host.WAL{Member: 1, Cluster: ours, Last: 97, Forced: 95}, 76
		}),
			"halt: somebody made the log on this disk that of a ring of one (--force-new-cluster): member 1 is alone in it from 95 to 97, and what the others have acknowledged since is not there"},
		{"a log that went further before", listed(log, ring.Member{ID: 1, Machine: "m1", Disk: "d1", Log: 90}, two),
			"halt: the log of member 1 on this disk goes up to 77, and went up to 90 before: the disk was put back from an older copy, and has forgotten what the member acknowledged"},
		{"a log with which raft gave up", with(listed(log, one, two), func(e *launcher.Evidence) { e.Lost = "panic: tocommit(90) is out of range [lastIndex(77)]" }),
			"halt: the log of member 1 on this disk has forgotten what the member acknowledged, as the leader knows: panic: tocommit(90) is out of range [lastIndex(77)]"},
		{"a log that can't be read, of a member that was replaced for it", with(listed(ran, two), func(e *launcher.Evidence) { e.Damaged, e.Spoiled, e.LetGo, e.Recorded = "crc mismatch", 1, true, 1 }),
			"clear: member 1 has left the ring, and its data can't be read"},
		{"a copy of the log of a member that lives on another machine", with(listed(log, one, two), func(e *launcher.Evidence) { e.WAL, e.Disk = &host.WAL{Member: 2, Cluster: ours, Last: 70}, "d9" }),
			"halt: the disk holds a log of member 2, which lives on disk d2 of machine m2, and this is disk d9 of m1: it is a copy. Remove the member first to have another take its place here, or empty this disk"},
		{"a copy of the log of this machine's own member, on another disk", with(listed(log, one, two), func(e *launcher.Evidence) { e.Disk = "d9" }),
			"halt: the disk holds a log of member 1, which lives on disk d1 of machine m1, and this is disk d9 of m1: it is a copy. Remove the member first to have another take its place here, or empty this disk"},
		{"the data of an etcd that somebody ran before, and no ring yet", with(log, func(e *launcher.Evidence) { e.Strange = true }),
			"halt: the disk holds the log of member 1 of ring c1, which another etcd has written, and no ring is bootstrapped here: nothing is started and nothing bootstrapped on it. To take that ring over see ringadm adopt; to give the disk to the ring of this store, move the directory etcd away"},
		{"a log on a disk that never said an etcd ran there, and no list", with(log, func(e *launcher.Evidence) { e.Strange, e.Identity, e.Why = true, bootstrapped, "no endpoint answered" }),
			"wait: the disk holds a log of member 1, and never said that one ran here: it may be a copy; where the member lives the list would tell, and it can't be read: no endpoint answered"},
		{"a log on a disk on which another member ran, and no list", with(log, func(e *launcher.Evidence) { e.Ran, e.Identity, e.Why = 9, bootstrapped, "no endpoint answered" }),
			"wait: the disk holds a log of member 1, and it was 9 that ran here: it may be a copy; where the member lives the list would tell, and it can't be read: no endpoint answered"},
		{"the log of a member that a ring began with before it had launchers, and no list", with(bare, func(e *launcher.Evidence) { e.WAL, e.Strange, e.Identity, e.Formed = began, true, static, true }),
			"start (resume): the disk holds the log of member c3f85856b3920fb2 up to 77"},
		{"the log of another such member, which was copied here, and no list", with(bare, func(e *launcher.Evidence) {
			e.WAL, e.Strange, e.Identity, e.Formed, e.Why = other, true, static, true, "no endpoint answered"
		}),
			"wait: the disk holds a log of member 6f75e25ffc68a71c, and never said that one ran here: it may be a copy; where the member lives the list would tell, and it can't be read: no endpoint answered"},
		{"no log, on the disk of a member that a ring began with before it had launchers", with(unlisted, func(e *launcher.Evidence) { e.Identity, e.Strange, e.Formed = static, true, true }),
			"wait: this disk is not among the initial members', and the member list can't be read: no endpoint answered"},
		{"a log of another ring, in a disk that was put in the wrong machine", with(listed(log, two), func(e *launcher.Evidence) { e.WAL = &host.WAL{Member: 1, Cluster: 0xbad, Last: 77} }),
			"halt: the disk holds the log of member 1 of ring bad, and this is ring c1: it may be the last copy of the other"},
		{"a log that can't be read", with(listed(ran, one), func(e *launcher.Evidence) { e.Damaged = "crc mismatch" }),
			"halt: the data on this disk can't be read: crc mismatch"},
		{"a log that can't be read, of a member that somebody else removed", with(listed(ran, two), func(e *launcher.Evidence) { e.Damaged, e.LetGo, e.Recorded = "crc mismatch", true, 1 }),
			"clear: the data on this disk can't be read, and every member of the ring lives on another"},
		{"a log that can't be read, and a ring of one answers", with(listed(ran, two), func(e *launcher.Evidence) { e.Damaged, e.Recorded = "crc mismatch", 1 }),
			"halt: the data on this disk can't be read: crc mismatch"},
		{"a log that can't be read, and the records are gone", with(listed(ran, ring.Member{ID: 1, Name: "m1", Machine: "m1"}, two), func(e *launcher.Evidence) { e.Damaged = "crc mismatch" }),
			"halt: the data on this disk can't be read: crc mismatch"},
		{"a learner bound to this disk, for the first time", listed(bare, bound, two),
			"start (existing): member 9 is bound to this disk and has never run"},
		{"a learner that nobody finds by its name yet", with(listed(bare, bound, two), func(e *launcher.Evidence) { e.Unnamed = "no such host" }),
			"wait: member 9 has never run, and its peers would not find it by name: no such host"},
		{"a log here, and nobody finds its member by name", with(listed(log, one, two), func(e *launcher.Evidence) { e.Unnamed = "no such host" }),
			"start (resume): the disk holds the log of member 1 up to 77"},
		{"a disk that was put back as it was before its member ever ran", listed(bare, further, two),
			"disown: member 1 ran on this disk up to 90, and nothing here tells of that: the disk was put back as it was before"},
		{"a member that ran here, and its log is gone", listed(ran, one, two),
			"disown: member 1 ran on this disk, and its log is gone"},
		{"a member that lives on another disk of this machine", with(listed(bare, one, two), func(e *launcher.Evidence) { e.Disk = "d9" }),
			"wait: member 1 lives on disk d1, and this is d9: it must be replaced"},
		{"a member that nobody bound", listed(bare, ring.Member{ID: 9, Machine: "m1", Learner: true}, two),
			"wait: member 9 is bound to no disk yet"},
		{"no member on this machine, and the log of the one that was here is gone", listed(ran, two),
			"disown: an etcd ran on this disk, its log is gone, and no member of the ring is on this machine"},
		{"no member on this machine", listed(bare, two),
			"wait: no member of the ring is on this machine"},
		{"nothing anywhere", unlisted,
			"wait: no ring has been bootstrapped yet"},
		{"an initial member, before the ring has answered", identity,
			"start (new): the bootstrap record names this disk, and no ring has answered yet"},
		{"an initial member that ran, and its log is gone before anybody could note that the ring has answered", with(identity, func(e *launcher.Evidence) { e.Launched = true }),
			"wait: an etcd ran on this disk, and its log is gone; whether its member may be replaced the member list would tell, and it can't be read: no endpoint answered"},
		{"an initial member's machine with another disk", with(identity, func(e *launcher.Evidence) { e.Disk = "d9" }),
			"wait: this disk is not among the initial members', and the member list can't be read: no endpoint answered"},
		{"an initial member's disk in another machine", with(identity, func(e *launcher.Evidence) { e.Machine = "m4" }),
			"wait: this disk is not among the initial members', and the member list can't be read: no endpoint answered"},
		{"an initial member with an empty disk, after the ring has answered: two of those would be a quorum of an empty ring", with(identity, func(e *launcher.Evidence) { e.Formed = true }),
			"wait: empty disk, and the member list can't be read: no endpoint answered"},
		{"an initial member that starts late, after the ring has answered and lost its quorum", with(identity, func(e *launcher.Evidence) { e.Formed, e.Strange = true, true }),
			"start (new): the bootstrap record names this disk, and no etcd ever ran on it; the member list can't be read: no endpoint answered"},
		{"an initial member that can't ask the store", with(identity, func(e *launcher.Evidence) { e.Unknown = "stale file handle" }),
			"wait: empty disk, unreadable member list (no endpoint answered), and the store can't tell whether a ring exists: stale file handle"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := launcher.Decide(c.e).String(); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestDecideNeverStartsWithoutEvidence tries every combination of evidence.
func TestDecideNeverStartsWithoutEvidence(t *testing.T) {
	n := 0
	every(func(e launcher.Evidence) {
		n++
		b := launcher.Decide(e)
		if wrong := breaks(e, b); wrong != "" {
			t.Fatalf("%s: %s\n%+v", b, wrong, e)
		}
	})
	t.Logf("%d combinations", n)
}

// every calls f with every combination of what a machine can find.
func every(f func(launcher.Evidence)) {
	logs := []*host.WAL{nil, own, {Member: 7, Cluster: ours}, began, {Member: 1, Cluster: 0xbad}, {Member: 1, Cluster: ours, Forced: 5}, {Member: 1, Cluster: ours, Left: true}}
	lists := [][]ring.Member{nil, {two}, {one, two}, {further, two}, {bound, two}, {{ID: 9, Machine: "m1"}, two}}
	identities := []*store.Identity{nil, bootstrapped, static}
	yes := []bool{false, true}
	for _, disk := range []string{"d1", "d9"} {
		for _, log := range logs {
			for _, damaged := range []string{"", "crc mismatch"} {
				for _, launched := range yes {
					for _, strange := range yes {
						for _, listed := range yes {
							for _, members := range lists {
								for _, identity := range identities {
									for _, formed := range yes {
										for _, unknown := range []string{"", "stale file handle"} {
											for i, letGo := range []bool{false, true, false, true} {
												f(launcher.Evidence{LetGo: letGo, Spoiled: ring.ID(i / 2), Ran: ring.ID(i % 3), Machine: "m1", Disk: disk, Launched: launched, Strange: strange, WAL: log, Damaged: damaged, Listed: listed,
													Why: "no quorum", Cluster: ours, Members: members, Identity: identity, Formed: formed, Unknown: unknown})
											}
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

// breaks says in plain words what each decision rests on, without the order in
// which Decide looks at it.
func breaks(e launcher.Evidence, b launcher.Boot) string {
	listedMember := func(is func(ring.Member) bool) bool { return e.Listed && slices.ContainsFunc(e.Members, is) }
	inList := listedMember(func(m ring.Member) bool { return e.WAL != nil && uint64(m.ID) == e.WAL.Member })
	boundHere := listedMember(func(m ring.Member) bool { return m.Machine == e.Machine && m.Disk == e.Disk })
	ranHere := listedMember(func(m ring.Member) bool { return m.Machine == e.Machine && m.Disk == e.Disk && m.Log > 0 })
	nobodyHere := e.Listed && !listedMember(func(m ring.Member) bool { return m.Machine == e.Machine })
	unbound := listedMember(func(m ring.Member) bool { return m.Disk == "" })
	mayBeHere := e.Damaged != "" && listedMember(func(m ring.Member) bool { return m.Machine == e.Machine && m.Disk == "" })
	named := e.Identity != nil && slices.ContainsFunc(e.Identity.Members, func(f store.InitialMember) bool { return f.Machine == e.Machine && f.Disk == e.Disk })
	switch {
	case b.Why == "":
		return "there is no reason"
	case e.Damaged != "" && b.Do != launcher.Halt && b.Do != launcher.Clear:
		return "the log can't be read, and it goes on"
	case e.Damaged != "" && b.Do == launcher.Clear:
		if boundHere || mayBeHere || !e.Listed || !e.LetGo || e.Spoiled == 0 && (e.Strange || unbound) {
			return "a log is set aside that can't be read and may be a member's"
		}
		return ""
	case b.Spoils != 0 && (b.Do != launcher.Halt || !boundHere && !mayBeHere):
		return "a member is to be replaced that lives elsewhere"
	case b.Do == launcher.Halt && e.Damaged != "" && b.Spoils == 0 && (boundHere || mayBeHere):
		return "a member stays whose log can't be read"
	case b.Do != launcher.Start && (b.State != "" || b.Cluster != nil || b.Token != ""):
		return "it does not start, and says how"
	case b.Do == launcher.Clear && (!e.Listed || e.WAL == nil || inList || e.WAL.Cluster != e.Cluster):
		return "a log is deleted that may be a member's"
	case b.Do == launcher.Clear && !e.LetGo && !e.WAL.Left:
		return "a log is deleted as a list lacks its member, and nobody let that go"
	case b.Do == launcher.Disown && (e.WAL != nil || !e.Launched && !ranHere || !boundHere && !nobodyHere):
		return "the disk has a log, or never had one, or is nobody's"
	case b.Do != launcher.Start:
		return ""
	case ranHere && b.State != launcher.Resume:
		return "a member begins anew whose log the ring knows"
	case e.WAL != nil && b.State != launcher.Resume:
		return "there is a log, and it is not resumed"
	case e.WAL != nil && listedMember(func(m ring.Member) bool {
		return uint64(m.ID) == e.WAL.Member && m.Disk != "" && (m.Disk != e.Disk || m.Machine != e.Machine)
	}):
		return "the member lives elsewhere"
	case e.WAL != nil && !e.Listed && e.Ran != 0 && uint64(e.Ran) != e.WAL.Member:
		return "the log may be a copy, as another member ran here"
	case b.Member == 0 || e.WAL != nil && uint64(b.Member) != e.WAL.Member:
		return "it starts, and doesn't say who"
	case e.WAL != nil && !e.Listed && e.Strange && !(e.WAL == began && e.Identity == static):
		return "the log may be a copy"
	case e.WAL != nil && e.Listed && (!inList || e.WAL.Cluster != e.Cluster):
		return "the member has left, or is another ring's"
	case e.WAL != nil && (e.WAL.Forced > 0 || listedMember(func(m ring.Member) bool { return uint64(m.ID) == e.WAL.Member && e.WAL.Last < m.Log })):
		return "the log has forgotten something"
	case b.State == launcher.Resume && e.WAL == nil:
		return "there is no log to resume"
	case b.State == launcher.New && (e.Listed || e.Formed && !e.Strange || e.Unknown != "" || !named || len(b.Cluster) != 3 || b.Token == ""):
		return "a new ring is begun where there may be one"
	case b.State == launcher.Existing && (!boundHere || e.Launched || len(b.Cluster) != len(e.Members)):
		return "it joins under an ID whose log is gone, or that is another disk's"
	}
	return ""
}

// TestDecideGoesByEvidenceAlone holds that what was not read can't matter: the
// fields of a list that was not read, and the store's where there is a list.
func TestDecideGoesByEvidenceAlone(t *testing.T) {
	var all []launcher.Evidence
	every(func(e launcher.Evidence) { all = append(all, e) })
	rapid.Check(t, func(t *rapid.T) {
		e, other := rapid.SampledFrom(all).Draw(t, "evidence"), rapid.SampledFrom(all).Draw(t, "other")
		same := e
		if e.Listed {
			same.Identity, same.Formed, same.Unknown = other.Identity, other.Formed, other.Unknown
		} else {
			same.Members, same.Cluster, same.LetGo, same.Recorded = other.Members, other.Cluster, other.LetGo, other.Recorded
		}
		if a, b := launcher.Decide(e), launcher.Decide(same); a.String() != b.String() {
			t.Fatalf("%s, and with other things unread %s", a, b)
		}
	})
}
