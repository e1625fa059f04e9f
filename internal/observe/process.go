// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package observe

import (
	"strings"

	"github.com/ringproof/ringproof"
)

// Process is an etcd that was started so: with these arguments, its program's name
// first, and in this environment. Flags win over the environment, as in etcd.
func Process(machine string, args, env []string, releases ...string) ringproof.EtcdProcess {
	p := ringproof.EtcdProcess{Machine: machine, Releases: releases, Flags: map[string]string{}}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		if of, ours := strings.CutPrefix(name, "ETCD_"); ours {
			p.Flags[strings.ReplaceAll(strings.ToLower(of), "_", "-")] = value
		}
	}
	for i := 1; i < len(args); i++ {
		flag, dashed := strings.CutPrefix(args[i], "-")
		if !dashed {
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(flag, "-"), "=")
		if next := i + 1; !given && next < len(args) && !strings.HasPrefix(args[next], "-") {
			i, value, given = next, args[next], true
		}
		if !given {
			value = "true"
		}
		p.Flags[name] = value
	}
	if file := p.Flags["config-file"]; file != "" {
		p.Err = "it was started with --config-file, which was not read"
	}
	return p
}
