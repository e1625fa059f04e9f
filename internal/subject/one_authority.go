// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"
	"strings"

	"github.com/ringproof/ringproof/reference/host"
)

// Peers that trust everybody's authority work as well as others do. Only who tries
// to speak as a peer with a client's certificate finds out.
var oneAuthority = Mutant{
	Name:     "one-authority",
	Hazard:   "Peers trust the authority that vouches for clients too.",
	Source:   "kubeadm's external etcd guides; etcdadm: one CA for peers and clients",
	Check:    "peers-trust-peers",
	Scenario: "create[etcd=v3.6.16,size=3]",
	layer: only(layer{host: func(h host.Host) host.Host {
		return machine{Host: h, process: credulous{h.Process(), h}}
	}}),
}

// credulous starts etcd with both authorities behind its peer port.
type credulous struct {
	host.Process
	host host.Host
}

const peerTrust = "--peer-trusted-ca-file="

func (c credulous) Start(ctx context.Context, args []string) error {
	i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, peerTrust) })
	if i < 0 {
		return c.Process.Start(ctx, args)
	}
	const both = "pki/every-ca.crt"
	disk := c.host.Disk()
	clients, err := disk.Read("pki/ca.crt")
	if err != nil {
		return err
	}
	peers, err := disk.Read("pki/peer-ca.crt")
	if err != nil {
		return err
	}
	if err := disk.Write(both, append(slices.Clone(peers), clients...)); err != nil {
		return err
	}
	reached(c.host)
	args = slices.Clone(args)
	args[i] = peerTrust + disk.Path(both)
	return c.Process.Start(ctx, args)
}
