// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package explore

import "github.com/ringproof/ringproof"

// OnKubernetes has the ring of a drawn plan in pods. What harms the automation on machines
// harms it there: the lead's process is its controller, and the store that machines meet
// in is the API server.
func OnKubernetes(p ringproof.Plan) ringproof.Plan {
	return edit(p, func(p *ringproof.Plan) {
		p.Ring.On, p.Ring.Domain, p.Ring.SnapCount, p.Ring.Heartbeat, p.Ring.Election = ringproof.OnKubernetes, "", 0, 0, 0
		p.Ring.Flags, p.Ring.Members = nil, nil
		for i := range p.Steps {
			if f := p.Steps[i].Fault; f != nil {
				p.Steps[i].Fault = inPods(*f)
			}
		}
	})
}

// inPods is what a fault of machines is where the ring is in pods.
func inPods(f ringproof.Fault) *ringproof.Fault {
	switch {
	case f.Kind == ringproof.FaultKill && f.Scope == "agent":
		return &ringproof.Fault{Kind: ringproof.FaultKubeKill, Scope: "controller"}
	case f.Kind == ringproof.FaultPause && f.Scope == "agent":
		return &ringproof.Fault{Kind: ringproof.FaultKubePause, Scope: "controller", For: f.For}
	case f.Kind == ringproof.FaultStoreOutage:
		return &ringproof.Fault{Kind: ringproof.FaultAPIOutage, For: f.For}
	}
	return &f
}
