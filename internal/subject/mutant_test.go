// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringproof/ringproof/checks"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
	"github.com/ringproof/ringproof/scenarios"
)

const release ring.Version = "v3.6.10"

// voting is a ring of healthy voters on m1, m2, … and as many machines.
func voting(voters, machines int) ring.Observed {
	o := ring.Observed{Listed: true}
	for i := 1; i <= machines; i++ {
		name := fmt.Sprintf("m%d", i)
		m := ring.Machine{Name: name, PeerURL: "https://" + name, Disk: "disk" + name, Present: true, Versions: []ring.Version{release}}
		o.Machines = append(o.Machines, m)
		if i <= voters {
			o.Members = append(o.Members, ring.Member{ID: ring.ID(i), Name: name, Machine: name, Disk: m.Disk, PeerURL: m.PeerURL, Serving: true, Leader: i == 1})
		}
	}
	return o
}

// with changes the member of the machine; it enters as an entry that never
// started if there is none.
func with(o ring.Observed, machine int, change func(*ring.Member)) ring.Observed {
	name := fmt.Sprintf("m%d", machine)
	i := slices.IndexFunc(o.Members, func(m ring.Member) bool { return m.Machine == name })
	if i < 0 {
		i = len(o.Members)
		o.Members = append(o.Members, ring.Member{ID: ring.ID(machine), Machine: name, PeerURL: "https://" + name})
	}
	change(&o.Members[i])
	return o
}

func silent(d time.Duration) func(*ring.Member) {
	return func(m *ring.Member) { m.Serving, m.Silent = false, d }
}

func otherDiskIn(o ring.Observed, machine int) ring.Observed {
	o.Machines[machine-1].Disk = "another"
	return with(o, machine, silent(time.Second))
}

func goneFrom(o ring.Observed, machine int) ring.Observed {
	o.Machines[machine-1].Present, o.Machines[machine-1].Absent = false, time.Hour
	return with(o, machine, silent(time.Hour))
}

type moment struct {
	spec ring.Spec
	o    ring.Observed
}

// moments are situations of a ring. What a mutant decides in each that is not
// listed for it must be what the reference decides.
func moments() map[string]moment {
	spec := func(n int, decommission ...string) ring.Spec {
		return ring.Spec{Nodes: n, Version: release, Decommission: decommission, ReplaceAfter: time.Minute}
	}
	learner := func(m *ring.Member) { m.Learner = true }
	bound := func(m *ring.Member) { m.Learner, m.Disk = true, "diskm4" }
	ready := func(m *ring.Member) { m.Learner, m.Disk, m.Name, m.Serving, m.Ready = true, "diskm4", "m4", true, true }
	paused := spec(3)
	paused.Paused = true
	return map[string]moment{
		"steady":                {spec(3), voting(3, 3)},
		"unlisted":              {spec(3), ring.Observed{Why: "no leader"}},
		"paused":                {paused, with(voting(3, 3), 2, silent(time.Second))},
		"grow":                  {spec(5), voting(3, 5)},
		"unbound-learner":       {spec(5), with(voting(3, 5), 4, learner)},
		"unbound-voter":         {spec(5), with(voting(3, 5), 4, func(*ring.Member) {})},
		"bound-learner":         {spec(5), with(voting(3, 5), 4, bound)},
		"ready-learner":         {spec(5), with(voting(3, 5), 4, ready)},
		"last-learner":          {spec(4), with(voting(3, 5), 4, ready)},
		"decommission":          {spec(3, "m2"), voting(3, 4)},
		"decommission-and-grow": {spec(5, "m2"), voting(3, 5)},
		"two-lost":              {spec(5), otherDiskIn(otherDiskIn(voting(5, 5), 1), 2)},
		"decommission-joined":   {spec(3, "m2"), voting(4, 4)},
		"volume-lost":           {spec(3), otherDiskIn(voting(3, 3), 2)},
		"one-missing":           {spec(3), voting(2, 3)},
		"no-machine":            {spec(3), voting(2, 2)},
		"silent":                {spec(3), with(voting(3, 3), 2, silent(time.Second))},
		"gone":                  {spec(5), goneFrom(voting(6, 6), 2)},
		"shrink":                {spec(3), voting(5, 5)},
		"shrink-emptied":        {spec(3), otherDiskIn(voting(5, 5), 5)},
		"quorum-lost":           {spec(3), ring.Observed{Why: "no leader", Unread: time.Minute}},
		"leader-decommissioned": {spec(3, "m1"), voting(4, 4)},
		"decommission-catch-up": {spec(5, "m2"), with(voting(4, 5), 5, func(m *ring.Member) { m.Learner, m.Disk, m.Name, m.Serving = true, "diskm5", "m5", true })},
		"shrink-waited":         {spec(3), with(otherDiskIn(voting(5, 5), 5), 5, silent(time.Minute))},
	}
}

