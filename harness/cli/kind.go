// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/image"
	"github.com/ringproof/ringproof/internal/kind/keeper"
	"github.com/ringproof/ringproof/internal/kind/nodes"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/internal/virtual"
)

// Kind is the world of a Kubernetes cluster in containers of this host, in real time: the
// witness that the virtual one is true.
func Kind() World {
	var clusters nodes.Clusters
	return World{
		Name:     kindName,
		Doc:      "Kubernetes as it is, in containers of this host that kind makes: each node is a machine of the ring, in real time",
		Needs:    "Linux, Docker, and root, whose the members' logs are",
		Short:    "a cluster of kind's",
		Outside:  true,
		Takes:    startable,
		Supports: onKind,
		Runs:     runsOnKind,
		Open:     func(t Trial) (ringproof.World, error) { return openKind(t, &clusters) },
		Done:     clusters.Close,
	}
}

const kindName = "kind"

// onKind says why a step can't be done on a cluster of kind's.
func onKind(s ringproof.Step) error {
	switch {
	case faults.AtSeam(s):
		return fmt.Errorf("%s: a fault at the subject's own calls: nothing of the run's is in pods there (%w)", s.Fault.Kind, errors.ErrUnsupported)
	case s.Fault != nil && s.Fault.Kind == ringproof.FaultDiskFull:
		return fmt.Errorf("%s: volumes there are directories of this host, which would be full (%w)", s.Fault.Kind, errors.ErrUnsupported)
	}
	return local.Supports(kindName, s, nil)
}

// runsOnKind says why a plan's ring can't be had on a cluster of kind's.
func runsOnKind(p ringproof.Plan) error {
	if p.Ring.On != ringproof.OnKubernetes {
		return fmt.Errorf("a ring on machines: a cluster has pods (%w)", errors.ErrUnsupported)
	}
	return local.RunsOnNodes(p, nil)
}

func openKind(t Trial, clusters *nodes.Clusters) (ringproof.World, error) {
	if os.Geteuid() != 0 {
		return nil, environment(errors.New("the kind world reads the members' logs, which are root's: run it as root"))
	}
	log.SetLogger(logr.Discard())  // clients would say that nobody asked them to be silent,
	klog.SetLogger(logr.Discard()) // and watches that the API server is away, which is a fault
	subject, err := t.program()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ringadm, err := t.ringadm()
	if err != nil {
		return nil, err
	}
	members, err := trial.Members(subject)
	if err != nil {
		return nil, err
	}
	releases := t.releasesOf(t.Plan)
	o := nodes.Options{Workers: t.Plan.Ring.Machines, Releases: releases, Members: members, Self: self, Keeper: keeperName,
		Over:       t.over,
		OnProgress: func(line string) { fmt.Fprintf(os.Stderr, "%s: %s\n", t.Plan.Cell, line) },
		Images: func(dir string) ([]image.Image, error) {
			ringadm := ringadm
			if in, ok := subject.(trial.Imaged); ok {
				if ringadm, err = in.Image(t.Plan, ringadm, dir); err != nil {
					return nil, err
				}
			}
			return virtual.Images(ringadm, releases), nil
		}}
	return &local.World{Releases: releases, Subject: subject, Version: t.Version, As: kindName, Labs: clusters.Lab(o)}, nil
}

const keeperName = "keeper"

// keeperCommand is what this program is in a node.
func (p *program) keeperCommand() *cobra.Command {
	return &cobra.Command{
		Use:    keeperName,
		Short:  "keep a node of a kind cluster: orders on standard input, answers on standard output, in JSON",
		Hidden: true,
		Args:   none,
		RunE: func(c *cobra.Command, _ []string) error {
			return environment(keeper.Run(c.Context(), os.Stdin, os.Stdout))
		},
	}
}
