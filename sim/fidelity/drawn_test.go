// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package fidelity_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof/sim/fidelity"
)

// TestDrawn: what nobody thought of writing down is answered alike, too.
func TestDrawn(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w virtualTime) {
		for name, draw := range map[string]func(*author, *rapid.T){"keys": (*author).keys, "members": (*author).members, "full": (*author).full} {
			t.Run(name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					a := &author{release: w.release}
					draw(a, t)
					text := a.played(t, w.release)
					if r := w.play(t, "drawn", text); !r.Agrees() {
						t.Fatalf("%s differs:\n%s%s%v\nfrom what the model plays:\n\n%s", w.name(), r.Skipped, r.Differs, r.Broken, text)
					}
				})
			})
		}
	})
}

// author writes a script.
type author struct {
	release string
	text    strings.Builder
	ring    []string
	leases  int
	watches []string
}

func (a *author) line(format string, args ...any) {
	fmt.Fprintf(&a.text, format+"\n----\n\n", args...)
}

// played is the script with what the model of a release prints.
func (a *author) played(t require.TestingT, release string) string {
	script, err := fidelity.Parse("drawn", a.text.String())
	require.NoError(t, err)
	text, err := script.Rewritten(fidelity.Simulated{Version: release}, release)
	require.NoError(t, err)
	return certain(text)
}

func one(t *rapid.T, label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }

// perhaps returns text in one of n draws, and "" else.
func perhaps(t *rapid.T, n int, text func() string) string {
	if rapid.IntRange(0, n-1).Draw(t, "perhaps") > 0 {
		return ""
	}
	return " " + text()
}

func word(text string) func() string { return func() string { return text } }

func number(t *rapid.T, name string, most int) func() string {
	return func() string { return fmt.Sprintf("%s=%d", name, rapid.IntRange(0, most).Draw(t, name)) }
}

func key(t *rapid.T) string { return one(t, "key", "a", "b", "c", "ab", "abc", "d") }

func keys(t *rapid.T) string {
	return one(t, "keys", "a", "b", "ab", "c", "a*", "ab*", "a..c", "b..", "b..a", "*", "d*", `""`)
}

func (a *author) put(t *rapid.T) string {
	value := one(t, "value", "v", "w", "x", "")
	text := "put " + key(t)
	if rapid.IntRange(0, 7).Draw(t, "ignores") == 0 {
		text += " ignore-value"
		value = one(t, "and a value", "", "", "", "v")
	}
	if value != "" {
		text += " " + value
	}
	text += perhaps(t, 4, word("prev")) + perhaps(t, 8, word("ignore-lease"))
	return text + perhaps(t, 4, func() string { return "lease=" + one(t, "lease", "L1", "L2", "L3") })
}

func (a *author) get(t *rapid.T) string {
	text := "get " + keys(t) + perhaps(t, 6, word("keys")) + perhaps(t, 6, word("count")) + perhaps(t, 6, word("serializable"))
	text += perhaps(t, 3, number(t, "rev", 16)) + perhaps(t, 4, number(t, "limit", 3))
	text += perhaps(t, 4, func() string {
		return "sort=" + one(t, "sort", "key", "version", "value", "create", "mod") + one(t, "down", "", ":down")
	})
	for _, name := range []string{"min-mod", "max-mod", "min-create", "max-create"} {
		text += perhaps(t, 10, number(t, name, 12))
	}
	return text
}

func (a *author) del(t *rapid.T) string { return "del " + keys(t) + perhaps(t, 3, word("prev")) }

func (a *author) compare(t *rapid.T) string {
	what := one(t, "compare", "value", "version", "create", "mod", "lease")
	with := one(t, "with", "=", "!=", "<", ">")
	than := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "than"))
	switch what {
	case "value":
		than = one(t, "than", "v", "w", "x")
	case "lease":
		than = one(t, "than", "none", "L1", "L2", "L3")
	}
	at := one(t, "of", "a", "b", "c", "ab", "a*", "a..c")
	return fmt.Sprintf("if %s %s %s %s", what, at, with, than)
}

// operation is one of a transaction. Before 3.7 a read at a revision that isn't there makes
// members differ (etcd#18667, transactions/one-member-refuses).
func (a *author) operation(t *rapid.T) string {
	text := rapid.SampledFrom([]func(*rapid.T) string{a.put, a.put, a.get, a.del}).Draw(t, "operation")(t)
	if len(a.ring) > 1 {
		text = atRevision.ReplaceAllString(text, "")
	}
	return text
}

var atRevision = regexp.MustCompile(` rev=\d+`)

