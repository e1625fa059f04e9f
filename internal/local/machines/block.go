// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// block is one rule of a machine: drop what comes from an address, or what goes to it.
type block struct {
	addr netip.Addr
	to   bool
	of   Traffic
}

func (b block) String() string {
	if b.to {
		return fmt.Sprintf("%sto %v", b.of, b.addr)
	}
	return fmt.Sprintf("%sfrom %v", b.of, b.addr)
}

// The tables of what is blocked and of what is lost.
const blockTable, lossTable = "ringproof", "ringproof-loss"

// firewall is a table of the machine whose process 1 is pid. Close it.
type firewall struct {
	*nftables.Conn
	ns      int
	table   *nftables.Table
	in, out *nftables.Chain
}

func openFirewall(pid int, table string) (*firewall, error) {
	ns, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("finding the machine's network namespace: %w", err)
	}
	c, err := nftables.New(nftables.WithNetNSFd(ns), nftables.AsLasting())
	if err != nil {
		unix.Close(ns)
		return nil, fmt.Errorf("opening nftables on the machine: %w", err)
	}
	f := &firewall{Conn: c, ns: ns, table: &nftables.Table{Name: table, Family: nftables.TableFamilyIPv4}}
	f.in = &nftables.Chain{
		Name: "in", Table: f.table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter,
	}
	f.out = &nftables.Chain{
		Name: "out", Table: f.table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter,
	}
	return f, nil
}

func (f *firewall) close() {
	_ = f.CloseLasting()
	unix.Close(f.ns)
}

// Where addresses are in an IPv4 header.
const source, destination = 12, 16

// deny queues a block's rules, with what tells of which block their counters are.
func (f *firewall) deny(b block) {
	chain, offset := f.in, uint32(source)
	if b.to {
		chain, offset = f.out, destination
	}
	a := b.addr.As4()
	for _, ports := range b.of.rules() {
		exprs := []expr.Any{
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: a[:]},
		}
		f.AddRule(&nftables.Rule{Table: f.table, Chain: chain, UserData: b.tag(), Exprs: append(append(exprs, ports...), &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop})})
	}
}

// tag is kept beside a block's rules.
func (b block) tag() []byte {
	tag := binary.BigEndian.AppendUint16(b.addr.AsSlice(), b.of.Port)
	if b.of.But {
		tag = append(tag, 1)
	}
	return tag
}

// tagged is the block of a rule, which has no tag if it isn't ours.
func tagged(tag []byte, to bool) (b block, ours bool) {
	if len(tag) < 6 {
		return b, false
	}
	a, ours := netip.AddrFromSlice(tag[:4])
	return block{a, to, Traffic{binary.BigEndian.Uint16(tag[4:]), len(tag) > 6}}, ours
}

// rules are the matches of the rules that drop the traffic: TCP from its port or to it takes two,
// and all but that one.
func (t Traffic) rules() [][]expr.Any {
	const from, to = 0, 2 // where the ports are in a TCP header
	number := binary.BigEndian.AppendUint16(nil, t.Port)
	port := func(offset uint32, op expr.CmpOp) []expr.Any {
		return []expr.Any{
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
			&expr.Cmp{Op: op, Register: 1, Data: number},
		}
	}
	tcp := []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}}}
	switch {
	case t.Port == 0:
		return [][]expr.Any{nil}
	case t.But:
		return [][]expr.Any{slices.Concat(tcp, port(from, expr.CmpOpNeq), port(to, expr.CmpOpNeq))}
	}
	return [][]expr.Any{slices.Concat(tcp, port(from, expr.CmpOpEq)), slices.Concat(tcp, port(to, expr.CmpOpEq))}
}

// drops counts the dropped packets of each block that is in force.
func (f *firewall) drops() (map[block]uint64, error) {
	counts := map[block]uint64{}
	for _, chain := range []*nftables.Chain{f.in, f.out} {
		rules, err := f.GetRules(f.table, chain)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading drop counters: %w", err)
		}
		for _, r := range rules {
			b, ours := tagged(r.UserData, chain == f.out)
			for _, e := range r.Exprs {
				if c, ok := e.(*expr.Counter); ok && ours {
					counts[b] += c.Packets
				}
			}
		}
	}
	return counts, nil
}

