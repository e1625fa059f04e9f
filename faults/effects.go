// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults

import (
	"regexp"
	"slices"
	"strings"
)

// Effect documents the names of one kind of side effect: a call by which a
// subject changes something outside of itself. NAME and PREFIX stand for what
// the subject calls its files and records.
type Effect struct {
	Form string `json:"form"`
	Doc  string `json:"doc"`
}

var effects = []Effect{
	{"write NAME", "a file on the machine's disk is replaced: write disk.json"},
	{"remove NAME", "a file or directory on the machine's disk is removed: remove etcd"},
	{"rename NAME", "a file or directory on the machine's disk is renamed: rename etcd"},
	{"start", "etcd is started"},
	{"stop", "etcd is stopped in order"},
	{"create PREFIX", "a record is created in the store; its number is no part of the name: create machines"},
	{"etcd member-add", "a member is added, as voter or learner"},
	{"etcd member-remove", "a member is removed"},
	{"etcd member-promote", "a learner is made a voter"},
	{"etcd member-update", "a member's peer URLs are changed"},
	{"etcd move-leader", "raft leadership is handed over"},
	{"etcd put", "a key is written"},
	{"etcd delete", "keys are deleted"},
	{"etcd txn", "a transaction that may write"},
	{"etcd compact", "history is compacted"},
	{"etcd grant", "a lease is granted"},
	{"etcd revoke", "a lease is revoked"},
	{"etcd keep-alive", "a lease is renewed"},
	{"etcd defragment", "a member's database is defragmented"},
	{"etcd alarm-disarm", "an alarm is taken back"},
	{"etcd downgrade", "a downgrade is begun or cancelled"},
	{"kube VERB KIND", "an object is written to the API server, as kubectl names its kind: kube create statefulset, kube delete pod; status is the verb for what an object's status says"},
}

// Effects lists every form of an effect's name.
func Effects() []Effect { return slices.Clone(effects) }

// EffectForms lists the forms alone.
func EffectForms() []string {
	var forms []string
	for _, e := range effects {
		forms = append(forms, e.Form)
	}
	return forms
}

var named = regexp.MustCompile(`^((write|remove|rename|create) [A-Za-z0-9._/-]+|kube (create|update|patch|apply|delete|status) [a-z]+)$`)

// IsEffect reports whether the name has one of the forms.
func IsEffect(name string) bool {
	return named.MatchString(name) || slices.Contains(EffectForms(), name)
}

// Unseeable reports whether a cache hears of the effect, so that it may hear late.
func Unseeable(effect string) bool { return strings.HasPrefix(effect, "kube ") }

// Delayable reports whether the effect is a request, which may be on its way when whoever
// asked has given up. A lease is kept alive by a stream, whose end is its asker's.
func Delayable(effect string) bool {
	verb, _, _ := strings.Cut(effect, " ")
	return verb == "etcd" && effect != "etcd keep-alive" || verb == "kube" || verb == "create"
}