func (a *author) txn(t *rapid.T, indent string, deep bool) string {
	var lines []string
	for range rapid.IntRange(0, 2).Draw(t, "compares") {
		lines = append(lines, a.compare(t))
	}
	for _, branch := range []string{"then", "else"} {
		for range rapid.IntRange(0, 3).Draw(t, branch) {
			if deep && rapid.IntRange(0, 5).Draw(t, "inside") == 0 {
				lines = append(lines, branch+" txn"+a.txn(t, "  ", false))
				continue
			}
			lines = append(lines, branch+" "+a.operation(t))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "\n" + indent + strings.Join(lines, "\n"+indent)
}

// keys draws what clients ask of a ring of one, or of its members.
func (a *author) keys(t *rapid.T) {
	a.ring = strings.Fields(one(t, "ring", "a", "a", "a b c"))
	a.line("ring %s", strings.Join(a.ring, " "))
	a.line("leader a")
	requests := []func(*rapid.T){a.write, a.write, a.write, a.read, a.transact, a.transact, a.lease, a.watch, a.upkeep, a.passes}
	for range rapid.IntRange(1, 25).Draw(t, "lines") {
		rapid.SampledFrom(requests).Draw(t, "line")(t)
	}
	a.line("elapse 10s") // what leases are short are over
	a.unwatch(true)
	a.line("get *")
}

// full draws what is asked of members some of which have no space left: they come back with
// a quota that even an empty database exceeds, and perhaps with a large one later. How much
// fits below any other hangs on when each wrote its file last.
func (a *author) full(t *rapid.T) {
	a.ring = strings.Fields(one(t, "ring", "a", "a", "a b c"))
	a.line("ring %s", strings.Join(a.ring, " "))
	a.line("leader a")
	requests := []func(*rapid.T){a.write, a.write, a.transact, a.lease}
	for range rapid.IntRange(0, 6).Draw(t, "lines before") {
		rapid.SampledFrom(requests).Draw(t, "line")(t)
	}
	requests = append(requests, a.read, a.upkeep, a.alarm, a.alarm)
	for range rapid.IntRange(1, 3).Draw(t, "quotas") {
		a.quota(t)
		for range rapid.IntRange(1, 10).Draw(t, "lines") {
			rapid.SampledFrom(requests).Draw(t, "line")(t)
			a.line("elapse 1s") // each whose file is full raises its alarm once it has applied a write
		}
	}
	a.line("alarms")
	a.line("get *")
}

// quota starts a member again with another.
func (a *author) quota(t *rapid.T) {
	member := one(t, "member", a.ring...)
	if strings.HasPrefix(a.release, "v3.5.") { // none starts while a downgrade is enabled
		a.line("downgrade cancel %s", strings.TrimPrefix(a.release, "v"))
	}
	a.line("elapse 1s") // it hears what is committed
	a.line("stop %s", member)
	a.line("start %s --quota-backend-bytes=%s", member, one(t, "quota", "8192", "8192", "20000000", "-1"))
	a.line("leader a")
	a.line("elapse 6s")
}

func (a *author) alarm(t *rapid.T) {
	if member := one(t, "member", a.ring...); rapid.IntRange(0, 3).Draw(t, "status") == 0 {
		a.line("status %s", member)
	} else {
		a.line("%s%s", one(t, "alarm", "alarms", "disarm", "disarm "+member), a.on(t))
	}
}

// on is the member that is asked; "": the first.
func (a *author) on(t *rapid.T) string {
	if len(a.ring) == 1 {
		return ""
	}
	return perhaps(t, 2, func() string { return "on=" + one(t, "on", a.ring...) })
}

func (a *author) write(t *rapid.T) {
	text := one(t, "write", "put", "put", "put", "del")
	if text == "put" {
		text = a.put(t)
	} else {
		text = a.del(t)
	}
	a.line("%s%s", text, a.on(t))
}

func (a *author) read(t *rapid.T) {
	if rapid.IntRange(0, 5).Draw(t, "hash") == 0 {
		a.line("hash%s", perhaps(t, 2, number(t, "rev", 14)))
		return
	}
	text := a.get(t)
	if strings.Contains(text, " serializable") {
		a.line("wait-applied")
	}
	a.line("%s%s", text, a.on(t))
}

// transact asks for a transaction. One that only reads, or does nothing, and reads what its
// member has, does so whatever the others know: it waits until all know the same.
func (a *author) transact(t *rapid.T) {
	text := a.txn(t, "", true)
	if !strings.Contains(text, "put ") && !strings.Contains(text, "del ") {
		a.line("wait-applied")
	}
	a.line("txn%s%s", a.on(t), text)
}

func (a *author) lease(t *rapid.T) {
	text := one(t, "of leases", "grant", "revoke", "ttl", "keep-alive", "leases")
	switch text {
	case "grant":
		if a.leases++; a.leases > 3 {
			return
		}
		text = fmt.Sprintf("grant L%d %d", a.leases, rapid.SampledFrom([]int{0, 1, 2, 500, 1000}).Draw(t, "ttl"))
	case "leases":
	default:
		text += " " + one(t, "lease", "L1", "L2", "L3")
	}
	a.line("%s%s", text, a.on(t))
}

func (a *author) watch(t *rapid.T) {
	if len(a.watches) == 2 {
		return
	}
	name := fmt.Sprintf("w%d", len(a.watches)+1)
	a.watches = append(a.watches, name)
	a.line("wait-applied") // else where it begins is chance
	a.line("watch %s %s%s%s%s%s%s", name, one(t, "watched", "a", "a*", "a..c", "b..", "*"), perhaps(t, 2, number(t, "rev", 14)),
		perhaps(t, 3, word("prev")), perhaps(t, 6, word("no-put")), perhaps(t, 6, word("no-delete")), a.on(t))
	a.line("elapse 1s") // etcd turns to those of the past ten times a second: a compaction may be first
}

// unwatch ends the watches, if asked after a look at what came.
func (a *author) unwatch(look bool) {
	for _, watch := range a.watches {
		if look {
			a.line("events %s 99 within=1s", watch)
		}
		a.line("unwatch %s", watch)
	}
	a.watches = nil
}

func (a *author) upkeep(t *rapid.T) {
	switch member := one(t, "member", a.ring...); rapid.IntRange(0, 7).Draw(t, "upkeep") {
	case 0:
		a.line("status %s", member)
	case 1:
		a.line("defrag %s", member)
	case 2:
		a.line("snapshot on=%s", member)
	case 3:
		a.line("%s on=%s", one(t, "list", "members", "alarms"), member)
	case 4:
		a.line("downgrade %s on=%s", one(t, "downgrade", "validate", "enable", "cancel")+perhaps(t, 1, func() string {
			return one(t, "target", "3.4.0", "3.5.0", "3.6.0", "3.7.0", "3.5", "3.6.2", "4.0.0", "x")
		}), member)
	default:
		a.line("compact %d%s on=%s", rapid.IntRange(0, 14).Draw(t, "compact"), perhaps(t, 2, word("physical")), member)
	}
}

// passes lets time pass, in which short leases end, and may restart a member.
func (a *author) passes(t *rapid.T) {
	a.line("elapse 10s")
	if rapid.Bool().Draw(t, "time") {
		return
	}
	a.unwatch(false) // clients differ in what they make of an end
	member := one(t, "restarted", a.ring...)
	a.line("%s %s", one(t, "ends", "stop", "kill"), member)
	a.line("start %s", member)
	a.line("leader a")
}

// members draws what is done to members, each time until all has settled: for five seconds
// etcd trusts no member that came back.
func (a *author) members(t *rapid.T) {
	cuts := rapid.IntRange(0, 2).Draw(t, "cuts") == 0
	ring := one(t, "ring", "a", "a b", "a b c", "a b c", "a b c d e")
	if cuts {
		a.line("needs partition")
		ring = "a b c"
	}
	learners := func() string { return "--max-learners=" + one(t, "learners", "1", "2", "3") }
	if strings.HasPrefix(a.release, "v3.5.") {
		learners = word("") // its name is another there
	}
	a.line("ring %s%s%s%s", ring, perhaps(t, 3, word("--snapshot-count=10 catch-up=2")), perhaps(t, 4, word("--strict-reconfig-check=false")), perhaps(t, 4, learners))
	a.line("leader a")
	a.line("elapse 6s")
	if rapid.Bool().Draw(t, "moves") { // later who leads is chance
		a.line("move-leader %s on=%s within=4s", who(t), who(t))
	}
	for range rapid.IntRange(2, 12).Draw(t, "lines") {
		most := 14
		if cuts {
			most = 17
		}
		a.line("%s within=12s", a.deed(t, rapid.IntRange(0, most).Draw(t, "line")))
		a.line("elapse 6s")
	}
	a.line("members serializable within=4s")
}

func who(t *rapid.T) string { return one(t, "who", "a", "b", "c", "d", "a", "b", "c") }

// asked is whom a request goes to; "": the first that runs.
func asked(t *rapid.T) string { return perhaps(t, 3, func() string { return "on=" + who(t) }) }

func (a *author) deed(t *rapid.T, n int) string {
	switch n {
	case 0:
		return "add " + who(t) + asked(t)
	case 1, 2:
		return "add-learner " + who(t) + asked(t)
	case 3:
		whom := who(t) // who removes itself may be gone before it answers
		return fmt.Sprintf("remove %s on=%s", whom, rapid.SampledFrom([]string{"a", "b", "c", "d"}).Filter(func(of string) bool { return of != whom }).Draw(t, "asked"))
	case 4:
		return "promote " + who(t) + asked(t)
	case 5:
		return one(t, "end", "stop ", "kill ") + who(t)
	case 6:
		return "wipe " + who(t)
	case 7, 8, 9:
		return "start " + who(t) + " ends=anyhow"
	case 10:
		return "put k v" + asked(t)
	case 11:
		return one(t, "read", "members", "get k") + perhaps(t, 2, word("serializable")) + asked(t)
	case 12:
		return fmt.Sprintf("update %s peer=http://%s.%s%s", who(t), who(t), one(t, "port", "peer", "second"), asked(t))
	case 13:
		return "puts k 25" + asked(t)
	case 14:
		return "compact 3" + perhaps(t, 2, word("physical")) + asked(t)
	case 15:
		return "cut " + one(t, "cut", "a", "b", "c")
	case 16:
		return "part " + one(t, "part", "a b", "b c", "a c")
	}
	return "join " + one(t, "join", "a", "b", "c")
}

// certain is the script up to a change that nobody answered, which may be made after all if
// the right one is elected, or to a member that waits for others, which ends a client's
// patience before its own. Where some are cut off it ends before: the member may have been
// removed, and have heard of it or not. One that has ended as it was removed, and is started
// again, ends again if its log tells it: not where the last snapshot came after that, and of
// two logs one is longer by an election. By that, too, it is decided whether who was away has nine
// tenths of the leader's log: etcd asks that before it asks whether there is a learner to promote.
func certain(text string) string {
	for _, at := range unready.FindAllStringSubmatchIndex(text, -1) {
		if away := regexp.MustCompile(`(?m)^(stop|kill|cut|part) (.* )?` + text[at[2]:at[3]] + `\b`); away.MatchString(text[:at[0]]) {
			text = text[:at[0]]
			break
		}
	}
	if strings.HasPrefix(text, "needs partition") && strings.Contains(text, "--snapshot-count") {
		ended := map[string]bool{}
		for _, at := range ends.FindAllStringSubmatchIndex(text, -1) {
			who := text[at[2]:at[3]]
			if ended[who] {
				text = text[:at[0]]
				break
			}
			ended[who] = true
		}
	}
	end := uncertain.FindStringIndex(text)
	switch {
	case end == nil:
		return text
	case strings.HasPrefix(text, "needs partition") && strings.HasPrefix(text[end[0]:], "start "):
		return text[:end[0]]
	}
	return text[:end[1]]
}

var unready = regexp.MustCompile(`(?m)^promote (\w+).*\n----\nerror: etcdserver: can only promote a learner member`)

var ends = regexp.MustCompile(`(?m)^start (\w+) .*\n----\n\w+ ends\n`)

var uncertain = regexp.MustCompile(`(?m)^(put|add|add-learner|remove|promote|update) .*\n----\nerror: context deadline exceeded\n|^start .*\n----\n\w+ doesn't serve\n`)

// TestCertain: what chance decides is left out.
func TestCertain(t *testing.T) {
	const partition, ring, few = "needs partition\n----\n\n", "ring a b c\n----\na, b and c serve; 3 voters\n\n", "ring a b c --snapshot-count=10\n----\na, b and c serve; 3 voters\n\n"
	const start, put, late, waits = "start a ends=anyhow\n----\na ends\n\n", "put k v\n----\nok; revision 2\n\n", "put k v\n----\nerror: context deadline exceeded\n", "start a ends=anyhow\n----\na doesn't serve\n"
	const stop, voter = "stop b within=12s\n----\nb stopped\n\n", "promote b within=12s\n----\nerror: etcdserver: can only promote a learner member\n\n"
	const behind = "promote b within=12s\n----\nerror: etcdserver: can only promote a learner member which is in sync with leader\n\n"
	for text, want := range map[string]string{
		ring + put + put:                             ring + put + put,
		ring + late + put:                            ring + late,
		ring + waits + put:                           ring + waits,
		partition + ring + waits + put:               partition + ring,
		few + start + start + put:                    few + start + start + put,
		partition + ring + start + start + put:       partition + ring + start + start + put,
		partition + few + start + put + start + put:  partition + few + start + put,
		partition + few + start + late + put + start: partition + few + start + late,
		ring + voter + put:                           ring + voter + put,
		ring + stop + put + voter + put:              ring + stop + put,
		ring + stop + put + behind + put:             ring + stop + put,
	} {
		require.Equal(t, want, certain(text))
	}
}