// lay puts the blocks in force, all at once.
func lay(pid int, blocks []block) error {
	if len(blocks) == 0 {
		return nil
	}
	f, err := openFirewall(pid, blockTable)
	if err != nil {
		return err
	}
	defer f.close()
	f.AddTable(f.table)
	f.AddChain(f.in)
	f.AddChain(f.out)
	for _, b := range blocks {
		f.deny(b)
	}
	if err := f.Flush(); err != nil {
		return fmt.Errorf("adding nftables rules: %w", err)
	}
	return nil
}

func (m *Machine) inForce() []block {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.blocks)
}

func (m *Machine) note(blocks []block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocks = blocks
}

// Block drops what arrives at this machine from the given addresses: machines, or the gateway. The other
// way stays open, so a reply can come but no acknowledgement; for a partition block both machines.
func (m *Machine) Block(t Traffic, from ...netip.Addr) (Evidence, error) {
	return m.block(t, from, false)
}

// BlockTo drops what this machine sends to the given addresses.
func (m *Machine) BlockTo(to ...netip.Addr) (Evidence, error) { return m.block(Traffic{}, to, true) }

func (m *Machine) block(t Traffic, addrs []netip.Addr, to bool) (Evidence, error) {
	m.whole.Lock()
	defer m.whole.Unlock()
	if err := m.lab.limits; err != nil {
		return Evidence{}, fmt.Errorf("refused to block machine %s: %w", m.name, err)
	}
	var fresh []block
	for _, a := range addrs {
		if !m.lab.subnet.Contains(a) || a == m.addr {
			return Evidence{}, fmt.Errorf("refused to block %v on machine %s: give the address of another machine, or the gateway", a, m.name)
		}
		if b := (block{a, to, t}); !slices.Contains(m.inForce(), b) && !slices.Contains(fresh, b) {
			fresh = append(fresh, b)
		}
	}
	e, err := m.enforce(fresh)
	if err != nil {
		return Evidence{}, fmt.Errorf("blocking machine %s: %w", m.name, err)
	}
	return e, nil
}

func (m *Machine) enforce(fresh []block) (Evidence, error) {
	e := Evidence{What: "block on machine " + m.name}
	if len(fresh) == 0 {
		e.Detail = fmt.Sprintf("already in force: %v", m.inForce())
		return e, nil
	}
	t, err := m.powered()
	if err != nil {
		m.note(append(m.inForce(), fresh...))
		e.Detail = fmt.Sprintf("it is off; in force from its next boot: %v", fresh)
		return e, nil
	}
	if err := lay(t.pid(), fresh); err != nil {
		return e, err
	}
	m.note(append(m.inForce(), fresh...))
	e.Detail, err = m.witness(t, fresh)
	return e, err
}

// witness sends a packet against each block and sees it dropped.
func (m *Machine) witness(t *tether, blocks []block) (string, error) {
	f, err := openFirewall(t.pid(), blockTable)
	if err != nil {
		return "", err
	}
	defer f.close()
	var seen []string
	for _, b := range blocks {
		if !m.poke(t, b) {
			seen = append(seen, fmt.Sprintf("%v: in force, not tried: no packet can come from there now", b))
			continue
		}
		var n uint64
		if !within(patience, func() bool {
			counts, _ := f.drops()
			n = counts[b]
			return n > 0
		}) {
			return "", fmt.Errorf("block %v did not land: a packet against it was not dropped", b)
		}
		seen = append(seen, fmt.Sprintf("%v: %d dropped", b, n))
	}
	return strings.Join(seen, ", "), nil
}

