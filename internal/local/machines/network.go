// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// addBridge makes the first free of 10.77.0.0/24, 10.77.1.0/24, …: a sandbox may hold several labs.
func addBridge() (*netlink.Bridge, netip.Prefix, error) {
	for n := range 256 {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = fmt.Sprintf("ringproof%d", n)
		b := &netlink.Bridge{LinkAttrs: attrs}
		err := netlink.LinkAdd(b)
		if errors.Is(err, syscall.EEXIST) {
			continue
		}
		if err != nil {
			return nil, netip.Prefix{}, fmt.Errorf("making a bridge: %w", err)
		}
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, byte(n), 0}), 24)
		return b, subnet, raiseLink(&netlink.Handle{}, b, subnet.Addr().Next())
	}
	return nil, netip.Prefix{}, errors.New("refused to make a bridge: 256 labs are open; close one")
}

func raiseLink(h *netlink.Handle, link netlink.Link, a netip.Addr) error {
	name := link.Attrs().Name
	net := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(24, 32)}
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: net}); err != nil {
		return fmt.Errorf("giving %s the address %v: %w", name, a, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("bringing %s up: %w", name, err)
	}
	return nil
}

// cable joins the machine, whose process 1 is pid, to the bridge. The hardware address is the same after
// each boot, as a real card's: the neighbours go on sending to it.
func (l *Lab) cable(m *Machine, pid int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = m.port(), l.bridge.Index
	a := m.addr.As4()
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsPid(pid),
		PeerHardwareAddr: net.HardwareAddr{2, 'r', 'p', a[1], a[2], a[3]},
	}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("plugging a cable into the bridge: %w", err)
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		return fmt.Errorf("bringing the bridge's port up: %w", err)
	}
	return dress(pid, m.addr)
}

// dress brings up the devices inside the machine.
func dress(pid int, a netip.Addr) error {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("finding the machine's network namespace: %w", err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("entering the machine's network namespace: %w", err)
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the machine's loopback device: %w", err)
	}
	eth, err := h.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("finding the machine's card: %w", err)
	}
	if err := h.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bringing the machine's loopback device up: %w", err)
	}
	return raiseLink(h, eth, a)
}

// port is the bridge's end of the cable.
func (m *Machine) port() string { return fmt.Sprintf("rp%d-%d", m.addr.As4()[2], m.addr.As4()[3]) }

// uncable removes it now: the kernel would, but some time after the namespace's last process.
func (l *Lab) uncable(m *Machine) {
	if link, err := netlink.LinkByName(m.port()); err == nil {
		_ = netlink.LinkDel(link)
	}
}

// inNetworkOf runs f on a thread in the network namespace of a process. The thread is not used again: the
// goroutine ends without unlocking it.
func inNetworkOf(pid int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.GetFromPid(pid)
		if err != nil {
			done <- fmt.Errorf("finding the machine's network namespace: %w", err)
			return
		}
		defer ns.Close()
		if err := netns.Set(ns); err != nil {
			done <- fmt.Errorf("entering the machine's network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// DialContext dials as a program on the machine would. A name is not looked up: give an address.
func (m *Machine) DialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("refused to dial from machine %s: %w; give an IP address and a port", m.name, err)
	}
	t, err := m.powered()
	if err != nil {
		return nil, err
	}
	if m.lab.limits != nil {
		from := net.TCPAddr{IP: m.addr.AsSlice()}
		return (&net.Dialer{LocalAddr: &from}).DialContext(ctx, network, address)
	}
	err = inNetworkOf(t.pid(), func() error {
		c, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}
