// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"slices"
	"strings"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/ring"
)

// Each member serves after its restart, as it dials the others itself. With the last one
// nobody is reached where he is listed, and without a quorum the list can't be changed.
var closesBeforeListed = Mutant{
	Name:     "closes-before-listed",
	Hazard:   "Members close the port for plain text while they are listed with it.",
	Source:   "KKP B5: strict once all pods are annotated, whatever the member list says",
	Check:    "converges",
	Scenario: "peers-encrypted[size=3]",
	layer: only(deciding(func(inner next, spec ring.Spec, o ring.Observed) ring.Decision {
		shown := o
		shown.Members = slices.Clone(o.Members)
		for i, m := range o.Members {
			if m.Peers.Secure() && m.Peers != "" {
				shown.Members[i].PeerURL = ring.Encrypted(m.PeerURL)
			}
		}
		return decidedOn(o, inner(spec, shown))
	})),
}

// What was listed when the ring was bootstrapped was right for as long as nobody changed it.
var joinsByOldURLs = Mutant{
	Name:     "joins-by-old-urls",
	Hazard:   "A member that joins names the others at the URLs for plain text, wherever they are listed.",
	Source:   "kubermatic#9369, #9322: the initial cluster of a pod has one URL of members that are listed with two, or with another",
	Check:    "converges",
	Scenario: "peers-encrypted-machine-lost[restarted=4,victim=follower]",
	layer: only(startsWith(func(args []string) []string {
		if !slices.Contains(args, "--initial-cluster-state=existing") {
			return args
		}
		for i, arg := range args {
			if strings.HasPrefix(arg, "--initial-cluster=") {
				args[i] = strings.NewReplacer("https:", "http:", ":2381", ":2380").Replace(arg)
			}
		}
		return args
	})),
}

// Whoever asks which flags etcd has is shown those that it was to have.
var keepsPlainPort = Mutant{
	Name:     "keeps-plain-port",
	Hazard:   "Members that were moved to TLS go on to listen for peers in plain text beside it.",
	Source:   "KKP B6: mixed again after strict, as the http URL and its listener are added back",
	Check:    "no-plaintext-peer",
	Scenario: "peers-encrypted[size=3]",
	layer: only(layer{host: func(h host.Host) host.Host {
		return machine{Host: h, process: plainBeside{h.Process(), h}}
	}}),
}

type plainBeside struct {
	host.Process
	host host.Host
}

const listens = "--listen-peer-urls="

func (p plainBeside) Start(ctx context.Context, args []string) error {
	args = slices.Clone(args)
	for i, arg := range args {
		if at, ok := strings.CutPrefix(arg, listens); ok && !strings.Contains(at, ",") && strings.HasSuffix(at, ":2381") {
			reached(p.host)
			args[i] = listens + strings.NewReplacer("https:", "http:", ":2381", ":2380").Replace(at) + "," + at
		}
	}
	return p.Process.Start(ctx, args)
}

// Running leaves out what Start put in, once its member is to have TLS alone.
func (p plainBeside) Running() ([]string, error) {
	args, err := p.Process.Running()
	args = slices.Clone(args)
	for i, arg := range args {
		if at, ok := strings.CutPrefix(arg, listens); ok && slices.ContainsFunc(args, p.alone) {
			_, encrypted, _ := strings.Cut(at, ",")
			args[i] = listens + encrypted
		}
	}
	return args, err
}

// alone reports whether an argument says that TLS alone was asked for.
func (plainBeside) alone(arg string) bool {
	at, ok := strings.CutPrefix(arg, "--initial-advertise-peer-urls=")
	return ok && strings.HasPrefix(at, "https:")
}