const (
	add5    = "ringadm member add m5 --peer-url https://m5 --disk diskm5"
	bind4   = "ringadm member bind 4 --machine m4 --disk diskm4"
	remove1 = "ringadm member remove 1"
	remove2 = "ringadm member remove 2"
	later   = "wait: the next look"
)

// otherwise is what each mutant decides otherwise, by its beginning.
var otherwise = map[string]map[string]string{
	"voter-first":              {"unbound-voter": bind4},
	"two-at-once":              {"bound-learner": add5, "ready-learner": add5, "unbound-voter": bind4},
	"remove-before-replace":    {"decommission": remove2},
	"wrong-victim":             {"two-lost": "ringadm member remove 3", "decommission-joined": remove1, "volume-lost": remove1, "gone": remove1, "shrink": remove1, "shrink-emptied": remove1, "shrink-waited": remove1},
	"unreachable-absent":       {"silent": remove2},
	"count-machines":           {"grow": "wait: steady", "decommission-and-grow": "wait: steady", "decommission": "wait: steady", "one-missing": "wait: steady"},
	"never-replaced":           {"two-lost": "wait: member m1 (1)", "volume-lost": "wait: member m2 (2) is expected", "shrink-emptied": "wait: member m5 (5)", "shrink-waited": "wait: member m5 (5)"},
	"orphan-learner":           {"unbound-learner": "wait: member m4 (4) was added and will start"},
	"trust-directory":          {"two-lost": "wait: voter m1", "volume-lost": "wait: voter m2 (2) does not", "shrink-emptied": "wait: voter m5", "shrink-waited": "wait: voter m5"},
	"start-old-id":             {"two-lost": "wait: voter m1", "volume-lost": "wait: voter m2 (2) does not", "shrink-emptied": "wait: voter m5", "shrink-waited": "wait: voter m5"},
	"ignores-retire":           {"decommission": "wait: steady", "decommission-joined": "ringadm member remove 4", "leader-decommissioned": "ringadm member remove 4"},
	"puts-off":                 {"decommission": later, "grow": later, "one-missing": later, "decommission-and-grow": later},
	"ignores-silence":          {"paused": "wait: voter m2 (2) does not"},
	"says-nothing":             {"quorum-lost": "halt: something is wrong"},
	"cries-wolf":               {"unlisted": "halt: no quorum of the ring has answered"},
	"replaces-with-voter":      {"unbound-voter": bind4},
	"removes-meanwhile":        {"decommission-catch-up": remove2},
	"no-hand-over":             {"leader-decommissioned": remove1},
	"kube-claim-before-shrink": {"shrink": "wait: the claim of m5 is to go first", "decommission-joined": "wait: the claim of m2 is to go first"},
	"kube-any-sick-stops-all": {"two-lost": "wait: member m1 (1) is not healthy", "silent": "wait: member m2 (2) is not healthy", "volume-lost": "wait: member m2 (2) is not healthy",
		"gone": "wait: member m2 (2) is not healthy", "shrink-waited": "wait: member m5 (5) is not healthy", "shrink-emptied": "wait: member m5 (5) is not healthy"},
	"shrink-by-wipe": {"shrink": "wait: the machines beyond", "shrink-emptied": "wait: the machines beyond"},
}

func brainOf(m Mutant, h host.Host) auto.Brain {
	s := seams([]layer{m.observed()})
	return s.Brain(s.Host(h), auto.Reference())
}

