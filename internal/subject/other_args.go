// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"
	"strings"

	"github.com/ringproof/ringproof/reference/host"
)

// Without what was asked for in its flags an etcd runs as well as any other, until its
// space ends sooner, or its elections come too early for a slow network.
var dropsFlags = Mutant{
	Name:     "drops-flags",
	Hazard:   "etcd is started with its own heartbeat interval, whichever is asked for.",
	Source:   "kubeadm: extraArgs that an upgrade doesn't carry over",
	Check:    "runs-as-asked",
	Scenario: "volume-lost",
	layer: only(startsWith(func(args []string) []string {
		return slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--heartbeat-interval=") })
	})),
}

// Who shows no certificate is answered as well as who shows one, and nobody notices: all
// that ask in good faith show theirs.
var answersAnybody = Mutant{
	Name:     "answers-anybody",
	Hazard:   "Members speak TLS, and want no client to show a certificate.",
	Source:   "etcd's documentation of --client-cert-auth and --trusted-ca-file, either of which has clients show one: off by default",
	Check:    "clients-show-certificates",
	Scenario: "create[etcd=v3.6.16,size=3]",
	layer: only(startsWith(func(args []string) []string {
		return slices.DeleteFunc(args, func(arg string) bool {
			return strings.HasPrefix(arg, "--client-cert-auth=") || strings.HasPrefix(arg, "--trusted-ca-file=")
		})
	})),
}

// startsWith has etcd started with what change makes of its arguments.
func startsWith(change func(args []string) []string) layer {
	return layer{host: func(h host.Host) host.Host { return machine{Host: h, process: otherArgs{h.Process(), h, change}} }}
}

// otherArgs starts etcd with other arguments.
type otherArgs struct {
	host.Process
	host   host.Host
	change func(args []string) []string
}

func (r otherArgs) Start(ctx context.Context, args []string) error {
	changed := r.change(slices.Clone(args))
	if !slices.Equal(changed, args) {
		reached(r.host)
	}
	return r.Process.Start(ctx, changed)
}
