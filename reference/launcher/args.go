// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/ringproof/ringproof/reference/ring"
)

// Command is what etcd's command line is made of.
type Command struct {
	Binary    string
	Version   ring.Version // flags differ between releases
	Pinned    bool         // the disk is to remember the release
	Name      string
	DataDir   string
	PeerURLs  []string
	ClientURL string
	PKI       string // directory of ca.crt, server.*, peer.*; "": clients speak plain text, and so do peers
	PeerCA    string // in that directory: whom peers trust
	Heartbeat time.Duration
	Election  time.Duration
	SnapCount int
	Alone     bool     // nobody has a quorum
	Flags     []string // besides these, "name=value"
	Boot      Boot
}

// Args returns the command line. Flags are etcd's own; a zero duration or
// count leaves etcd's default.
func (c Command) Args() []string {
	args := []string{c.Binary,
		"--name=" + c.Name,
		"--data-dir=" + c.DataDir,
		"--listen-peer-urls=" + listen(c.PeerURLs...),
		"--initial-advertise-peer-urls=" + strings.Join(c.PeerURLs, ","),
		"--listen-client-urls=" + listen(c.ClientURL),
		"--advertise-client-urls=" + c.ClientURL,
		"--strict-reconfig-check=true",
		"--logger=zap", "--log-outputs=stderr", "--log-level=warn",
	}
	args = append(args, c.cluster()...)
	args = append(args, c.timing()...)
	if c.PKI != "" {
		args = append(args, c.clientTLS()...)
	}
	if c.PKI != "" && ring.Listens(c.PeerURLs).Secure() {
		args = append(args, c.peerTLS()...)
	}
	if !c.Alone {
		args = append(args, c.corruptCheck())
	}
	for _, flag := range c.Flags {
		args = append(args, "--"+flag)
	}
	return args
}

// listen is where etcd listens for those who dial URLs: at its address, or, as etcd
// binds to no name, at every address of the machine.
func listen(addresses ...string) string {
	var all []string
	for _, address := range addresses {
		u, err := url.Parse(address)
		if err != nil {
			return address // etcd says what is wrong with it
		}
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			u.Host = net.JoinHostPort("0.0.0.0", u.Port())
		}
		all = append(all, u.String())
	}
	return strings.Join(all, ",")
}

// listening is how an etcd with these arguments listens for its peers; "" without any.
func listening(args []string) ring.Security {
	for _, arg := range args {
		if urls, ok := strings.CutPrefix(arg, "--listen-peer-urls="); ok {
			return ring.Listens(strings.Split(urls, ","))
		}
	}
	return ""
}

func (c Command) cluster() []string {
	state := c.Boot.State
	all := c.Boot.Cluster
	if state == Resume {
		state, all = Existing, named(c.Name, c.PeerURLs)
	}
	args := []string{"--initial-cluster-state=" + string(state), "--initial-cluster=" + strings.Join(all, ",")}
	if c.Boot.Token != "" {
		args = append(args, "--initial-cluster-token="+c.Boot.Token)
	}
	return args
}

// named are the URLs of a member as --initial-cluster wants them, each with its name.
func named(name string, urls []string) (all []string) {
	for _, u := range urls {
		all = append(all, name+"="+u)
	}
	return all
}

func (c Command) timing() []string {
	var args []string
	if c.Heartbeat > 0 {
		args = append(args, fmt.Sprintf("--heartbeat-interval=%d", c.Heartbeat.Milliseconds()))
	}
	if c.Election > 0 {
		args = append(args, fmt.Sprintf("--election-timeout=%d", c.Election.Milliseconds()))
	}
	if c.SnapCount > 0 {
		args = append(args, fmt.Sprintf("--snapshot-count=%d", c.SnapCount))
	}
	return args
}

func (c Command) file(name string) string { return c.PKI + "/" + name }

func (c Command) clientTLS() []string {
	return []string{
		"--client-cert-auth=true",
		"--trusted-ca-file=" + c.file("ca.crt"),
		"--cert-file=" + c.file("server.crt"), "--key-file=" + c.file("server.key"),
	}
}

// peerTLS is for whoever dials by TLS, and to dial others so. Of one that dials a URL for
// plain text etcd wants no certificate.
func (c Command) peerTLS() []string {
	return []string{
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file=" + c.file(cmp.Or(c.PeerCA, "ca.crt")),
		"--peer-cert-file=" + c.file("peer.crt"), "--peer-key-file=" + c.file("peer.key"),
	}
}

// corruptCheck asks etcd to compare its hash with its peers' before it serves. It became a
// feature gate in 3.6. Where nobody has a quorum others start too, and those who ask each
// other before they answer wait till both give up, seven seconds for each peer: seven
// members that lost their power were down for most of a minute, and had compared nothing.
func (c Command) corruptCheck() string {
	if c.Version.Compare("v3.6.0") < 0 {
		return "--experimental-initial-corrupt-check=true"
	}
	return "--feature-gates=InitialCorruptCheck=true"
}