// mistakeOf is the name of the mutant whose mistake it is, where one on Kubernetes makes that of one
// on machines.
func mistakeOf(m Mutant) string {
	name, _ := strings.CutPrefix(m.Name, "kube-")
	if _, err := LookupMutant(name); err == nil {
		return name
	}
	return m.Name
}

func TestMutantsDecideOtherwiseWhereTheHazardIsAndNowhereElse(t *testing.T) {
	for _, m := range Mutants() {
		for name, at := range moments() {
			want := ring.Next(at.spec, at.o).String()
			if other, differs := otherwise[mistakeOf(m)][name]; differs {
				require.False(t, strings.HasPrefix(want, other), "%s: the reference itself decides %q at %s: the situation shows nothing", m.Name, want, name)
				want = other
			}
			got := brainOf(m, newHost()).Next(at.spec, at.o).String()
			assert.True(t, strings.HasPrefix(got, want), "%s at %s: want %q, got %q", m.Name, name, want, got)
		}
	}
}

func TestMutantsLeaveWhatTheySawAsItWas(t *testing.T) {
	for _, m := range Mutants() {
		for name, at := range moments() {
			brainOf(m, newHost()).Next(at.spec, at.o)
			assert.Equal(t, moments()[name].o, at.o, "%s changed the observation at %s", m.Name, name)
		}
	}
}

// TestMutantsSayOnceThatTheyWereReached: where a mutant decides as the reference
// does nothing was tried, and what it says a hundred times is heard once.
func TestMutantsSayOnceThatTheyWereReached(t *testing.T) {
	for _, m := range Mutants() {
		h, differs := newHost(), len(otherwise[m.Name]) > 0
		s := seams([]layer{m.observed()})
		on := s.Host(h)
		brain := s.Brain(on, auto.Reference())
		brain.Next(moments()["steady"].spec, moments()["steady"].o)
		if m.Name != everyAgentLeads.Name {
			assert.Empty(t, h.events(EventReached), "%s at rest", m.Name)
		}
		for range 2 {
			for name := range otherwise[m.Name] {
				brain.Next(moments()[name].spec, moments()[name].o)
			}
		}
		if said := h.events(EventReached); differs && assert.Len(t, said, 1, m.Name) {
			assert.Equal(t, m.Name, said[0].Text)
		}
	}
}

// starts are situations of a machine whose etcd is down: m1, with disk "new".
func starts() map[string]launcher.Evidence {
	identity := &store.Identity{Token: "ring-1", Epoch: 1}
	var members []ring.Member
	for _, name := range []string{"m1", "m2", "m3"} {
		identity.Members = append(identity.Members, store.InitialMember{Name: name, Machine: name, Disk: "old", PeerURL: "https://" + name})
		members = append(members, ring.Member{ID: ring.ID(len(members) + 1), Name: name, Machine: name, Disk: "old", PeerURL: "https://" + name})
	}
	evidence := func(disk string, wal, listed, formed bool) launcher.Evidence {
		e := launcher.Evidence{Machine: "m1", Disk: disk, Listed: listed, Identity: identity, Formed: formed, Why: "no leader"}
		if wal {
			e.WAL = &host.WAL{Member: 1, Cluster: 9, Last: 7}
		}
		if listed {
			e.Members = slices.Clone(members)
		}
		return e
	}
	joins := evidence("new", false, true, true)
	joins.Members[0] = ring.Member{ID: 9, Machine: "m1", Disk: "new", PeerURL: "https://m1", Learner: true}
	unbound := evidence("new", false, true, true)
	unbound.Members[0] = ring.Member{ID: 9, Machine: "m1", PeerURL: "https://m1", Learner: true}
	left := evidence("old", true, true, true)
	left.Members, left.LetGo, left.Recorded = left.Members[1:], true, 2
	spare := evidence("new", false, false, true)
	spare.Machine = "m4"
	ran := evidence("old", false, true, true)
	ran.Launched = true
	damaged := evidence("old", false, false, true)
	damaged.Damaged = "torn"
	return map[string]launcher.Evidence{
		"founds":         evidence("old", false, false, false),
		"founds-again":   evidence("new", false, false, false),
		"joins":          joins,
		"unbound":        unbound,
		"log-forming":    evidence("old", true, false, false),
		"left":           left,
		"spare":          spare,
		"ran":            ran,
		"damaged":        damaged,
		"log":            evidence("old", true, true, true),
		"log-unlisted":   evidence("old", true, false, true),
		"empty":          evidence("new", false, true, true),
		"empty-unlisted": evidence("new", false, false, true),
	}
}

