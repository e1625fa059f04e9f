// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ringproof/ringproof"
)

// Known is what a scenario may name and this package can't know by itself: the
// checks there are, and the subject's actions. No actions means any.
type Known struct {
	Checks  []Check
	Actions []string
	Writes  []string // actions of a controller, which are none of a ring's: "kube delete pod"
	Flags   []string // of etcd's, those that the subject sets itself; "initial-" stands for all that begin so
}

// sets reports whether the subject sets the flag itself.
func (k Known) sets(flag string) bool {
	return slices.ContainsFunc(k.Flags, func(own string) bool {
		return flag == own || strings.HasSuffix(own, "-") && strings.HasPrefix(flag, own)
	})
}

// Check is a check as a scenario names it.
type Check struct {
	Name   string
	Params map[string]ParamKind
	Modes  []ringproof.Mode // the modes in which it can judge; none: all

	needs func(ringproof.Plan) bool // what a plan must have for it to judge; nil: nothing
}

// ParamKind is how a check's parameter is written.
type ParamKind string

// The kinds of parameters.
const (
	ParamDuration ParamKind = "duration"
	ParamInteger  ParamKind = "integer"
	ParamText     ParamKind = "text"
)

// fits reports whether the value may be given.
func (k ParamKind) fits(value string) bool {
	switch k {
	case ParamDuration:
		_, _, ok := parseDuration(value)
		return ok
	case ParamInteger:
		_, err := strconv.Atoi(value)
		return err == nil
	}
	return value != ""
}

// Fits reports whether the check can judge runs of the mode.
func (c Check) Fits(mode ringproof.Mode) bool {
	return len(c.Modes) == 0 || slices.Contains(c.Modes, mode)
}

// Suits reports whether the check has something to judge in runs of the plan.
func (c Check) Suits(p ringproof.Plan) bool {
	return c.Fits(p.Mode) && (c.needs == nil || c.needs(p))
}

func (k Known) check(name string) (Check, bool) {
	i := slices.IndexFunc(k.Checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		return Check{}, false
	}
	return k.Checks[i], true
}

func (k Known) checkNames() []string {
	var names []string
	for _, c := range k.Checks {
		names = append(names, c.Name)
	}
	return names
}

// StandardChecks, among the invariants, stands for all checks that suit the
// plan: a scenario lists beside it only those that it gives parameters.
const StandardChecks = "standard"

// expanded is the plan's invariants with what stands for others written out.
func (k Known) expanded(p ringproof.Plan) []ringproof.Invariant {
	stands := func(i ringproof.Invariant) bool { return i.Check == StandardChecks }
	if len(p.Invariants) > 0 && !slices.ContainsFunc(p.Invariants, stands) {
		return p.Invariants
	}
	all := k.suiting(p)
	for _, own := range p.Invariants {
		i := slices.IndexFunc(all, func(i ringproof.Invariant) bool { return i.Check == own.Check })
		switch {
		case stands(own):
		case i < 0:
			all = append(all, own)
		default:
			all[i] = own
		}
	}
	return all
}

// suiting lists the checks that judge a run by default.
func (k Known) suiting(p ringproof.Plan) []ringproof.Invariant {
	var invariants []ringproof.Invariant
	for _, c := range k.Checks {
		if c.Suits(p) {
			invariants = append(invariants, ringproof.Invariant{Check: c.Name})
		}
	}
	return invariants
}

