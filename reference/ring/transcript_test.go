// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/ringproof/ringproof/reference/ring"
)

// TestTranscripts plays the stories in testdata. When a decision changes, run
// go test ./reference/ring -rewrite and read the diff: keep it only if you
// understand why each line changed.
//
// The language:
//
//	spec nodes=3 [decommission=(m2)] [paused] [replace-after=1m] [version=V] [encrypt]   what is asked for, from now on; another release is an upgrade
//	ring [plain]              the world, a machine a line; plain: its peers spoke plain text at first
//	  m1 voter leader           its member runs; words: voter, learner, leader, unbound, unstarted
//	  m4                        a machine without a member; unable: it has not the release; lacks=V, fails=V: it has not, or doesn't start, V; deaf=mixed: none starts there that listens for both
//	  ? voter                   a member on no machine of the ring
//	lose-disk, lose-machine, crash, return, mute, unmute MACHINE
//	ends MACHINE              its etcd ends at each start, with the words of the line below; without one, it starts again
//	alarm KIND [MACHINE]      one stands in etcd, of the machine's member or of none that it names; alarm: none does
//	keyspace mib=N            so much a new member is sent
//	lag MACHINE=N             its member is N entries behind
//	members-by-hand MACHINE   somebody joined an etcd there, bypassing everything
//	delete-volume MACHINE     its disk is lost, which is known, and it can't start without
//	delete-under MACHINE      the same, and its etcd runs on
//	put-in-volume MACHINE     it is back, with another disk
//	ghost-disk MACHINE        another disk is in it, and its etcd still runs from memory
//	unlisted [WHY...]         the list can't be read; without a reason, it can again
//	new-observer              another machine leads: it has seen nothing yet
//	next                      one decision, not carried out
//	play [steps=N] [seconds=N]   decide and carry out, until steady, or N actions, or N seconds
//	do                        one decision carried out, its author dying before it sees the reply
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld(ring.Spec{Version: "v3.6.16", ReplaceAfter: time.Minute})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return command(t, w, d)
		})
	})
}

func command(t *testing.T, w *world, d *datadriven.TestData) string {
	switch d.Cmd {
	case "spec":
		w.ask(parseSpec(t, d))
	case "ring":
		w.adopts = d.HasArg("static")
		w.plain = d.HasArg("plain") || w.adopts
		for line := range strings.Lines(d.Input) {
			w.line(t, strings.Fields(line))
		}
		w.elect()
	case "ends":
		w.ends(w.box(d.CmdArgs[0].Key), strings.TrimSpace(d.Input))
	case "alarm":
		w.alarm(d.CmdArgs)
	case "keyspace":
		w.bytes = int64(number(t, d, "mib")) << 20
	case "lag":
		for _, arg := range d.CmdArgs {
			w.at(arg.Key).lag = uint64(number(t, d, arg.Key))
		}
	case "unlisted":
		w.unlisted = words(d)
	case "new-observer":
		w.forget()
	case "next":
		return describe(ring.Next(w.spec, w.observe()))
	case "do":
		next := ring.Next(w.spec, w.observe())
		if next.Action == nil {
			t.Fatalf("%s: nothing to do: %s", d.Pos, next)
		}
		if err := w.do(*next.Action); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		return describe(next) + "\nnow " + w.String()
	case "play":
		steps, seconds := number(t, d, "steps"), number(t, d, "seconds")
		return w.play(steps, seconds)
	default:
		for _, arg := range d.CmdArgs {
			w.fault(t, d.Cmd, arg.Key)
		}
	}
	return w.String()
}

func (w *world) alarm(args []datadriven.CmdArg) {
	w.alarms = nil
	if len(args) == 0 {
		return
	}
	a := ring.Alarm{Kind: args[0].Key}
	if len(args) > 1 {
		a.Member = w.at(args[1].Key).id
	}
	w.alarms = []ring.Alarm{a}
}

func (w *world) fault(t *testing.T, what, machine string) {
	b := w.box(machine)
	if b == nil {
		t.Fatalf("there is no machine %q", machine)
	}
	switch what {
	case "lose-disk":
		w.renew(b)
	case "lose-machine":
		w.lose(machine)
	case "crash":
		b.up = false
	case "return":
		b.up = true
	case "mute":
		b.mute = true
	case "unmute":
		b.mute = false
	case "ending", "stays":
		b.ending = what == "ending"
	case "delete-volume":
		w.deleteVolume(b)
	case "delete-under":
		w.deleteUnder(b, w.at(machine))
	case "put-in-volume":
		w.putInVolume(b)
	case "members-by-hand":
		w.members = append(w.members, &entry{id: 0xbad, machine: machine, url: url(machine), name: machine, quiet: w.now})
		b.log = 0xbad
	case "ghost-disk":
		m := w.at(machine)
		w.renew(b)
		b.log, m.ghost = m.id, true
	default:
		t.Fatalf("no such command: %s", what)
	}
	w.elect()
}

