// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof/reference/ring"
)

// TestEncryptsUnderFaults asks for TLS among the peers, or has asked from the first, and
// injects fair faults. No step may be another's than the rules say; who runs listens
// where it is listed; none is restarted beside another; and in the end all have come to TLS.
func TestEncryptsUnderFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &encryption{drawPlain(t)}
		story := e.drawStory(t, e.drawFault, e.run)
		e.heal()
		e.spec.Encrypt = true
		story = append(story, "healed: "+e.String())
		e.converge(t, &story, e.run)
		for _, m := range e.members {
			if m.peers != ring.TLS || !strings.HasPrefix(m.url, "https:") {
				t.Fatalf("%s listens as %s and is listed at %s\n%s", m.machine, m.peers, m.url, strings.Join(story, "\n"))
			}
		}
	})
}

// encryption is a world in which somebody asks for TLS at some time.
type encryption struct{ *world }

func drawPlain(t *rapid.T) *world {
	n := rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "voters")
	w := newWorld(ring.Spec{Nodes: n, Version: asked, ReplaceAfter: 10 * time.Second})
	w.plain = true
	for i := range n + rapid.IntRange(0, 3).Draw(t, "spares") {
		b := w.put(i + 1)
		if b.able = true; i < n {
			w.found(b, i+1)
		}
	}
	w.elect()
	return w
}

func (e *encryption) drawFault(t *rapid.T) string {
	if e.spec.Encrypt || rapid.IntRange(0, 2).Draw(t, "asks") > 0 {
		return e.world.drawFault(t)
	}
	e.spec.Encrypt = true
	return "asked for TLS"
}

func (e *encryption) run(t *rapid.T, story *[]string, seconds int) {
	for range seconds {
		o := e.observe()
		d := ring.Next(e.spec, o)
		*story = append(*story, fmt.Sprintf("%3.0fs %-70s %s", e.now.Sub(e.begun).Seconds(), d, e))
		wrong := ""
		if d.Action != nil {
			wrong = breaks(e.spec, o, *d.Action)
			_ = e.do(*d.Action)
		}
		e.pass(1)
		for _, m := range e.members {
			wrong += e.unheard(m)
		}
		if stopped := e.count(func(m *entry) bool { return m.down }); stopped > 1 {
			wrong = fmt.Sprintf("%d voters are restarted at once", stopped)
		}
		if d.Halt != "" && !strings.Contains(d.Halt, "does not come up") {
			wrong = "it halts"
		}
		if wrong != "" {
			t.Fatalf("%s: %s\n%s", d, wrong, strings.Join(*story, "\n"))
		}
	}
}

// unheard says which member that runs can't be reached at the URL that it is listed with,
// or can't dial a voter there.
func (e *encryption) unheard(m *entry) string {
	encrypted := strings.HasPrefix(m.url, "https:")
	if e.runs(m) && (encrypted && m.peers == ring.Plain || !encrypted && m.peers == ring.TLS) {
		return fmt.Sprintf("%s is listed at %s, and listens as %s", m.machine, m.url, m.peers)
	}
	for _, other := range e.members {
		if encrypted && e.runs(other) && other.peers == ring.Plain {
			return fmt.Sprintf("%s is listed at %s, and %s can't dial it so", m.machine, m.url, other.machine)
		}
	}
	return ""
}

func TestURLsOfPeers(t *testing.T) {
	for _, x := range []struct {
		way         ring.Security
		begun, want string
	}{
		{ring.Plain, "http://10.0.0.1:2380", "http://10.0.0.1:2380"},
		{ring.Mixed, "http://10.0.0.1:2380", "http://10.0.0.1:2380,https://10.0.0.1:2381"},
		{ring.TLS, "http://[2001:db8::1]:2380", "https://[2001:db8::1]:2381"},
		{ring.TLS, "https://m1.example.org:2380", "https://m1.example.org:2380"},
	} {
		urls := x.way.PeerURLs(x.begun)
		assert.Equal(t, x.want, strings.Join(urls, ","))
		assert.Equal(t, x.way, ring.Listens(urls))
	}
	assert.True(t, ring.SameAddress("http://m1:2380,https://m1:2381", "https://m1:2381"))
	assert.False(t, ring.SameAddress("http://m1:2380", "http://m10:2380"))
	assert.False(t, ring.SameAddress("", ""), "nowhere is no address")
}
