// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"strings"

	"github.com/ringproof/ringproof/reference/host"
)

// What a machine writes down helps whoever looks for what went wrong there, and the key of its
// certificate is in it.
var logsKeys = Mutant{
	Name:     "logs-keys",
	Hazard:   "Each file of the machine's configuration is logged as it is written, those with a private key too.",
	Source:   "CWE-532: agents that log the configuration which they start with",
	Check:    "no-key-printed",
	Scenario: "create[etcd=v3.6.16,size=3]",
	layer: only(layer{host: func(h host.Host) host.Host {
		return machine{Host: h, disk: loggedFiles{h.Disk(), h}}
	}}),
}

type loggedFiles struct {
	host.Disk
	host host.Host
}

func (d loggedFiles) Write(name string, content []byte) error {
	if strings.HasSuffix(name, ".key") {
		reached(d.host)
		d.host.Log(host.Line{Event: host.EventTrouble, Text: "written " + name + ": " + string(content)})
	}
	return d.Disk.Write(name, content)
}
