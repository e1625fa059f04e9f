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

	"github.com/ringproof/ringproof/reference/ring"
)

// slots are machines as a StatefulSet has them: there is one for each replica, the
// last goes first, and one whose volume is lost gets another in its place.
type slots struct {
	*world
	replicas int
}

const mostSlots = 9

// TestSlotsConverge edits the size of a ring in a StatefulSet and loses volumes at any
// moment, and wants its members in the first slots in the end, and no slot beside. The
// automation is told of a lost volume, and that the slots beyond the size are decommissioned.
func TestSlotsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSlots(t)
		story := s.drawStory(t, s.drawFault, s.run)
		for _, b := range s.boxes[:s.replicas] {
			b.up = b.up || !b.dead
		}
		s.elect()
		story = append(story, "healed: "+s.world.String())
		s.run(t, &story, 300)
		if left := s.unmet(); left != "" {
			t.Fatalf("%s\n%s", left, strings.Join(story, "\n"))
		}
	})
}

func drawSlots(t *rapid.T) *slots {
	size := rapid.SampledFrom([]int{3, 5, 7, 9}).Draw(t, "size")
	s := &slots{world: newWorld(ring.Spec{Version: rapid.SampledFrom(releases).Draw(t, "version"), ReplaceAfter: 10 * time.Second}), replicas: size}
	for i := range mostSlots {
		b := s.put(i + 1)
		if b.up = i < size; b.up {
			s.found(b, i+1)
		}
	}
	s.resize(size)
	s.elect()
	return s
}

// resize is an edit of the size: the slots beyond it are decommissioned.
func (s *slots) resize(size int) {
	s.spec.Nodes, s.spec.Decommission = size, nil
	for _, b := range s.boxes[size:] {
		s.spec.Decommission = append(s.spec.Decommission, b.name)
	}
}

// keep is what whoever hosts the slots does: there are as many as are asked for and
// as hold a member, and a lost volume is replaced once no member is left that lived
// on it. Where the list can't be read nothing is taken away.
func (s *slots) keep() {
	listed := s.observe().Listed
	needed := s.spec.Nodes
	for i, b := range s.boxes {
		switch {
		case s.at(b.name) != nil:
			needed = max(needed, i+1)
		case listed && b.dead && i < s.replicas:
			s.putInVolume(b)
		}
	}
	if !listed {
		needed = max(needed, s.replicas)
	}
	for i, b := range s.boxes {
		if joins := i >= s.replicas && i < needed; joins || i >= needed {
			b.up = joins && !b.dead
		}
	}
	s.replicas = needed
}

func (s *slots) run(t *rapid.T, story *[]string, seconds int) {
	for range seconds {
		s.keep()
		s.world.run(t, story, 1)
	}
}

// drawFault injects one fair fault into a slot, or edits the size, and names it.
func (s *slots) drawFault(t *rapid.T) string {
	b := rapid.SampledFrom(s.boxes[:s.replicas]).Draw(t, "slot")
	m := s.at(b.name)
	kind := rapid.SampledFrom([]string{"crash", "return", "delete-volume", "delete-under", "wipe", "size", "blackout", "new-observer"}).Draw(t, "fault")
	if !s.spares(m) && slices.Contains([]string{"crash", "delete-volume", "delete-under", "wipe"}, kind) {
		return ""
	}
	switch kind {
	case "crash":
		b.up = false
	case "return":
		b.up = !b.dead
	case "delete-volume":
		s.deleteVolume(b)
	case "delete-under":
		if m == nil || !s.runs(m) {
			return ""
		}
		s.deleteUnder(b, m)
	case "wipe":
		s.renew(b)
	case "size":
		s.resize(rapid.SampledFrom([]int{3, 5, 7, 9}).Draw(t, "size"))
		return fmt.Sprintf("size %d", s.spec.Nodes)
	case "blackout":
		s.blackout(rapid.IntRange(1, 9).Draw(t, "dark"))
		return kind
	case "new-observer":
		s.forget()
		return kind
	}
	s.elect()
	return kind + " " + b.name
}

func (s *slots) unmet() string {
	if left := s.world.unmet(); left != "" {
		return left
	}
	for _, b := range s.boxes[:s.spec.Nodes] {
		if s.at(b.name) == nil {
			return b.name + " has no member"
		}
	}
	if s.replicas != s.spec.Nodes {
		return fmt.Sprintf("%d slots are left of a ring of %d", s.replicas, s.spec.Nodes)
	}
	return ""
}
