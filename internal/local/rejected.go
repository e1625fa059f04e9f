// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
)

// rejected are the changes of the membership that etcds refused as unsafe, by what they
// logged of it (etcdserver's mayAddMember and mayRemoveMember).
func (w *World) rejected() (all []ringproof.Rejection) {
	for _, n := range w.nodes {
		text, err := os.ReadFile(w.Subject.Etcd().Output(n.run))
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			if r, at, ok := rejection(line); ok {
				r.Machine, r.At = n.name, ringproof.Instant(at.Sub(w.began))
				all = append(all, r)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b ringproof.Rejection) int { return cmp.Compare(a.At, b.At) })
	return all
}

// stamp is how etcd's log writes a time.
const stamp = "2006-01-02T15:04:05.999999Z0700"

// addedText is etcd's print of a member that was to be added.
var addedText = regexp.MustCompile(`ID:([0-9a-f]+)\b.*IsLearner:(true|false)`)

// rejection reads a line of etcd's log. etcd 3.5 calls the member of a removal by
// another name where the quorum is at stake than where too few have started.
func rejection(line []byte) (r ringproof.Rejection, at time.Time, ok bool) {
	if !bytes.Contains(line, []byte("rejecting member ")) {
		return r, at, false
	}
	var said struct {
		TS       string             `json:"ts"`
		Msg      string             `json:"msg"`
		Error    string             `json:"error"`
		Add      string             `json:"requested-member-add"`
		Remove   ringproof.MemberID `json:"requested-member-remove"`
		RemoveID ringproof.MemberID `json:"requested-member-remove-id"`
	}
	if json.Unmarshal(line, &said) != nil {
		return r, at, false
	}
	at, err := time.Parse(stamp, said.TS)
	if err != nil {
		return r, at, false
	}
	r.Why = cmp.Or(said.Error, said.Msg)
	if r.Member = cmp.Or(said.Remove, said.RemoveID); r.Member != 0 {
		r.Kind = "remove"
		return r, at, true
	}
	added := addedText.FindStringSubmatch(said.Add)
	if added == nil || r.Member.UnmarshalText([]byte(added[1])) != nil {
		return r, at, false
	}
	r.Kind = map[string]string{"true": "add-learner", "false": "add-voter"}[added[2]]
	return r, at, true
}