const (
	resurrects = "start existing m1=https://m1,m2=https://m2,m3=https://m3 "
	begins     = "start new m1=https://m1 ring-1"
	refounds   = "start new m1=https://m1,m2=https://m2,m3=https://m3 ring-1"
)

func TestMutantsStartOtherwiseWhereTheHazardIsAndNowhereElse(t *testing.T) {
	otherwise := map[string]map[string]string{
		"start-old-id":          {"empty": resurrects, "ran": resurrects},
		"wipe-on-unknown":       {"log-unlisted": "clear   ", "log-forming": "clear   "},
		"state-new":             {"empty-unlisted": refounds, "founds-again": refounds},
		"found-again":           {"empty-unlisted": refounds + "-again", "founds-again": refounds + "-again"},
		"kube-first-boot-stale": {"founds": "wait   "},
		"kube-seed-stays-new":   {"empty": begins, "empty-unlisted": begins, "founds-again": begins, "unbound": begins, "joins": begins},
	}
	leftovers := map[string]map[string]string{
		"trust-directory": {"empty": resurrects, "empty-unlisted": resurrects, "ran": resurrects},
	}
	for _, m := range Mutants() {
		h := newHost()
		compareStarts(t, m, h, otherwise[mistakeOf(m)])
		h.disk.files[launcher.DataDir] = ""
		differs := leftovers[m.Name]
		if differs == nil {
			differs = otherwise[mistakeOf(m)]
		}
		compareStarts(t, m, h, differs)
	}
}

func compareStarts(t *testing.T, m Mutant, h *fakeHost, otherwise map[string]string) {
	show := func(b launcher.Boot) string {
		return fmt.Sprintf("%s %s %s %s", b.Do, b.State, strings.Join(b.Cluster, ","), b.Token)
	}
	for name, e := range starts() {
		want := show(launcher.Decide(e))
		if other, differs := otherwise[name]; differs {
			require.NotEqual(t, other, want, "%s: the reference itself starts so at %s", m.Name, name)
			want = other
		}
		assert.Equal(t, want, show(brainOf(m, h).Boot(e)), "%s at %s", m.Name, name)
	}
}

func TestVoterFirstAddsAVoter(t *testing.T) {
	assert.False(t, addedBy(t, "voter-first", nil)[0].IsLearner)
	assert.True(t, addedBy(t, "two-at-once", nil)[0].IsLearner)
	assert.True(t, addedBy(t, "count-machines", nil)[0].IsLearner)
}

func TestTwoAtOnceAddsAVoterWhereEtcdHasNoRoomForALearner(t *testing.T) {
	added := addedBy(t, "two-at-once", rpctypes.ErrTooManyLearners)
	require.Len(t, added, 1)
	assert.False(t, added[0].IsLearner)
	assert.Empty(t, addedBy(t, "two-at-once", rpctypes.ErrUnhealthy), "another refusal stands")
}

type added []struct {
	IsLearner bool
	PeerURLs  []string
}

// addedBy returns what a mutant's request for a learner made.
func addedBy(t *testing.T, name string, refuses error) added {
	m, err := LookupMutant(name)
	require.NoError(t, err)
	h := newHost()
	h.etcd.refuses = refuses
	c, err := seams([]layer{m.layer()}).Host(h).Dial("https://m1", nil)
	require.NoError(t, err)
	_, err = c.MemberAddAsLearner(t.Context(), []string{"https://m4"})
	require.Equal(t, err != nil, len(h.etcd.members) == 0)
	var all added
	for _, m := range h.etcd.members {
		all = append(all, struct {
			IsLearner bool
			PeerURLs  []string
		}{m.IsLearner, m.PeerURLs})
	}
	return all
}