func (w *world) line(t *testing.T, line []string) {
	name := line[0]
	has := func(word string) bool { return strings.Contains(" "+strings.Join(line, " ")+" ", " "+word+" ") }
	m := &entry{machine: name, url: w.url(name), name: name, learner: has("learner"), quiet: w.now}
	if name == "?" {
		m.machine, m.url, m.name, m.id = "", "https://stranger:2380", "stranger", 0xbad
	} else {
		n, err := strconv.Atoi(strings.TrimPrefix(name, "m"))
		if err != nil {
			t.Fatalf("a machine is called m1, m2, …: %q", name)
		}
		b := w.put(n)
		b.able, b.lacks, b.fails = !has("unable"), release(line, "lacks="), release(line, "fails=")
		b.deaf, m.peers, m.known = ring.Security(release(line, "deaf=")), w.begins(), w.begins()
		m.version, m.heard = w.spec.Version, w.spec.Version
		m.id, m.disk = ring.ID(n), b.disk
		b.static = has("static")
		if has("unbound") || b.static {
			m.disk = ""
		}
		if (has("voter") || has("learner")) && !has("unstarted") && !has("unbound") {
			b.log = m.id
		}
	}
	if has("unstarted") || has("unbound") {
		m.name = ""
	}
	if has("voter") || has("learner") {
		w.members = append(w.members, m)
		w.publish(m.version)
	}
	if has("leader") {
		w.leader = m.id
	}
}

// release returns the release that a word of the line names.
func release(line []string, prefix string) ring.Version {
	for _, word := range line {
		if v, ok := strings.CutPrefix(word, prefix); ok {
			return ring.Version(v)
		}
	}
	return ""
}

// ask is an edit of what is asked for: one of the release is an upgrade, unless it goes
// back to what was before, or nothing runs yet.
func (w *world) ask(spec ring.Spec) {
	before := w.spec
	spec.From = before.From
	switch {
	case len(w.members) == 0 || spec.Version == before.Version || spec.Version == before.From:
	case before.Version == before.From && spec.Version.Compare(before.Version) < 0:
		spec.From = spec.Version
	default:
		spec.From = before.Version
	}
	w.spec = spec
}

// play prints each decision once, with the time that has passed.
func (w *world) play(steps, seconds int) string {
	var out strings.Builder
	last, since, begun := "", w.now, w.now
	for seconds == 0 || w.now.Sub(begun) < time.Duration(seconds)*time.Second {
		d := ring.Next(w.spec, w.observe())
		if text := describe(d); text != last {
			fmt.Fprintf(&out, "%4.0fs  %s\n", w.now.Sub(begun).Seconds(), text)
			last, since = text, w.now
		}
		if d.Action != nil {
			if err := w.do(*d.Action); err != nil {
				fmt.Fprintf(&out, "       etcd refuses: %v\n", err)
			} else {
				last = ""
			}
			if steps--; steps == 0 {
				break
			}
		}
		w.restart(d.Due)
		w.pass(1)
		if (d.Wait == ring.Steady || d.Halt != "") && seconds == 0 {
			break
		}
		if seconds == 0 && w.now.Sub(since) > 5*time.Minute {
			fmt.Fprintf(&out, "       and so it stays\n")
			break
		}
	}
	return out.String() + "now " + w.String()
}

func describe(d ring.Decision) string {
	text := d.String()
	if d.Action != nil {
		text += "  # " + d.Action.Why
	}
	for _, c := range d.Commands {
		text += "\n       consider: " + c
	}
	return text
}

func parseSpec(t *testing.T, d *datadriven.TestData) ring.Spec {
	spec := ring.Spec{Version: "v3.6.16", ReplaceAfter: time.Minute, SnapshotCount: 500, Nodes: number(t, d, "nodes"), Paused: d.HasArg("paused"), Encrypt: d.HasArg("encrypt")}
	if arg, ok := d.Arg("decommission"); ok {
		spec.Decommission = arg.Vals
	}
	if arg, ok := d.Arg("restart"); ok {
		spec.Restart = map[string]string{}
		for _, machine := range arg.Vals {
			spec.Restart[machine] = "its pod is to be another"
		}
	}
	if arg, ok := d.Arg("version"); ok {
		spec.Version = ring.Version(arg.Vals[0])
	}
	if arg, ok := d.Arg("replace-after"); ok {
		after, err := time.ParseDuration(arg.Vals[0])
		if err != nil {
			t.Fatal(err)
		}
		spec.ReplaceAfter = after
	}
	return spec
}

func number(t *testing.T, d *datadriven.TestData, key string) int {
	arg, ok := d.Arg(key)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(arg.Vals[0])
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return n
}

func words(d *datadriven.TestData) string {
	var all []string
	for _, arg := range d.CmdArgs {
		all = append(all, arg.Key)
	}
	return strings.Join(all, " ")
}
