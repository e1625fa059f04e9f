// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/ringproof/ringproof/reference/ring"
)

// Own is what one machine's etcd has for itself.
type Own struct {
	// Version is its release; "" is the ring's.
	Version ring.Version `json:"version,omitempty"`
	// Flags are given to it besides the ring's, or instead of those of the same
	// name.
	Flags map[string]string `json:"flags,omitempty"`
}

// VersionOf returns the release that the machine is to run.
func (s Spec) VersionOf(machine string) ring.Version {
	return cmp.Or(s.Machines[machine].Version, s.Version)
}

// Before returns the release that the machine is to run until it is its member's turn to
// be upgraded.
func (s Spec) Before(machine string) ring.Version {
	return cmp.Or(s.Machines[machine].Version, s.From, s.Version)
}

// Ask has the ring's release be another, or takes that back. It refuses what can't come
// about whatever the members run; what they run the automation knows.
func (s *Spec) Ask(version ring.Version) error {
	if err := checkVersion(version); err != nil || version == s.Version {
		return err
	}
	if version == s.From { // some of the members may have been upgraded, and stay so
		s.Version = version
		return nil
	}
	if s.Version == s.From && version.Compare(s.Version) < 0 && version.Beside(s.Version) {
		s.Version, s.From = version, version // what was taken back may never have come about, nor what was before
		return nil
	}
	if why := s.Version.Hop(version); why != "" {
		return fmt.Errorf("version %s refused: %s", version, why)
	}
	s.Version, s.From = version, s.Version
	return nil
}

// CheckOwn refuses a release that is asked for a machine alone and is of an older minor than
// the ring's, before: etcd ends at such a start, once all have come to the newer. What a
// machine keeps as the ring goes on is as it was.
func (s Spec) CheckOwn(before Spec) error {
	for _, machine := range slices.Sorted(maps.Keys(s.Machines)) {
		asked := s.Machines[machine].Version
		older := checkVersion(asked) == nil && asked.Minor() != before.Version.Minor() && asked.Compare(before.Version) < 0
		if !older || asked == before.Machines[machine].Version {
			continue
		}
		return fmt.Errorf("machine %s: version %s refused: it is of an older minor than %s, which the ring runs or goes to, and a member isn't taken back; take it out (%s.version=), or ask for one of that minor or the next", machine, asked, before.Version, machine)
	}
	return nil
}

func (s Spec) checkFrom() error {
	if s.From == "" {
		return nil
	}
	return cmp.Or(checkVersion(s.From), checkNeighbours(s.Version, s.From))
}

// FlagsOf returns the extra flags of the machine's etcd, "name=value", by name.
func (s Spec) FlagsOf(machine string) []string {
	all := maps.Clone(s.Flags)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, s.Machines[machine].Flags)
	var flags []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		flags = append(flags, name+"="+all[name])
	}
	return flags
}

// ownFlags are those that ringadm sets itself, or that would make another ring
// of this one; a name that ends in a dash stands for all that begin with it. Of
// two flags of one name etcd would take the last.
var ownFlags = []string{
	"name", "data-dir", "wal-dir", "config-file", "listen-peer-urls", "listen-client-urls", "listen-client-http-urls", "advertise-client-urls",
	"initial-", "discovery", "discovery-", "force-new-cluster", "strict-reconfig-check", "heartbeat-interval", "election-timeout", "snapshot-count",
	"logger", "log-", "enable-log-rotation", "client-cert-auth", "trusted-ca-file", "cert-file", "key-file", "client-cert-file", "client-key-file",
	"peer-", "auto-tls", "feature-gates", "experimental-initial-corrupt-check", "unsafe-no-fsync",
}

// OwnFlags lists the flags that ringadm sets itself, some as "initial-".
func OwnFlags() []string { return slices.Clone(ownFlags) }

// OwnsFlag reports whether ringadm sets the flag of etcd itself.
func OwnsFlag(name string) bool {
	return slices.ContainsFunc(ownFlags, func(own string) bool {
		return name == own || strings.HasSuffix(own, "-") && strings.HasPrefix(name, own)
	})
}

var flagPattern = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

func (s Spec) checkFlags() error {
	if err := checkFlags(s.Flags); err != nil {
		return err
	}
	for _, machine := range slices.Sorted(maps.Keys(s.Machines)) {
		own := s.Machines[machine]
		if err := checkName("machine", machine); err != nil {
			return err
		}
		if own.Version != "" {
			if err := cmp.Or(checkVersion(own.Version), checkNeighbours(s.Version, own.Version)); err != nil {
				return fmt.Errorf("machine %s: %w", machine, err)
			}
		}
		if err := checkFlags(own.Flags); err != nil {
			return fmt.Errorf("machine %s: %w", machine, err)
		}
	}
	return nil
}

// checkNeighbours refuses releases that etcd doesn't let into one ring.
func checkNeighbours(a, b ring.Version) error {
	if !a.Beside(b) {
		return fmt.Errorf("version %s beside %s refused: members may be no more than one minor apart", b, a)
	}
	return nil
}

func checkFlags(flags map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		switch {
		case !flagPattern.MatchString(name):
			return fmt.Errorf("flag %q refused: write an etcd flag without its dashes, such as quota-backend-bytes", name)
		case OwnsFlag(name):
			return fmt.Errorf("flag %s refused: ringadm sets it itself", name)
		case strings.ContainsAny(flags[name], "\x00\n"):
			return fmt.Errorf("flag %s refused: its value has a line break", name)
		}
	}
	return nil
}

// SetFlag gives the flag to the machine's etcd, or to all if machine is "". No
// value takes it away.
func (s *Spec) SetFlag(machine, name, value string) {
	if machine == "" {
		s.Flags = with(s.Flags, name, value)
		return
	}
	own := s.Machines[machine]
	own.Flags = with(own.Flags, name, value)
	s.give(machine, own)
}

// SetVersion gives the machine a release of its own; "" takes it away.
func (s *Spec) SetVersion(machine string, version ring.Version) {
	own := s.Machines[machine]
	own.Version = version
	s.give(machine, own)
}

func (s *Spec) give(machine string, own Own) {
	machines := maps.Clone(s.Machines)
	if machines == nil {
		machines = map[string]Own{}
	}
	machines[machine] = own
	if own.Version == "" && len(own.Flags) == 0 {
		delete(machines, machine)
	}
	s.Machines = machines
}

func with(flags map[string]string, name, value string) map[string]string {
	changed := maps.Clone(flags)
	if changed == nil {
		changed = map[string]string{}
	}
	changed[name] = value
	if value == "" {
		delete(changed, name)
	}
	return changed
}
