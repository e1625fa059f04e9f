// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build !linux

package cli

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
)

// Virtual is a world that only Linux has.
func Virtual() World {
	return World{
		Name: "virtual", Doc: "real etcd in virtual time", Needs: "Linux on amd64", Short: "real etcd in virtual time, on Linux", Repeatable: true,
		Takes: func(Subject) error {
			return usage("the virtual world needs Linux, and this is %s: use the sim world", runtime.GOOS)
		},
		Supports: func(ringproof.Step) error { return nil },
		Runs:     func(ringproof.Plan) error { return nil },
		Open: func(Trial) (ringproof.World, error) {
			return nil, fmt.Errorf("the virtual world on %s: %w", runtime.GOOS, errors.ErrUnsupported)
		},
	}
}

// Kind is another.
func Kind() World {
	return World{
		Name: "kind", Doc: "a cluster of kind's", Needs: "Linux and Docker", Short: "a cluster of kind's, on Linux", Outside: true,
		Takes: func(Subject) error {
			return usage("the kind world needs Linux, and this is %s: use the sim world", runtime.GOOS)
		},
		Supports: func(ringproof.Step) error { return nil },
		Runs:     func(ringproof.Plan) error { return nil },
		Open: func(Trial) (ringproof.World, error) {
			return nil, fmt.Errorf("the kind world on %s: %w", runtime.GOOS, errors.ErrUnsupported)
		},
	}
}

func (p *program) keeperCommand() *cobra.Command { return &cobra.Command{Use: "keeper", Hidden: true} }

func (p *program) seatCommand() *cobra.Command { return &cobra.Command{Use: "seat", Hidden: true} }

func (p *program) partCommands() []*cobra.Command { return nil }