func TestOrphanLearnerBindsInOneGoUnlessCutOff(t *testing.T) {
	for _, cut := range []bool{false, true} {
		h := newHost()
		r := &admin.Ring{Host: h}
		r.Use("https://m1")
		var asked []ring.Action
		b := auto.Reference()
		b.Do = func(_ context.Context, _ *admin.Ring, a ring.Action, _ admin.Fence) error {
			asked = append(asked, a)
			if a.Kind == ring.AddLearner {
				_, _ = h.etcd.add([]string{a.PeerURL}, true)
			}
			if cut {
				return context.DeadlineExceeded
			}
			return nil
		}
		b = orphanLearner.layer().brain(h, b)
		err := b.Do(t.Context(), r, ring.Action{Kind: ring.AddLearner, Machine: "m4", Disk: "d4", PeerURL: "https://m4"}, admin.Unfenced())
		if cut {
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Len(t, asked, 1)
			continue
		}
		require.NoError(t, err)
		require.Len(t, asked, 2)
		assert.Equal(t, ring.Action{Kind: ring.Bind, Member: 1, Machine: "m4", Disk: "d4", On: []ring.Role{{ID: 1, Learner: true}}}, asked[1])
		require.NoError(t, b.Do(t.Context(), r, ring.Action{Kind: ring.Remove, Member: 1}, admin.Unfenced()))
		assert.Len(t, asked, 3, "nothing but additions is followed by a binding")
	}
}

func TestSelfDestruct(t *testing.T) {
	for name, test := range map[string]struct {
		log, quorum bool
		killed      bool
	}{
		"a restart without a quorum":     {log: true, killed: true},
		"a restart in a ring":            {log: true, quorum: true},
		"a first start without a quorum": {},
	} {
		h := newHost()
		h.disk.wal, h.etcd.mute = test.log, !test.quorum
		on := selfDestruct.layer().host(h)
		c, err := on.Dial("https://m1", nil)
		require.NoError(t, err)
		ask := func() { _, _ = c.MemberList(t.Context()) }

		require.NoError(t, on.Process().Start(t.Context(), []string{"etcd"}))
		ask()
		require.NotNil(t, h.process.args, "%s: killed without patience", name)
		h.etcd.mute = true
		h.now = h.now.Add(quorumPatience)
		ask()
		assert.Equal(t, test.killed, h.process.args == nil, name)

		began := h.now
		require.NoError(t, on.Process().Start(t.Context(), []string{"etcd"}))
		assert.Equal(t, test.killed, h.now.Sub(began) == backOff, "%s: %s", name, h.now.Sub(began))
	}
}

func TestResetAllRestartsWhereAnyDiskIsNew(t *testing.T) {
	h, s := newHost(), fakeStore{}
	l := resetAll.layer()
	on := l.host(h)
	machines := func(name string) store.Log[store.Machine] {
		return store.Log[store.Machine]{Store: l.store(on, s), Prefix: auto.MachinesPrefix + "/" + name}
	}
	say := func(name string, after int, disk string) {
		_, err := machines(name).Append(t.Context(), after, store.Machine{Name: name, Address: "10.0.0.1", Disk: disk})
		require.NoError(t, err)
	}
	look := func() []string {
		h.now = h.now.Add(watchPace)
		args, err := on.Process().Running()
		require.NoError(t, err)
		return args
	}
	h.process.args = []string{"etcd"}
	say("m1", 0, "a")
	assert.NotNil(t, look())
	say("m2", 0, "b")
	assert.NotNil(t, look(), "a machine that is new has lost nothing")
	say("m2", 1, "c")
	began := h.now
	assert.Nil(t, look())
	assert.Nil(t, h.process.args)
	assert.Equal(t, podRestart+watchPace, h.now.Sub(began))
	h.process.args = []string{"etcd"}
	assert.NotNil(t, look(), "once for each disk")
}

