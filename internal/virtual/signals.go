// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/lockstep"
	"github.com/ringproof/ringproof/internal/virtual/kubelet"
)

// SignalPart signals a program of the control plane.
func (c *cluster) SignalPart(name string, sig syscall.Signal) (machines.Evidence, error) {
	all := append(c.controlPlane(), part{name: Names, machine: atNames})
	i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
	if i < 0 {
		return machines.Evidence{}, fmt.Errorf("the control plane has no %s", name)
	}
	c.mu.Lock()
	running := c.parts[name]
	c.mu.Unlock()
	if running == nil {
		return machines.Evidence{}, fmt.Errorf("no %s runs", name)
	}
	pid := running.Process.Pid
	return machines.Evidence{What: name, Detail: fmt.Sprintf("%s: pid %d", machines.Became(sig), pid)},
		c.orders.Do(lockstep.Deed{Do: lockstep.DoSignal, Machines: []byte{all[i].machine}, Signal: sig, Pids: []int{pid}})
}

// SignalPod signals the first process of each container of a pod, wherever it runs.
func (c *cluster) SignalPod(namespace, name string, sig syscall.Signal) (machines.Evidence, error) {
	c.lab.mu.Lock()
	nodes := maps.Clone(c.hosts)
	c.lab.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(nodes)) {
		n := &node{host: nodes[number], cluster: c}
		s, err := kubelet.Read(n.dir())
		if err != nil || !n.On() {
			continue
		}
		for _, p := range s.Pods {
			if p.Namespace != namespace || p.Name != name || len(p.Mains) == 0 {
				continue
			}
			pids := slices.Sorted(maps.Values(p.Mains))
			return machines.Evidence{What: fmt.Sprintf("pod %s/%s on node %s", namespace, name, n.name), Detail: fmt.Sprintf("%s: pids %v", machines.Became(sig), pids)},
				c.orders.Do(lockstep.Deed{Do: lockstep.DoSignal, Machines: []byte{p.Machine}, Signal: sig, Pids: pids})
		}
	}
	return machines.Evidence{}, fmt.Errorf("no container of pod %s/%s runs on any node", namespace, name)
}

// SignalKubelet signals the kubelet, and nothing that it started.
func (n *node) SignalKubelet(sig syscall.Signal) (machines.Evidence, error) {
	return n.SignalAny("that is a kubelet", sig, func(p machines.Process) bool { return p.Tag == kubeletTag && p.Leads })
}
