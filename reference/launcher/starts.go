// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"encoding/json"
	"strings"
	"time"
)

const (
	settled   = 10 * time.Second // who ran for so long has started
	up        = 2 * time.Second  // who has run for so long, and runs, can start
	unwell    = 4                // starts in a row that came to nothing, and the ring is told
	hopeless  = 12               // and a person is called
	longest   = 10 * time.Second // between two starts
	forgotten = time.Minute      // after its last start in vain a machine without a member is as good as any: nobody tries it else
)

// starts is what came of the starts of this machine's etcd. An etcd that ends at
// once would be started six times a second for as long as the agent lives.
type starts struct {
	at   time.Duration // of the last that this agent made, by the monotonic clock
	open bool          // it has not been seen to end
	vain int           // starts in a row that came to nothing
	why  string        // the last words of the one by which it was too many
	lost string        // by which raft knew that the log here ends before what it acknowledged; "": it didn't
}

// begun notes a start.
func (s *starts) begun(now time.Duration) { s.at, s.open = now, true }

// runs notes a look at an etcd that runs.
func (s *starts) runs(now time.Duration) {
	if now-s.at >= settled {
		s.vain, s.why = 0, ""
	}
}

// stopped notes that the etcd is ended on purpose.
func (s *starts) stopped() { s.open = false }

// ended notes that the last start came to nothing; words are what etcd said last.
// It reports whether that is news.
func (s *starts) ended(words string) (news bool) {
	if !s.open {
		return false
	}
	s.open = false
	if last := lastWords(words); strings.Contains(last, "is out of range [lastIndex(") {
		s.lost = last
	}
	if s.vain++; s.vain == unwell {
		s.why = lastWords(words)
		return true
	}
	return false
}

// wait is how long the next start must wait: two in a row need not, then twice as
// long each time.
func (s *starts) wait(now time.Duration) time.Duration {
	if s.vain < 3 {
		return 0
	}
	pause := min(longest, 150*time.Millisecond<<min(s.vain-2, 10))
	return max(0, pause-(now-s.at))
}

// failing is why no etcd can start on this machine; "" when one can, for all that is known. One
// that runs can: there was room on m1's disk again, its etcd served for four seconds, and stood
// still for two. m1 was to be vacated, and was taken for one on which none comes up.
func (s *starts) failing(now time.Duration) string {
	if now-s.at > forgotten || s.open && now-s.at >= up {
		return ""
	}
	return s.why
}

// lastWords is what etcd said last, without what differs from start to start.
func lastWords(output string) string {
	last := reason(output)
	var said struct{ Msg, Error string }
	if json.Unmarshal([]byte(last), &said) == nil && said.Msg != "" {
		last = strings.TrimSuffix(said.Msg+": "+said.Error, ": ")
	}
	if last == "" {
		return "it says nothing"
	}
	return last[:min(len(last), 200)]
}

// reason is the line that says why it ended: of a panic it stands before the stacks of all
// goroutines, and of a flag that it doesn't take before how it is called. Each of an earlier
// life is none.
func reason(output string) string {
	if at := strings.LastIndex(output, "\nUsage:\n"); at >= 0 && !strings.Contains(output[at:], "\n{\"level\"") {
		return lastLine(output[:at])
	}
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.TrimSpace(line)
		}
	}
	return lastLine(output)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndex(text, "\n")+1:])
}
