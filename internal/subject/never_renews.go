// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"strings"

	"github.com/ringproof/ringproof/reference/host"
)

// A certificate that is on the disk stays there, as with whoever issues only what is
// missing. Nobody who is connected notices its end; who comes back after it is alone.
var neverRenews = Mutant{
	Name:     "never-renews",
	Hazard:   "Certificates are issued once and never renewed: after a year all of them end in the same minute.",
	Source:   "kubeadm before 1.17; etcdadm; ringadm's own first release",
	Check:    "converges",
	Scenario: "certificates-short",
	layer: only(layer{host: func(h host.Host) host.Host {
		return machine{Host: h, disk: firstCertificates{h.Disk(), h}}
	}}),
}

// firstCertificates keeps each certificate as it was written first.
type firstCertificates struct {
	host.Disk
	host host.Host
}

func (d firstCertificates) Write(name string, content []byte) error {
	if there, err := d.Exists(name); strings.HasPrefix(name, "pki/") && err == nil && there {
		reached(d.host)
		return nil
	}
	return d.Disk.Write(name, content)
}
