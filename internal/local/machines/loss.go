// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"fmt"
	"net"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Lose drops so many of 100 packets, drawn one by one, of those that come from the other machines and of those
// that go to them; 0 ends it. The run itself reaches the machine as before.
func (m *Machine) Lose(percent int) (Evidence, error) {
	m.whole.Lock()
	defer m.whole.Unlock()
	if err := m.lab.limits; err != nil {
		return Evidence{}, fmt.Errorf("refused to lose packets of machine %s: %w", m.name, err)
	}
	e := Evidence{What: "loss of packets on machine " + m.name, Detail: fmt.Sprintf("%d of 100", percent)}
	before := m.lossy
	m.lossy = percent
	t, err := m.powered()
	if err != nil {
		e.Detail += ", from its next boot"
		return e, nil
	}
	if err := m.leak(t.pid(), before); err != nil || percent == 0 {
		return e, err
	}
	n, err := m.seeLost(t)
	e.Detail += fmt.Sprintf(": %d dropped", n)
	return e, err
}

// leak has the machine lose what it is to lose, which now loses so much.
func (m *Machine) leak(pid, before int) error {
	if m.lossy == before {
		return nil
	}
	f, err := openFirewall(pid, lossTable)
	if err != nil {
		return err
	}
	defer f.close()
	if before > 0 {
		f.DelTable(f.table)
	}
	if m.lossy > 0 {
		f.AddTable(f.table)
		for chain, offset := range map[*nftables.Chain]uint32{f.in: source, f.out: destination} { // order: they are independent
			f.AddChain(chain)
			f.AddRule(&nftables.Rule{Table: f.table, Chain: chain, Exprs: slices.Concat(m.others(offset), some(m.lossy))})
		}
	}
	if err := f.Flush(); err != nil {
		return fmt.Errorf("changing how many packets machine %s loses: %w", m.name, err)
	}
	return nil
}

// others matches what has the address of another machine there.
func (m *Machine) others(offset uint32) []expr.Any {
	net4 := m.lab.subnet.Masked()
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: m.addr.AsSlice()},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: m.lab.Gateway().AsSlice()},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: net.CIDRMask(net4.Bits(), 32), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: net4.Addr().AsSlice()},
	}
}

// some drops so many of 100.
func some(percent int) []expr.Any {
	return []expr.Any{
		&expr.Numgen{Register: 1, Modulus: 100, Type: unix.NFT_NG_RANDOM},
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4}, // to be compared
		&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(uint32(percent))},
		&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop},
	}
}

// seeLost sends datagrams to where nobody is until one is lost on its way out.
func (m *Machine) seeLost(t *tether) (n uint64, err error) {
	f, err := openFirewall(t.pid(), lossTable)
	if err != nil {
		return 0, err
	}
	defer f.close()
	nobody := m.lab.address(244)
	lost := within(patience, func() bool {
		_ = inNetworkOf(t.pid(), func() error { datagram(nobody); return nil })
		n, err = f.lost()
		return n > 0
	})
	if !lost && err == nil {
		err = fmt.Errorf("no packet of machine %s was lost", m.name)
	}
	return n, err
}

// lost counts what the table has dropped.
func (f *firewall) lost() (n uint64, err error) {
	for _, chain := range []*nftables.Chain{f.in, f.out} {
		rules, err := f.GetRules(f.table, chain)
		if err != nil {
			return n, fmt.Errorf("reading how many packets were lost: %w", err)
		}
		for _, r := range rules {
			for _, e := range r.Exprs {
				if c, ok := e.(*expr.Counter); ok {
					n += c.Packets
				}
			}
		}
	}
	return n, nil
}