// poke sends one packet that the block must drop: a datagram to a port where nobody listens, or, if
// the block is of TCP alone, a dial. It returns false if its source is off, or blocks its own packets.
func (m *Machine) poke(t *tether, b block) bool {
	from, to := t.pid(), b.addr
	if !b.to {
		to = m.addr
		src := m.lab.at(b.addr)
		switch {
		case b.addr == m.lab.Gateway():
			datagram(to)
			return true
		case src == nil || slices.Contains(src.inForce(), block{addr: m.addr, to: true}):
			return false
		}
		s, err := src.powered()
		if err != nil {
			return false
		}
		from = s.pid()
	}
	return inNetworkOf(from, func() error {
		if b.of.Port == 0 {
			datagram(to)
		} else {
			knockAt(to, b.of)
		}
		return nil
	}) == nil
}

// knockAt asks for a connection that is of the traffic. Nobody waits for an answer.
func knockAt(to netip.Addr, t Traffic) {
	port := t.Port
	if t.But {
		port = 9
	}
	c, err := net.DialTimeout("tcp4", netip.AddrPortFrom(to, port).String(), 50*time.Millisecond)
	if err == nil {
		c.Close()
	}
}

// datagram ignores errors: a packet dropped on its way out is told to its sender.
func datagram(to netip.Addr) {
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
	if err == nil {
		_, _ = c.Write([]byte("ringproof"))
		c.Close()
	}
}

// Unblock lifts every block on this machine.
func (m *Machine) Unblock(ctx context.Context) (Evidence, error) {
	m.whole.Lock()
	defer m.whole.Unlock()
	if err := m.lab.limits; err != nil {
		return Evidence{}, fmt.Errorf("refused to unblock machine %s: %w", m.name, err)
	}
	lifted := m.inForce()
	e := Evidence{What: "unblock of machine " + m.name, Detail: fmt.Sprintf("lifted: %v", lifted)}
	t, err := m.powered()
	if err != nil || len(lifted) == 0 {
		m.note(nil)
		return e, nil
	}
	m.tally(t)
	if err := lift(t.pid()); err != nil {
		return Evidence{}, fmt.Errorf("unblocking machine %s: %w", m.name, err)
	}
	m.note(nil)
	for _, b := range lifted {
		e.Detail += ", " + m.knock(ctx, b.addr)
	}
	return e, nil
}

func lift(pid int) error {
	f, err := openFirewall(pid, blockTable)
	if err != nil {
		return err
	}
	defer f.close()
	f.DelTable(f.table)
	if err := f.Flush(); err != nil {
		return fmt.Errorf("deleting nftables rules: %w", err)
	}
	counts, err := f.drops()
	if err == nil && len(counts) > 0 {
		return fmt.Errorf("%d nftables rules are still in force", len(counts))
	}
	return err
}

// knock says whether somebody is at the address.
func (m *Machine) knock(ctx context.Context, a netip.Addr) string {
	if err := m.dialsNobody(ctx, a, 200*time.Millisecond); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%v answers", a)
}

// dialsNobody dials a port where nobody listens: a refusal is an answer. None
// proves nothing: the other side may be off, or block us.
func (m *Machine) dialsNobody(ctx context.Context, a netip.Addr, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c, err := m.DialContext(ctx, "tcp", netip.AddrPortFrom(a, 9).String())
	if err == nil {
		c.Close()
	}
	if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return fmt.Errorf("%v does not answer: %w", a, err)
}

// tally keeps the counters of rules that are about to go.
func (m *Machine) tally(t *tether) {
	if m.lab.limits != nil || len(m.inForce()) == 0 {
		return
	}
	n, _ := count(t.pid())
	m.dropped += n
}

func count(pid int) (n uint64, err error) {
	f, err := openFirewall(pid, blockTable)
	if err != nil {
		return 0, err
	}
	defer f.close()
	counts, err := f.drops()
	for _, c := range counts {
		n += c
	}
	return n, err
}

// Drops counts the packets that blocks on this machine dropped so far, those that prove a block included.
func (m *Machine) Drops() (uint64, error) {
	m.whole.Lock()
	defer m.whole.Unlock()
	if err := m.lab.limits; err != nil {
		return 0, fmt.Errorf("no drops are counted on machine %s: %w", m.name, err)
	}
	t, err := m.powered()
	if err != nil || len(m.inForce()) == 0 {
		return m.dropped, nil
	}
	n, err := count(t.pid())
	return m.dropped + n, err
}
