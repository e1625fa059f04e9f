// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// Each agent reads the new size and empties its machine if its number is
// beyond it, as a StatefulSet does. The one that leads removes an entry only
// once it has been silent for a while: were it to remove healthy members as the
// reference does, it might be done before the agents have read the spec. At 5 to
// 3 both are gone while five are counted; from 7 to 3 the quorum is lost for
// good.
var shrinkByWipe = Mutant{
	Name:     "shrink-by-wipe",
	Hazard:   "On a shrink the machines beyond the new size are emptied before their members are removed.",
	Source:   "kubermatic etcd-launcher B3; etcdadm E4",
	Check:    "quorum-margin",
	Scenario: "shrink-5-to-3-leader-removed",
	layer: func() layer {
		o := &ordinals{}
		l := deciding(afterTheFact)
		l.host = func(h host.Host) host.Host {
			o.Process, o.host = h.Process(), h
			return machine{Host: h, process: o}
		}
		l.store = func(_ host.Host, s store.Store) store.Store { return specReader{s, o} }
		return l
	},
}

// removalPace is how long a member is silent before its entry is removed.
const removalPace = 3 * time.Second

// afterTheFact removes surplus members only once they are dead.
func afterTheFact(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
	d := inner(spec, o)
	if len(o.Voters()) <= spec.Nodes || len(spec.Decommission) > 0 || !is(d, ring.Remove) && !is(d, ring.MoveLeader) {
		return d
	}
	victim, in := memberOf(o, d.Action.Member)
	if is(d, ring.MoveLeader) || in && !victim.Learner && (victim.Serving || victim.Silent < removalPace) {
		return wait("the machines beyond the new size are not empty yet")
	}
	return d
}

// ordinals is a process whose machine is emptied when its number is beyond the
// size that is asked for.
type ordinals struct {
	host.Process
	host          host.Host
	key           string // of the newest spec that was read
	nodes, before int    // in that one, and in the one before it
}

func (o *ordinals) Running() ([]string, error) {
	args, err := o.Process.Running()
	if err != nil || !o.beyond(args) {
		return args, err
	}
	reached(o.host)
	if err := o.Stop(context.Background(), time.Second); err != nil {
		return args, err
	}
	d, err := launcher.Empty(o.host, "")
	if err == nil {
		o.host.Log(host.Line{Event: host.EventDiskReplaced, Text: "disk " + d.ID + " is new"})
	}
	return nil, err
}

var number = regexp.MustCompile(`[0-9]+$`)

func (o *ordinals) beyond(args []string) bool {
	for _, arg := range args {
		if name, is := strings.CutPrefix(arg, "--name="); is {
			n, err := strconv.Atoi(number.FindString(name))
			return err == nil && n > o.nodes && n <= o.before
		}
	}
	return false
}

// specReader overhears which size is asked for.
type specReader struct {
	store.Store
	ordinals *ordinals
}

func (s specReader) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := s.Store.Get(ctx, key)
	var spec store.Spec
	if o := s.ordinals; err == nil && strings.HasPrefix(key, auto.SpecPrefix+"/") && key > o.key && json.Unmarshal(value, &spec) == nil {
		o.key, o.nodes, o.before = key, spec.Nodes, o.nodes
	}
	return value, err
}
