// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring

import "fmt"

// Kind names a change of the ring.
type Kind string

// The changes. Each is one request to etcd, or one record beside it.
const (
	AddLearner Kind = "add-learner" // Machine, Disk, PeerURL
	Bind       Kind = "bind"        // Member may start on Disk of Machine, and nowhere else
	Promote    Kind = "promote"     // Member
	Remove     Kind = "remove"      // Member
	MoveLeader Kind = "move-leader" // to Member
	Upgrade    Kind = "upgrade"     // Member is to run Version from now on: its machine restarts it
	Listen     Kind = "listen"      // Member is to listen for Peers so from now on: its machine restarts it
	Update     Kind = "update"      // Member is at PeerURL from now on
	AdvanceLog Kind = "advance-log" // Entries that change nothing are added to the ring's log
)

// Action is one change. It prints as the ringadm command that does it by hand.
type Action struct {
	Kind    Kind
	Member  ID
	Machine string
	Disk    string
	PeerURL string
	Version Version  // upgrade, bind: what the member is to run; "": what its machine's was before
	Entries uint64   // advance-log: how many
	Peers   Security // listen, bind: how the member is to listen for its peers; "": as its machine did before
	// On is the membership that this was decided on: it is made in no other. nil: it
	// was decided on nothing, and is never made.
	On  []Role
	Why string
}

// String prints "ringadm member promote 8e9e05c52164694d".
func (a Action) String() string {
	switch a.Kind {
	case AddLearner:
		return fmt.Sprintf("ringadm member add %s --peer-url %s --disk %s", a.Machine, a.PeerURL, a.Disk)
	case Bind:
		text := fmt.Sprintf("ringadm member bind %s --machine %s --disk %s", a.Member, a.Machine, a.Disk)
		if a.Version != "" {
			text += " --version " + string(a.Version)
		}
		if a.Peers != "" {
			text += " --peers " + string(a.Peers)
		}
		return text
	case Upgrade:
		return fmt.Sprintf("ringadm member upgrade %s --version %s", a.Member, a.Version)
	case Listen:
		return fmt.Sprintf("ringadm member listen %s --peers %s", a.Member, a.Peers)
	case Update:
		return fmt.Sprintf("ringadm member update %s --peer-url %s", a.Member, a.PeerURL)
	case AdvanceLog:
		return fmt.Sprintf("ringadm advance-log --entries %d", a.Entries)
	default:
		return fmt.Sprintf("ringadm member %s %s", a.Kind, a.Member)
	}
}

// Decision is what Next comes to: exactly one of an Action, a Wait and a Halt.
type Decision struct {
	Action   *Action
	Wait     string   // why nothing is done now; "steady" when nothing is left to do
	Halt     string   // why only a person should go on
	Commands []string // what that person should consider
	Back     Version  // Halt: what to ask for again to have it over; "": nothing
	Stuck    ID       // Halt: the member that was restarted and doesn't come up; 0: none
	Due      ID       // Wait: the member whose machine is to restart it now as it is asked for; 0: none
}

// Steady is the Wait of a ring that is what was asked for.
const Steady = "steady"

// String prints the action's command, or "wait: …", or "halt: …".
func (d Decision) String() string {
	switch {
	case d.Action != nil:
		return d.Action.String()
	case d.Halt != "":
		return "halt: " + d.Halt
	default:
		return "wait: " + d.Wait
	}
}

func act(a Action) (Decision, bool) { return Decision{Action: &a}, true }

func wait(format string, args ...any) (Decision, bool) {
	return Decision{Wait: fmt.Sprintf(format, args...)}, true
}

func pass() (Decision, bool) { return Decision{}, false }
