// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// names gives what no two runs have in common a name that they have: a member
// ID becomes <a>, a URL http://a.peer, a cluster ID <ring1>.
type names struct {
	swaps   []swap // the longest first
	rings   map[uint64]bool
	members map[uint64]string // "a", or "a'" for the second member at the same URL
	ids     map[string]uint64 // of the members, by name
	current []uint64          // of the member list seen last
	leases  map[string]clientv3.LeaseID
}

type swap struct{ from, to string }

func newNames() *names {
	return &names{rings: map[uint64]bool{}, members: map[uint64]string{}, ids: map[string]uint64{}, leases: map[string]clientv3.LeaseID{}}
}

// swap replaces from by to in everything that is printed.
func (n *names) swap(from, to string) {
	s := swap{from, to}
	if slices.Contains(n.swaps, s) {
		return
	}
	n.swaps = append(n.swaps, s)
	slices.SortStableFunc(n.swaps, func(a, b swap) int { return cmp.Compare(len(b.from), len(a.from)) })
}

// number swaps an ID, which etcd prints in hexadecimal or in decimal.
func (n *names) number(id uint64, name string) {
	n.swap(fmt.Sprintf("%x", id), "<"+name+">")
	n.swap(fmt.Sprintf("%d", id), "<"+name+">")
}

// ring learns a cluster ID.
func (n *names) ring(id uint64) {
	if id != 0 && !n.rings[id] {
		n.rings[id] = true
		n.number(id, fmt.Sprintf("ring%d", len(n.rings)))
	}
}

// member learns a member from a member list, by the machine it is at. A
// machine that was a member before, under another ID, gets a mark.
func (n *names) member(m *etcdserverpb.Member, machineAt func(url string) string) {
	if _, known := n.members[m.ID]; known || len(m.PeerURLs) == 0 {
		return
	}
	name := machineAt(m.PeerURLs[0])
	for n.ids[name] != 0 {
		name += "'"
	}
	n.members[m.ID], n.ids[name] = name, m.ID
	n.number(m.ID, name)
}

// machine is where a member is, or was.
func (n *names) machine(id uint64) string { return strings.TrimRight(n.members[id], "'") }

// machinesOfRing are the machines of the member list seen last, sorted.
func (n *names) machinesOfRing() []string {
	var all []string
	for _, id := range n.current {
		all = append(all, n.machine(id))
	}
	slices.Sort(all)
	return all
}

// unequal is what may differ from run to run, and has no name: what a failed
// boot prints of the whole ring, how far a log went, and addresses of sockets.
var unequal = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\{ClusterID:.*\}`), "{...}"},
	{regexp.MustCompile(`, last resolver error .*`), ""},
	{regexp.MustCompile(`tocommit\(\d+\) is out of range \[lastIndex\(\d+\)\]`), "tocommit(N) is out of range [lastIndex(M)]"},
	{regexp.MustCompile(`(rpc error: code = Unavailable desc = |connection error: ).*`), "unavailable"},
}

func (n *names) tidy(text string) string {
	for _, u := range unequal {
		text = u.pattern.ReplaceAllString(text, u.instead)
	}
	for _, s := range n.swaps {
		text = strings.ReplaceAll(text, s.from, s.to)
	}
	return text
}

// list is "a, b and c".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// verb is "a serves" or "a and b serve".
func verb(words []string, one, many string) string {
	if len(words) == 1 {
		return list(words) + " " + one
	}
	return list(words) + " " + many
}
