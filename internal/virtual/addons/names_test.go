// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package addons

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// known are the names of a ring: of three pods behind a headless Service, of which one
// isn't ready, and one has no name of its own, and a Service with an address.
func known(t *testing.T) *names {
	slices, services := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	require.NoError(t, services.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}))
	require.NoError(t, services.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r-client"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7",
		Ports: []corev1.ServicePort{{Name: "etcd-client", Protocol: corev1.ProtocolTCP, Port: 2379}}}}))
	require.NoError(t, slices.Add(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r-x", Labels: map[string]string{discoveryv1.LabelServiceName: "r"}},
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("etcd-server"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](2380)}}, Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.17"}, Hostname: ptr.To("r-0"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}},
			{Addresses: []string{"10.0.0.33"}, Hostname: ptr.To("r-1"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
			{Addresses: []string{"10.0.0.34"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}},
		}}))
	return &names{slices: discoverylisters.NewEndpointSliceLister(slices), services: corelisters.NewServiceLister(services)}
}

func TestNames(t *testing.T) {
	n := known(t)
	for name, want := range map[string]string{
		"r-0.r.n.svc.cluster.local.":       "10.0.0.17",
		"r-1.r.n.svc.cluster.local.":       "", // it isn't ready, and the Service doesn't publish such pods
		"10-0-0-34.r.n.svc.cluster.local.": "10.0.0.34",
		"r-client.n.svc.cluster.local.":    "10.96.0.7",
		"r-0.r.other.svc.cluster.local":    "",
		"example.org.":                     "",
	} {
		of, found := n.find(name)
		assert.Equal(t, want != "", found, name)
		if want != "" {
			assert.Equal(t, []netip.Addr{netip.MustParseAddr(want)}, of.addresses, name)
		}
	}
	all, found := n.find("r.n.svc.cluster.local.")
	assert.True(t, found)
	assert.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.17"), netip.MustParseAddr("10.0.0.34")}, all.addresses)
	of, found := n.find("17.0.0.10.in-addr.arpa.")
	assert.True(t, found)
	assert.Equal(t, []string{"r-0.r.n.svc.cluster.local."}, of.pointers)
}

// What etcd's --discovery-srv asks for: the ports of a Service by their names.
func TestPorts(t *testing.T) {
	n := known(t)
	for name, want := range map[string][]port{
		"_etcd-server._tcp.r.n.svc.cluster.local.":        {{"r-0.r.n.svc.cluster.local.", 2380}, {"10-0-0-34.r.n.svc.cluster.local.", 2380}},
		"_etcd-client._tcp.r-client.n.svc.cluster.local.": {{"r-client.n.svc.cluster.local.", 2379}},
		"_etcd-server._udp.r.n.svc.cluster.local.":        nil,
		"_other._tcp.r-client.n.svc.cluster.local.":       nil,
	} {
		of, found := n.find(name)
		assert.Equal(t, want != nil, found, name)
		assert.Equal(t, want, of.ports, name)
	}
}

// Who connects to the address of a Service comes to a pod that is ready; where there is none,
// to one that still serves while it ends.
func TestRoute(t *testing.T) {
	at, of := netip.MustParseAddrPort("10.96.0.7:2379"), corev1.ServicePort{Name: "client", Port: 2379}
	endpoint := func(a string, ready, serving bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving}}
	}
	slice := func(all ...discoveryv1.Endpoint) []*discoveryv1.EndpointSlice {
		return []*discoveryv1.EndpointSlice{{Ports: []discoveryv1.EndpointPort{{Name: ptr.To("peer"), Port: ptr.To[int32](1)}, {Name: ptr.To("client"), Port: ptr.To[int32](4001)}}, Endpoints: all}}
	}
	ready, ends, not := endpoint("10.0.0.17", true, true), endpoint("10.0.0.33", false, true), endpoint("10.0.0.34", false, false)
	for want, behind := range map[string][]*discoveryv1.EndpointSlice{"[17] 4001": slice(ready, ends, not), "[33] 4001": slice(ends, not), "[] 4001": slice(not), "[] 0": nil} {
		d := route(at, of, behind)
		assert.Equal(t, want, fmt.Sprint(d.Machines, d.Port))
	}
}

// An answer has the question's number, and says that a name isn't there.
func TestAnswer(t *testing.T) {
	n := known(t)
	for name, want := range map[string]dnsmessage.RCode{"r-0.r.n.svc.cluster.local.": dnsmessage.RCodeSuccess, "r-9.r.n.svc.cluster.local.": dnsmessage.RCodeNameError} {
		asked := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
		question, err := asked.Pack()
		require.NoError(t, err)
		answer, err := n.answer(question)
		require.NoError(t, err)
		var said dnsmessage.Message
		require.NoError(t, said.Unpack(answer))
		assert.Equal(t, uint16(7), said.ID)
		assert.Equal(t, want, said.RCode, name)
		assert.Equal(t, want == dnsmessage.RCodeSuccess, len(said.Answers) == 1, name)
	}
}
