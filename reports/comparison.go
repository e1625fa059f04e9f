// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"maps"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// comparison is one plan run with several subjects.
type comparison struct {
	Name, World string
	Cells       []Cell
}

// comparisons finds the plans that ran with more than one subject, in the
// order of the report.
func (r Report) comparisons() []comparison {
	var order []string
	groups := map[string]*comparison{}
	for _, c := range r.Cells {
		if !c.ran() {
			continue
		}
		key := c.World + "\x00" + c.Name
		if groups[key] == nil {
			groups[key] = &comparison{Name: c.Name, World: c.World}
			order = append(order, key)
		}
		groups[key].Cells = append(groups[key].Cells, c)
	}
	var found []comparison
	for _, key := range order {
		if groups[key].subjects() > 1 {
			found = append(found, *groups[key])
		}
	}
	return found
}

func (g comparison) subjects() int {
	names := map[string]bool{}
	for _, c := range g.Cells {
		names[c.Subject] = true
	}
	return len(names)
}

// heads and row are the columns of a comparison.
func (g comparison) heads() []string {
	return []string{"subject", "verdict", "longest gap", "full strength", "others restarted", "leader changes", "no answer"}
}

func (g comparison) row(c Cell) []string {
	m := c.Measurements
	return []string{plain(c.Subject), c.Verdict.String(), secs(m.LongestGapSeconds), secs(m.FullStrengthSeconds),
		count(m.OthersRestarted), count(m.LeaderChanges), count(m.Failed + m.Unknown)}
}

// etcdText lists the etcd releases: "v3.5.35, v3.6.16".
func etcdText(t ringproof.Tools) string {
	return strings.Join(sortedNames(t.Etcd), ", ")
}

func sortedNames[V any](of map[string]V) []string {
	return slices.SortedFunc(maps.Keys(of), natural)
}
