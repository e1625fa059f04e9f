// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

var void = map[string]bool{"meta": true, "input": true, "br": true, "link": true, "img": true, "hr": true}

// balanced walks the tags of a page and returns how many scripts it has.
func balanced(t *testing.T, text []byte) (scripts int) {
	t.Helper()
	var open []string
	tokens := html.NewTokenizer(bytes.NewReader(text))
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			require.True(t, errors.Is(tokens.Err(), io.EOF), "%v", tokens.Err())
			require.Empty(t, open, "elements left open")
			return scripts
		case html.StartTagToken:
			name, _ := tokens.TagName()
			if tag := string(name); !void[tag] {
				open = append(open, tag)
			}
			if string(name) == "script" {
				scripts++
			}
		case html.EndTagToken:
			name, _ := tokens.TagName()
			require.NotEmpty(t, open, "</%s> closes nothing", name)
			require.Equal(t, open[len(open)-1], string(name), "the end tag closes another element")
			open = open[:len(open)-1]
		}
	}
}

func TestPageIsBalanced(t *testing.T) {
	text, err := page(growReport())
	require.NoError(t, err)
	require.Equal(t, 4, balanced(t, text), "three timelines and the page's own script")
}

func TestPageOfNothing(t *testing.T) {
	text, err := page(Report{Error: "no etcd"})
	require.NoError(t, err)
	require.Equal(t, 1, balanced(t, text))
	require.Contains(t, string(text), "no etcd")
}

func TestPageTakesHostileTexts(t *testing.T) {
	text, err := page(hostileReport())
	require.NoError(t, err)
	require.Equal(t, 2, balanced(t, text), "no text of a run becomes a script")
	require.NotContains(t, string(text), "<script>alert")
	require.NotContains(t, string(text), `href="javascript:`)
	require.Contains(t, string(text), `href="cells/a%23b%3Fc.json"`)
}

func TestPageAsksForNothingElse(t *testing.T) {
	text, err := page(growReport())
	require.NoError(t, err)
	for _, forbidden := range []string{`src="`, "url(http", "@import", "<link", "fetch(", "style=\"", "onclick="} {
		require.NotContains(t, string(text), forbidden)
	}
	require.Equal(t, 2, strings.Count(string(text), "http"), "http-equiv, and the name of SVG")
}

func TestPageOfTwentyCellsStaysSmall(t *testing.T) {
	var r Report
	for i := range 20 {
		s := newStory("reference", uint64(i))
		s.create()
		s.step(5.0, 19.1, "grow")
		for n := range 400 {
			s.action(5+0.1*float64(n), 5.05+0.1*float64(n), fmt.Sprintf("act-%d", n), "m1", "ringadm member list")
		}
		r.Cells = append(r.Cells, CellOf(s.finish(60, 6000), nil))
	}
	text, err := page(r)
	require.NoError(t, err)
	require.Less(t, len(text), 5_000_000)
	t.Logf("%d bytes a cell", len(text)/20)
}

func TestEventsBeyondTheLimitAreCounted(t *testing.T) {
	s := newStory("reference", 1)
	for n := range 1500 {
		s.step(float64(n), float64(n), "again")
	}
	rows, omitted := eventRows(s.history.Events)
	require.Len(t, rows, mostEvents)
	require.Equal(t, 2000, omitted)
}

func TestTimelineOfTheReference(t *testing.T) {
	drawn := timelineOf(stalledStory("reference", 7), nil)
	require.Len(t, drawn.Lanes, 6)
	var m1 []string
	for _, s := range drawn.Lanes[0].Spans {
		m1 = append(m1, fmt.Sprintf("%.2f %s %t", s.From, s.Role, s.Leader))
	}
	require.Equal(t, []string{"0.25 spare false", "1.30 voter true", "5.70 voter false", "8.74 spare false",
		"9.44 learner false", "10.40 learner false", "12.40 voter false"}, m1, "changes stand at their events, not at the next look")
	require.Equal(t, []string{"volume-loss 5.60–10.40 serves again", "pause 24.02–27.00 healed"}, spanTexts(drawn.Faults))
	require.Equal(t, []string{"grow 5.00–19.10 done", "lose 5.40–5.62 done", "stall 24.00–27.15 done", "settle 30.00–33.20 done"}, spanTexts(drawn.Steps))
	var margins []int
	for _, m := range drawn.Margin {
		if m.Margin != nil {
			margins = append(margins, *m.Margin)
		}
	}
	require.Equal(t, []int{1, 0, 1, 2, 1, 2}, margins)
}

func spanTexts(spans []span) []string {
	var texts []string
	for _, s := range spans {
		texts = append(texts, fmt.Sprintf("%s %.2f–%.2f %s", s.Name, s.From, s.To, s.State))
	}
	return texts
}

func TestNaturalOrder(t *testing.T) {
	require.Negative(t, natural("m2", "m10"))
	require.Negative(t, natural("m10", "n1"))
	require.Zero(t, natural("m3", "m3"))
}
