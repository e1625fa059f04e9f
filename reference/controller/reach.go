// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
)

// resignAfter is how long a process hears no ring before another is to act. A node that is
// silent for 50 s is unknown to Kubernetes, and its pods are ready no more (kube-controller-
// manager's node-monitor-grace-period): those that are so after a minute are.
const resignAfter = time.Minute

// stands reports whether as many pods of the ring are ready as are a quorum of those who voted last,
// whatever is asked for by now: their etcds run and have their logs, so that it isn't lost. Whether they hear each other a pod that is ready
// doesn't say: it is asked for a read of its own (/readyz without linearizable_read).
func (s Seen) stands() bool {
	return s.Ring != nil && s.ready() >= ring.Quorum(cmp.Or(s.Voters, int(s.Ring.Spec.ClusterSize)))
}

// listen notes whether a ring was heard, and resigns once none is, and one has served all the
// while. A process on whose node the network of pods is cut holds its Lease of the API server,
// and can do nothing, where another could.
func (r *Reconciler) listen(x *automation, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, deaf := r.Host.Monotonic(), o.unheard()
	if o.blind && o.seen.View == nil {
		return // whether it would have been heard is not known
	}
	if o.seen.View != nil || o.answers {
		r.heard = now
	}
	if deaf && !x.deaf {
		x.deafened = now
	}
	x.deaf = deaf
	if deaf && r.Resign != nil && now-max(x.deafened, r.heard) >= resignAfter {
		r.Resign(fmt.Errorf("no ring could be read for %s, though the pods of one are ready: another controller may reach it", resignAfter))
	}
}

// unheard reports whether the ring stands and can't be read from here.
func (o outcome) unheard() bool {
	return o.seen.Identity != nil && o.seen.View == nil && !o.answers && o.seen.stands()
}

// unreached is a decision on a ring that can't be read: one that stands is not lost, whatever
// is heard of it here.
func (x *automation) unreached(d ring.Decision) ring.Decision {
	if x.observed.Listed || d.Halt == "" || !x.seen.stands() {
		return d
	}
	r := x.seen.Ring
	return ring.Decision{
		Halt: fmt.Sprintf("no quorum of the ring has answered here, and %d of its pods are ready by the last word of their nodes: unless those have just gone off, the network is cut, between its members or between them and this controller, and nothing is repaired until that is mended", x.seen.ready()),
		Commands: []string{fmt.Sprintf("kubectl -n %s get pods -o wide -l %s=%s", r.Namespace, kube.RingLabel, r.Name),
			fmt.Sprintf("kubectl -n %s get networkpolicies", r.Namespace)},
	}
}