// Standard is what the harness ships: its checks and the reference's actions.
func Standard() Known {
	safe := []ringproof.Mode{ringproof.ModeSafe}
	return Known{
		Actions: []string{"bootstrap", "add-learner", "bind", "promote", "remove", "move-leader", "upgrade", "listen", "update", "advance-log", "launch", "restart", "clear", "disown"},
		Writes:  []string{"kube create pod", "kube create statefulset", "kube replace statefulset", "kube annotate statefulset", "kube delete pod", "kube evict pod", "kube delete persistentvolumeclaim"},
		Flags: []string{
			"name", "data-dir", "wal-dir", "config-file", "listen-peer-urls", "listen-client-urls", "listen-client-http-urls", "advertise-client-urls",
			"initial-", "discovery", "discovery-", "force-new-cluster", "strict-reconfig-check", "heartbeat-interval", "election-timeout", "snapshot-count",
			"logger", "log-", "enable-log-rotation", "client-cert-auth", "trusted-ca-file", "cert-file", "key-file", "client-cert-file", "client-key-file",
			"peer-", "auto-tls", "feature-gates", "experimental-initial-corrupt-check", "unsafe-no-fsync",
		},
		Checks: []Check{
			{Name: "linearizable", Params: map[string]ParamKind{"checkTimeout": ParamDuration, "checkOps": ParamInteger}},
			{Name: "acknowledged-writes-survive"},
			{Name: "watch"},
			{Name: "one-cluster-identity"},
			{Name: "quorum-margin", Params: map[string]ParamKind{"min": ParamInteger, "grace": ParamDuration}, Modes: safe},
			{Name: "one-change-at-a-time"},
			{Name: "learner-first"},
			{Name: "no-ghost-members", Modes: safe},
			{Name: "no-identity-reuse"},
			{Name: "revision-monotone"},
			{Name: "hash-equal", Modes: safe},
			{Name: "backup-whole", Modes: safe, needs: ringproof.Plan.BacksUp},
			{Name: "upkeep", needs: operated},
			{Name: "leases", Params: map[string]ParamKind{"overdue": ParamDuration}, Modes: safe, needs: leased},
			{Name: "no-panic", Modes: safe},
			{Name: "available", Params: map[string]ParamKind{"maxGap": ParamDuration, "realGap": ParamDuration}, Modes: safe},
			{Name: "converges", Params: map[string]ParamKind{"within": ParamDuration}, Modes: safe},
			{Name: "quiescent", Params: map[string]ParamKind{"atLeast": ParamDuration}, Modes: safe},
			{Name: "one-lead", Modes: safe},
			{Name: "upgrade-in-order", Params: map[string]ParamKind{"least": ParamInteger}, needs: ringproof.Plan.Upgrades},
			{Name: "restarts-in-turn", Params: map[string]ParamKind{"least": ParamInteger}, needs: ringproof.Plan.TakesTurns},
			{Name: "no-plaintext-peer", needs: ringproof.Plan.Encrypts},
			{Name: "status-honest", Params: map[string]ParamKind{"within": ParamDuration, "least": ParamInteger}, Modes: safe, needs: inPods},
			{Name: "no-doomed-claim", Modes: safe, needs: inPods},
			{Name: "work-bounded", Params: map[string]ParamKind{"changes": ParamInteger, "restarts": ParamInteger}, Modes: safe},
			{Name: "no-leftovers"},
			{Name: "leaves-nothing", needs: ends},
			{Name: "refusals", needs: asksTheUnsafe},
			{Name: "no-trespass", needs: tempts},
			{Name: "peers-trust-peers", Modes: safe, needs: encrypted},
			{Name: "clients-show-certificates", Modes: safe, needs: secured},
			{Name: "no-key-printed", needs: secured},
			{Name: "runs-as-asked", Modes: safe},
			{Name: "no-false-alarm", Modes: safe},
			{Name: "disaster", Modes: []ringproof.Mode{ringproof.ModeDisaster}},
			{Name: "halts", Modes: []ringproof.Mode{ringproof.ModeDisaster}},
		},
	}
}

// secured: its members show certificates.
func secured(p ringproof.Plan) bool { return p.Ring.Security == "tls" }

// inPods: an object of Kubernetes asks for it.
func inPods(p ringproof.Plan) bool { return p.Ring.On == ringproof.OnKubernetes }

// encrypted: they show them to each other too, in the end at least.
func encrypted(p ringproof.Plan) bool { return secured(p) && (p.Ring.Peers == "" || p.Encrypts()) }

// ends reports whether the ring is deleted in the end.
func ends(p ringproof.Plan) bool { return p.End != nil }

// operated: its clients ask members of themselves.
func operated(p ringproof.Plan) bool { return p.Workload.Profile == "operator" }

// leased reports whether clients of the plan put keys under leases.
func leased(p ringproof.Plan) bool { return p.Workload.Profile == "apiserver" }

// tempts reports whether a step puts before the subject what it must not change.
func tempts(p ringproof.Plan) bool {
	return slices.ContainsFunc(p.Steps, func(s ringproof.Step) bool {
		return s.Fault != nil && (s.Fault.Kind == ringproof.FaultWrongRing || s.Fault.Kind == ringproof.FaultDryRun)
	})
}

// asksTheUnsafe reports whether a step of the plan must be refused.
func asksTheUnsafe(p ringproof.Plan) bool {
	return slices.ContainsFunc(p.Steps, func(s ringproof.Step) bool { return s.Op != nil && s.Op.Refused })
}