func TestShrinkByWipeEmptiesWhatIsBeyondTheSize(t *testing.T) {
	for name, test := range map[string]struct {
		machine string
		sizes   []int
		wiped   bool
	}{
		"beyond":           {"m4", []int{5, 3}, true},
		"within":           {"m3", []int{5, 3}, false},
		"a grown ring":     {"m4", []int{3, 5}, false},
		"never in the way": {"m4", []int{3, 3}, false},
	} {
		h, s := newHost(), fakeStore{}
		l := shrinkByWipe.layer()
		on := l.host(h)
		decorated := l.store(on, s)
		h.process.args = []string{"etcd", "--name=" + test.machine}
		h.disk.files[launcher.DataDir] = "log"
		for i, n := range test.sizes {
			key := fmt.Sprintf("%s/%08d.json", auto.SpecPrefix, i+1)
			text, err := json.Marshal(store.Spec{Nodes: n})
			require.NoError(t, err)
			s[key] = string(text)
			_, err = decorated.Get(t.Context(), key)
			require.NoError(t, err)
			if i == 0 {
				args, err := on.Process().Running()
				require.NoError(t, err)
				assert.NotNil(t, args, "%s: wiped before the shrink", name)
			}
		}
		args, err := on.Process().Running()
		require.NoError(t, err)
		assert.Equal(t, test.wiped, args == nil, name)
		exists, _ := h.disk.Exists(launcher.DataDir)
		assert.Equal(t, test.wiped, !exists, name)
		assert.Equal(t, test.wiped, len(h.events(host.EventDiskReplaced)) == 1, name)
	}
}

func TestEveryMutantNamesACheckAndACell(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Mutants() {
		assert.False(t, seen[m.Name], "%s is there twice", m.Name)
		seen[m.Name] = true
		assert.NotEmpty(t, m.Hazard)
		assert.NotEmpty(t, m.Source)
		_, ok := checks.Lookup(m.Check)
		assert.True(t, ok, "%s: there is no check %s", m.Name, m.Check)
		_, err := scenarios.ParseCellName(m.Scenario)
		assert.NoError(t, err, m.Name)
	}
	for name := range otherwise {
		assert.True(t, seen[name], "the test knows %s, the list doesn't", name)
	}
}

func TestParse(t *testing.T) {
	for subject, names := range map[string][]string{
		"reference":                        nil,
		"reference+voter-first":            {"voter-first"},
		"reference+state-new+start-old-id": {"state-new", "start-old-id"},
	} {
		parsed, err := Parse(subject)
		require.NoError(t, err, subject)
		var got []string
		for _, m := range parsed {
			got = append(got, m.Name)
		}
		assert.Equal(t, names, got, subject)
	}
	for subject, hint := range map[string]string{
		"reference+voter-frist":             `did you mean "voter-first"`,
		"refrence":                          `did you mean "reference"`,
		"reference+":                        "it is one of voter-first, ",
		"reference+qqqqqqqq":                "it is one of voter-first, ",
		"reference+state-new+state-new":     "state-new is named twice",
		"voter-first":                       `subject "voter-first" refused`,
		"reference+voter-first+start-oldid": `did you mean "start-old-id"`,
	} {
		_, err := Parse(subject)
		assert.ErrorContains(t, err, hint, subject)
	}
}

func TestMainRefusesWhatItDoesNotKnow(t *testing.T) {
	assert.Equal(t, 2, Main([]string{"--mutant", "voter-frist", "--", "auto", "file:///nowhere"}))
	assert.Equal(t, 2, Main([]string{"--fault", "x"}))
	assert.Equal(t, 0, Main([]string{"--mutant", "voter-first", "--", "auto", "--help"}))
}

func TestFaultsHitWhatAMutantDoes(t *testing.T) {
	h := newHost()
	f := seam.Faults{}.With(cutAt("add-learner", seam.ReplyLost, 1))
	x := newInjector(func() (seam.Faults, error) { return f, nil }, seam.Counters{}, nil)
	s := seams(x.layers([]layer{orphanLearner.layer()}))
	var asked []ring.Kind
	b := auto.Reference()
	b.Do = func(_ context.Context, _ *admin.Ring, a ring.Action, _ admin.Fence) error {
		asked = append(asked, a.Kind)
		_, _ = h.etcd.add([]string{a.PeerURL}, true)
		return nil
	}
	b = s.Brain(s.Host(h), b)
	r := &admin.Ring{Host: h}
	r.Use("https://m1")
	err := b.Do(t.Context(), r, ring.Action{Kind: ring.AddLearner, PeerURL: "https://m4"}, admin.Unfenced())
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, []ring.Kind{ring.AddLearner}, asked, "the mutant's own second request came before the fault")
}
