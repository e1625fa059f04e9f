// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"fmt"
	"strings"
	"time"
)

// Command is what etcd's command line is made of.
type Command struct {
	Binary    string
	Version   string // v3.6.16: flags differ between releases
	Name      string
	DataDir   string
	PeerURL   string
	ClientURL string
	PKI       string // directory of ca.crt, server.*, peer.*; "" for plain
	Heartbeat time.Duration
	Election  time.Duration
	SnapCount int
	Boot      Boot
}

// Args returns the command line. Flags are etcd's own; a zero duration or
// count leaves etcd's default.
func (c Command) Args() []string {
	args := []string{c.Binary,
		"--name=" + c.Name,
		"--data-dir=" + c.DataDir,
		"--listen-peer-urls=" + c.PeerURL,
		"--initial-advertise-peer-urls=" + c.PeerURL,
		"--listen-client-urls=" + c.ClientURL,
		"--advertise-client-urls=" + c.ClientURL,
		"--strict-reconfig-check=true",
		"--logger=zap", "--log-outputs=stderr", "--log-level=warn",
	}
	args = append(args, c.cluster()...)
	args = append(args, c.timing()...)
	if c.PKI != "" {
		args = append(args, c.tls()...)
	}
	return append(args, c.corruptCheck())
}

func (c Command) cluster() []string {
	state := c.Boot.State
	all := c.Boot.Cluster
	if state == Resume {
		state, all = Existing, []string{c.Name + "=" + c.PeerURL}
	}
	args := []string{"--initial-cluster-state=" + string(state), "--initial-cluster=" + strings.Join(all, ",")}
	if c.Boot.Token != "" {
		args = append(args, "--initial-cluster-token="+c.Boot.Token)
	}
	return args
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

func (c Command) tls() []string {
	file := func(name string) string { return c.PKI + "/" + name }
	return []string{
		"--client-cert-auth=true",
		"--trusted-ca-file=" + file("ca.crt"),
		"--cert-file=" + file("server.crt"), "--key-file=" + file("server.key"),
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file=" + file("ca.crt"),
		"--peer-cert-file=" + file("peer.crt"), "--peer-key-file=" + file("peer.key"),
	}
}

// corruptCheck asks etcd to compare its hash with its peers' before it serves.
// It became a feature gate in 3.6.
func (c Command) corruptCheck() string {
	if strings.HasPrefix(c.Version, "v3.5.") || strings.HasPrefix(c.Version, "v3.4.") {
		return "--experimental-initial-corrupt-check=true"
	}
	return "--feature-gates=InitialCorruptCheck=true"
}
