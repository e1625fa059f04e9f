// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/internal/virtual"
)

// Local is the world of real processes on this host, for programs that a file describes
// (docs/subjects.md), and for the reference.
func Local() World {
	return World{
		Name:     "local",
		Doc:      "real etcd and the subject's real processes on this host: a network namespace and a data filesystem a machine, in real time",
		Needs:    "Linux with user namespaces, or root",
		Short:    "real etcd on this host",
		Takes:    startable,
		Supports: supports("local"),
		Runs:     func(p ringproof.Plan) error { return local.Runs(p, lacking()) },
		Open:     openLocal,
	}
}

// outside is what the processes of a trial are made of.
type outside struct {
	releases map[string]etcdbin.Release
	kit      virtual.Kit // where other programs were built than those
	traced   func(line string)
	ringadm  func() (string, error) // its path
	program  func() (trial.Subject, error)
	over     func() error // why nothing is run after this; nil: something may be
	main     string       // the directory of somebody's main package that has to be built; "": there is none
}

// releasesOf are those of the plan.
func (o outside) releasesOf(p ringproof.Plan) map[string]etcdbin.Release {
	own := map[string]etcdbin.Release{}
	for _, version := range p.Versions() {
		own[version] = o.releases[version]
	}
	return own
}

// startable refuses who can't be started as a process.
func startable(s Subject) error {
	if _, ok := As[trial.Way](s); !ok {
		return usage("%s can't be started as a process: it is in this program only. Describe its own program in a file, and name that as --subject", s.Name)
	}
	return nil
}

// supports asks inside the sandbox, where the answer is known; outside everything is
// still possible.
func supports(world string) func(ringproof.Step) error {
	return func(s ringproof.Step) error {
		return local.Supports(world, s, lacking())
	}
}

func openLocal(t Trial) (ringproof.World, error) {
	trial, err := t.program()
	if err != nil {
		return nil, err
	}
	return &local.World{Releases: t.releasesOf(t.Plan), Subject: trial, Version: t.Version}, nil
}

// lacking is what a process lacks that goes on without a sandbox.
func lacking() error {
	if machines.Inside() || os.Getenv(bare) == "" {
		return nil
	}
	return fmt.Errorf("%w: it gives ringproof no namespaces (%w); see ringproof doctor", ringproof.ErrHost, errors.ErrUnsupported)
}

// bare marks the process that goes on without a sandbox.
const bare = "RINGPROOF_BARE"
