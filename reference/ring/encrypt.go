// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// encrypt has the peers of a running ring speak TLS that spoke plain text. What is next is
// told by the list, and by how each voter's etcd was started, so that whoever leads next
// goes on where the last was cut off:
//
//   - first each voter is restarted, to listen both ways;
//   - once all are seen to, the list gets the URL at which each takes TLS;
//   - once the list has no other, each voter is restarted, to listen with TLS alone.
//
// A member that closed the port at which it is listed would be heard no more by whom it
// doesn't dial itself: the last one takes the ring's quorum with it, and the list can't be
// changed after (kubermatic's "strict" phase, which goes by annotations).
func encrypt(spec Spec, o Observed) (Decision, bool) {
	if !spec.Encrypt {
		return pass()
	}
	voters := o.Voters()
	plain := where(voters, func(m Member) bool { return !m.Peers.Secure() || m.Peers == "" })
	listed := where(voters, Member.ListedPlain)
	both := where(voters, func(m Member) bool { return m.Peers == Mixed })
	if len(plain)+len(listed)+len(both) == 0 {
		return pass()
	}
	if d, decided := unheard(o); decided {
		return d, true
	}
	switch {
	case len(plain) > 0:
		return listen(o, plain, Mixed)
	case len(listed) > 0:
		return relist(listed)
	}
	return listen(o, both, TLS)
}

// ListedPlain reports whether others are told to speak plain text to the member.
func (m Member) ListedPlain() bool {
	return slices.ContainsFunc(strings.Split(m.PeerURL, ","), isPlain)
}

// unheard waits until what was begun has ended well, and every machine is here to go on.
func unheard(o Observed) (Decision, bool) {
	for _, m := range o.Voters() {
		machine, known := o.own(m)
		switch {
		case !known || !machine.Present:
			return wait("the machine of %s is not here to say how its etcd listens for peers", m)
		case m.Peers == "":
			return wait("how the etcd of %s listens for peers is not known", m)
		}
	}
	if d, waits := o.relistens(); waits {
		return d, true
	}
	return o.outOfStep()
}

// relistens waits for a voter that is to restart and listen another way, and hasn't for all
// that is known.
func (o Observed) relistens() (Decision, bool) {
	for _, m := range o.Voters() {
		if m.Listen != "" && m.Listen != m.Peers {
			return wait("%s is to restart and listen for peers as %s, and listens as %s", m, m.Listen, cmp.Or(m.Peers, "nobody knows"))
		}
	}
	return pass()
}

// listen has the next of some restarted, to listen another way: followers by name, then
// the leader, after it has handed over to one that does already.
func listen(o Observed, some []Member, way Security) (Decision, bool) {
	next := slices.MinFunc(some, byTurn)
	if next.Leader {
		done := func(m Member) bool { return m.Peers == way }
		if d, decided := handOverTo(o, done, next.String()+" is restarted last"); decided {
			return d, true
		}
	}
	why := "its peers are to be heard by TLS too"
	if way == TLS {
		why = "no member is listed with a URL for plain text"
	}
	return act(Action{Kind: Listen, Member: next.ID, Machine: next.Machine, Peers: way, Why: why})
}

// relist has the next of some listed at the URL at which it takes TLS, and at no other.
// Both at once need no step of their own: it listens for both, so that who goes by the
// list of before is heard as well; and a list with two URLs of a member is one that a
// joining etcd must be given both of, in each place, or it doesn't start
// (kubermatic#9369). No learner is in the ring then, whom etcd would make a voter of
// (etcd#21694), and nobody who compares the list that it was started with.
func relist(some []Member) (Decision, bool) {
	next := slices.MinFunc(some, byTurn)
	first, _, _ := strings.Cut(next.PeerURL, ",")
	return act(Action{Kind: Update, Member: next.ID, Machine: next.Machine, PeerURL: Encrypted(first), Why: "every voter takes TLS, and it is listed for plain text"})
}

// joinsAt is where a member that is added on the machine now is reached: by TLS, once
// that is so of any other. Then all who vote can dial it so, and it needs no second URL.
func (o Observed) joinsAt(x Machine) string {
	if slices.ContainsFunc(o.Members, func(m Member) bool { return !m.ListedPlain() }) {
		return Encrypted(x.PeerURL)
	}
	return x.PeerURL
}

// listens is how the record of a member that is bound says that it is to listen for peers:
// as it does, or, if it never ran, with TLS alone where others dial it so, else for both
// if the ring is to come to that. Where its machine's own way will do, it says nothing.
func (o Observed) listens(spec Spec, m Member) Security {
	machine, _ := o.machine(m.Machine)
	switch {
	case !isPlain(machine.PeerURL):
		return ""
	case m.Started():
		return m.Peers
	case !m.ListedPlain():
		return TLS
	case spec.Encrypt:
		return Mixed
	}
	return ""
}

// deaf halts on a voter that was restarted to listen another way and doesn't come up:
// nobody else is, and it is not replaced, as its log is whole.
func deaf(spec Spec, o Observed, quiet []Member) (Decision, bool) {
	for _, m := range quiet {
		machine, known := o.own(m)
		if !spec.Encrypt || !known || !machine.Present || !m.Started() || !o.restarts(m) {
			continue
		}
		why := machine.Failing
		if why == "" && m.Silent > 2*comeUp {
			why = "it does not answer"
		}
		if why != "" {
			before := Plain
			if m.Listen == TLS {
				before = Mixed
			}
			return Decision{Stuck: m.ID,
				Halt:     fmt.Sprintf("%s was restarted to listen for peers as %s and does not come up: %s; no other member is", m, m.Listen, why),
				Commands: []string{fmt.Sprintf("ringadm member listen %s --peers %s", m.ID, before), "ringadm spec STORE paused=true"},
			}, true
		}
	}
	return pass()
}

// restarts reports whether a member was told to listen another way, and was not heard to.
// Of one that was not heard at all that is so while it isn't so of all others.
func (o Observed) restarts(m Member) bool {
	others := where(o.Voters(), func(other Member) bool { return other.ID != m.ID && other.Peers != m.Listen })
	return m.Listen != "" && m.Listen != m.Peers && (m.Peers != "" || len(others) > 0)
}
