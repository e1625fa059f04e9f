// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package addons

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ringproof/ringproof/internal/lockstep"
)

// proxy has whoever connects to the address of a Service be connected to one of the pods
// behind it, as kube-proxy does: those that are ready, or, if none is, those that still
// serve while they end.
type proxy struct {
	slices   discoverylisters.EndpointSliceLister
	services corelisters.ServiceLister
	orders   *lockstep.Orders

	mu  sync.Mutex
	set map[netip.AddrPort]lockstep.Deed // what was ordered last
}

func newProxy(all informers.SharedInformerFactory, orders *lockstep.Orders) *proxy {
	return &proxy{slices: all.Discovery().V1().EndpointSlices().Lister(), services: all.Core().V1().Services().Lister(), orders: orders, set: map[netip.AddrPort]lockstep.Deed{}}
}

func (p *proxy) watch(all informers.SharedInformerFactory) error {
	look := func(any) {
		if err := p.look(); err != nil {
			complain("routing to Services", err)
		}
	}
	var errs []error
	for _, i := range []cache.SharedIndexInformer{all.Core().V1().Services().Informer(), all.Discovery().V1().EndpointSlices().Informer()} {
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, o any) { look(o) }, DeleteFunc: look})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// look orders what is another now than it was.
func (p *proxy) look() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted, err := p.wanted()
	if err != nil {
		return err
	}
	for _, at := range slices.SortedFunc(maps.Keys(p.set), netip.AddrPort.Compare) {
		if _, still := wanted[at]; !still {
			if err := p.orders.Do(lockstep.Deed{Do: lockstep.DoForget, At: at}); err != nil {
				return err
			}
			delete(p.set, at)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(wanted), netip.AddrPort.Compare) {
		next, last := wanted[at], p.set[at]
		if last.Do != "" && last.Port == next.Port && slices.Equal(last.Machines, next.Machines) {
			continue
		}
		if err := p.orders.Do(next); err != nil {
			return err
		}
		p.set[at] = next
	}
	return nil
}

// wanted is what is to be ordered, by the address of a Service and each of its ports.
func (p *proxy) wanted() (map[netip.AddrPort]lockstep.Deed, error) {
	all, err := p.services.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	wanted := map[netip.AddrPort]lockstep.Deed{}
	for _, s := range all {
		ip, err := netip.ParseAddr(s.Spec.ClusterIP)
		if err != nil {
			continue // it has none, or none yet
		}
		behind, err := p.slices.EndpointSlices(s.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: s.Name}))
		if err != nil {
			return nil, err
		}
		slices.SortFunc(behind, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
		for _, port := range s.Spec.Ports {
			at := netip.AddrPortFrom(ip, uint16(port.Port))
			wanted[at] = route(at, port, behind)
		}
	}
	return wanted, nil
}

// route is who is behind a port of a Service.
func route(at netip.AddrPort, of corev1.ServicePort, behind []*discoveryv1.EndpointSlice) lockstep.Deed {
	d := lockstep.Deed{Do: lockstep.DoServe, At: at}
	var ending []byte
	for _, s := range behind {
		for _, port := range s.Ports {
			if port.Name == nil || *port.Name != of.Name || port.Port == nil {
				continue
			}
			d.Port = uint16(*port.Port)
			for _, e := range s.Endpoints {
				switch c := e.Conditions; {
				case c.Ready == nil || *c.Ready:
					d.Machines = append(d.Machines, numbers(e)...)
				case c.Serving != nil && *c.Serving:
					ending = append(ending, numbers(e)...)
				}
			}
		}
	}
	if len(d.Machines) == 0 {
		d.Machines = ending
	}
	return d
}

// numbers are the numbers of an endpoint's machines in the world.
func numbers(e discoveryv1.Endpoint) (all []byte) {
	for _, a := range addressesOf(e) {
		if n := a.As4()[3]; a.Is4() && lockstep.Address(n) == a {
			all = append(all, n)
		}
	}
	return all
}
