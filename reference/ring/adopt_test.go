// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ringproof/ringproof/reference/ring"
)

// TestAdoptsUnderFaults gives launchers to a ring that began without, and injects faults,
// fairly. No machine is made anew while that may cost the quorum, and the leader's last;
// in the end every member has a launcher and a record, and all peers speak TLS.
func TestAdoptsUnderFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &adoption{encryption{drawStatic(t)}}
		story := a.drawStory(t, a.world.drawFault, a.run)
		a.heal()
		story = append(story, "healed: "+a.String())
		a.converge(t, &story, a.run)
		for _, m := range a.members {
			if b := a.box(m.machine); b.static || m.disk == "" || m.peers != ring.TLS || !strings.HasPrefix(m.url, "https:") {
				t.Fatalf("%s: without a launcher %t, on disk %q, listens as %s, listed at %s\n%s", m.machine, b.static, m.disk, m.peers, m.url, strings.Join(story, "\n"))
			}
		}
	})
}

type adoption struct{ encryption }

func drawStatic(t *rapid.T) *world {
	n := rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "voters")
	w := newWorld(ring.Spec{Nodes: n, Version: asked, Encrypt: true, ReplaceAfter: 10 * time.Second})
	w.plain, w.adopts = true, true
	for i := range n + rapid.IntRange(0, 3).Draw(t, "spares") {
		b := w.put(i + 1)
		if b.able = true; i < n {
			b.static = true
			w.found(b, i+1)
			w.members[i].disk = ""
		}
	}
	w.elect()
	return w
}

func (a *adoption) run(t *rapid.T, story *[]string, seconds int) {
	for range seconds {
		o := a.observe()
		d := ring.Next(a.spec, o)
		*story = append(*story, fmt.Sprintf("%3.0fs %-70s %s", a.now.Sub(a.begun).Seconds(), d, a))
		wrong := a.breaks(d)
		if d.Action != nil {
			_ = a.do(*d.Action)
		}
		a.restart(d.Due)
		a.pass(1)
		for _, m := range a.members {
			wrong += a.unheard(m)
		}
		if d.Halt != "" && !strings.Contains(d.Halt, "does not come up") {
			wrong = "it halts"
		}
		if wrong != "" {
			t.Fatalf("%s: %s\n%s", d, wrong, strings.Join(*story, "\n"))
		}
	}
}

// breaks says what is wrong with making a machine anew now.
func (a *adoption) breaks(d ring.Decision) string {
	m := a.member(d.Due)
	if m == nil || !a.runs(m) {
		return ""
	}
	static := func(m *entry) bool { return a.box(m.machine).static }
	switch others := a.count(func(x *entry) bool { return x != m && a.runs(x) }); {
	case others < len(a.voters())-1:
		return "another doesn't serve"
	case a.leader == m.id && len(a.voters()) > 1:
		return "it leads, and another could"
	case a.count(func(x *entry) bool { return !static(x) && x.disk == "" }) > 0:
		return "another has a launcher and no record"
	}
	return ""
}
