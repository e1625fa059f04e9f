// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"

	"github.com/ringproof/ringproof"
)

// Self is the check of findings about ringproof itself: a worker that died or
// hung, a run that can't be repeated.
const Self = "ringproof"

// What differs between two runs of one bug: whom it hit, how often, and when.
var particular = []struct {
	what *regexp.Regexp
	word string
}{
	{regexp.MustCompile(`"[^"]*"`), `""`},
	{regexp.MustCompile(`([0-9a-f]) \([mc][0-9]{1,5}[a-z0-9.-]*\)`), "$1"}, // where a member lives
	{regexp.MustCompile(`\b[mc][0-9]{1,5}(?:\.[a-z][a-z0-9.-]*[a-z0-9])?\b`), "M"},
	{regexp.MustCompile(`\b(?:0x)?[0-9a-f]*[0-9][0-9a-f]{5,}\b|\b[0-9a-f]{6,}[0-9][0-9a-f]*\b|\b[0-9a-f]{12,}\b`), "ID"},
	{regexp.MustCompile(`-?[0-9][0-9.]*(?:ns|µs|ms|s|m|h)?(?:[0-9.]+(?:ns|µs|ms|s|m))*`), "N"},
}

// Class is the part of a finding's message that stays the same from run to
// run: its first clause, without names, numbers and times.
func Class(message string) string {
	if i := strings.IndexAny(message, ":;\n"); i > 0 {
		message = message[:i]
	}
	for _, p := range particular {
		message = p.what.ReplaceAllString(message, p.word)
	}
	return strings.Join(strings.Fields(message), " ")
}

// Key names a bug as far as it can be known: the check and the class of what
// it says. A shrinker that kept only the check would slip from one bug to
// another that the same check finds.
func Key(f ringproof.Finding) string {
	message := f.Message
	if f.Check == Self {
		message = strings.ReplaceAll(message, ":", ",") // what a worker died of stands behind a colon
	}
	h := fnv.New32a()
	h.Write([]byte(Class(message)))
	return fmt.Sprintf("%s-%08x", f.Check, h.Sum32())
}
