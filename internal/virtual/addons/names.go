// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package addons

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
)

const (
	zone = "cluster.local."
	ttl  = 30 // seconds, as CoreDNS of kubeadm says; nobody here keeps an answer
)

// names answers for the names of Services and of the pods behind headless ones, after
// https://github.com/kubernetes/dns/blob/master/docs/specification.md: whatever the API
// server's objects say when it is asked.
type names struct {
	slices   discoverylisters.EndpointSliceLister
	services corelisters.ServiceLister
}

func newNames(all informers.SharedInformerFactory) *names {
	n := &names{slices: all.Discovery().V1().EndpointSlices().Lister(), services: all.Core().V1().Services().Lister()}
	all.Discovery().V1().EndpointSlices().Informer()
	all.Core().V1().Services().Informer()
	return n
}

// serve answers, by TCP: nothing else passes the network of a world.
func (n *names) serve(ctx context.Context) error {
	l, err := net.Listen("tcp", ":53")
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		c, err := l.Accept()
		if err != nil {
			return ctx.Err()
		}
		go n.converse(c)
	}
}

// converse answers the questions of one connection.
func (n *names) converse(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, question); err != nil {
			return
		}
		answer, err := n.answer(question)
		if err != nil {
			complain("answering for a name", err)
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// answer is the message that answers another.
func (n *names) answer(question []byte) ([]byte, error) {
	var p dnsmessage.Parser
	head, err := p.Start(question)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	found, known := n.find(strings.ToLower(q.Name.String()))
	said := dnsmessage.Header{ID: head.ID, Response: true, Authoritative: true, RecursionDesired: head.RecursionDesired, RecursionAvailable: true}
	if !known {
		said.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, said)
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q); err != nil {
		return nil, err
	}
	if err := b.StartAnswers(); err != nil {
		return nil, err
	}
	of := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: ttl}
	switch q.Type {
	case dnsmessage.TypeA:
		for _, a := range found.addresses {
			if err := b.AResource(of, dnsmessage.AResource{A: a.As4()}); err != nil {
				return nil, err
			}
		}
	case dnsmessage.TypePTR:
		for _, name := range found.pointers {
			to, err := dnsmessage.NewName(name)
			if err != nil {
				return nil, err
			}
			if err := b.PTRResource(of, dnsmessage.PTRResource{PTR: to}); err != nil {
				return nil, err
			}
		}
	case dnsmessage.TypeSRV:
		for _, s := range found.ports {
			to, err := dnsmessage.NewName(s.host)
			if err != nil {
				return nil, err
			}
			if err := b.SRVResource(of, dnsmessage.SRVResource{Weight: uint16(100 / len(found.ports)), Port: s.port, Target: to}); err != nil {
				return nil, err
			}
		}
	}
	return b.Finish()
}

// found is what a name stands for.
type found struct {
	addresses []netip.Addr
	pointers  []string // the names of an address
	ports     []port   // where a service is to be had
}

// port is one of a host.
type port struct {
	host string
	port uint16
}

// find is what a name stands for; known: there is such a name.
func (n *names) find(name string) (f found, known bool) {
	if reversed, ok := strings.CutSuffix(name, ".in-addr.arpa."); ok {
		parts := strings.Split(reversed, ".")
		slices.Reverse(parts)
		a, err := netip.ParseAddr(strings.Join(parts, "."))
		if err != nil {
			return f, false
		}
		f.pointers = n.pointers(a)
		return f, len(f.pointers) > 0
	}
	rest, ok := strings.CutSuffix(name, ".svc."+zone)
	if !ok {
		return f, false
	}
	parts := strings.Split(rest, ".")
	switch len(parts) {
	case 2: // SERVICE.NAMESPACE
		return n.service(parts[1], parts[0])
	case 3: // HOST.SERVICE.NAMESPACE
		n.each(parts[2], parts[1], func(e discoveryv1.Endpoint, _ []discoveryv1.EndpointPort) {
			if hostOf(e) == parts[0] {
				f.addresses = append(f.addresses, addressesOf(e)...)
			}
		})
		return f, len(f.addresses) > 0
	case 4: // _PORT._PROTOCOL.SERVICE.NAMESPACE
		f.ports = n.ports(parts[3], parts[2], parts[0], parts[1])
		return f, len(f.ports) > 0
	}
	return f, false
}

// service is the address of a Service, or those of the pods behind a headless one.
func (n *names) service(namespace, name string) (f found, known bool) {
	s, err := n.services.Services(namespace).Get(name)
	if err != nil {
		return f, false
	}
	if s.Spec.ClusterIP != corev1.ClusterIPNone {
		a, err := netip.ParseAddr(s.Spec.ClusterIP)
		return found{addresses: []netip.Addr{a}}, err == nil
	}
	n.each(namespace, name, func(e discoveryv1.Endpoint, _ []discoveryv1.EndpointPort) {
		f.addresses = append(f.addresses, addressesOf(e)...)
	})
	return f, true
}

// ports is where a named port of a Service is to be had: at the Service, or at each pod
// behind a headless one.
func (n *names) ports(namespace, service, name, protocol string) (all []port) {
	s, err := n.services.Services(namespace).Get(service)
	if err != nil {
		return nil
	}
	below := "." + service + "." + namespace + ".svc." + zone
	is := func(of string, p corev1.Protocol) bool {
		return "_"+of == name && "_"+strings.ToLower(string(p)) == protocol
	}
	if s.Spec.ClusterIP != corev1.ClusterIPNone {
		for _, p := range s.Spec.Ports {
			if is(p.Name, p.Protocol) {
				all = append(all, port{below[1:], uint16(p.Port)})
			}
		}
		return all
	}
	n.each(namespace, service, func(e discoveryv1.Endpoint, ports []discoveryv1.EndpointPort) {
		for _, p := range ports {
			if p.Name != nil && p.Protocol != nil && p.Port != nil && is(*p.Name, *p.Protocol) {
				all = append(all, port{hostOf(e) + below, uint16(*p.Port)})
			}
		}
	})
	return all
}

// each does something with each endpoint of a Service that has names: those that are
// ready, or all where the Service publishes them all, which their condition says.
func (n *names) each(namespace, service string, do func(discoveryv1.Endpoint, []discoveryv1.EndpointPort)) {
	all, err := n.slices.EndpointSlices(namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}))
	if err != nil {
		return
	}
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range all {
		for _, e := range s.Endpoints {
			if named(e) {
				do(e, s.Ports)
			}
		}
	}
}

func named(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

func addressesOf(e discoveryv1.Endpoint) (all []netip.Addr) {
	for _, text := range e.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// hostOf is what an endpoint is called below its Service: by its address, where the pod has
// no name there.
func hostOf(e discoveryv1.Endpoint) string {
	if e.Hostname != nil && *e.Hostname != "" {
		return *e.Hostname
	}
	for _, a := range e.Addresses {
		return strings.ReplaceAll(a, ".", "-")
	}
	return ""
}

// pointers are the names of an address: of who is ready, as CoreDNS knows no others
// (EndpointSliceToEndpoints in coredns/plugin/kubernetes/object).
func (n *names) pointers(a netip.Addr) (all []string) {
	every, err := n.slices.List(labels.Everything())
	if err != nil {
		return nil
	}
	for _, s := range every {
		for _, e := range s.Endpoints {
			if named(e) && slices.Contains(addressesOf(e), a) {
				all = append(all, hostOf(e)+"."+s.Labels[discoveryv1.LabelServiceName]+"."+s.Namespace+".svc."+zone)
			}
		}
	}
	slices.Sort(all)
	return all
}
