// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/ringproof/ringproof/internal/virtual/addons"
	"github.com/ringproof/ringproof/internal/virtual/kubelet"
)

// The parts of a cluster that this program is itself, each by its first argument.
const (
	Kubelet = "kubelet" // of a node
	Names   = "coredns" // who answers for names
	Addons  = "addons"  // what else a cluster has beside its control plane
)

// OwnParts are all of them.
func OwnParts() []string { return []string{Kubelet, Names, Addons} }

// BePart is a part of a cluster, as a file describes it, until ctx ends. What it prints it
// prints to out.
func BePart(ctx context.Context, name, file string, out io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	switch name {
	case Kubelet:
		var o kubelet.Options
		if err := json.Unmarshal(text, &o); err != nil {
			return err
		}
		return kubelet.Run(ctx, o, out)
	case Names, Addons:
		var o addons.Options
		if err := json.Unmarshal(text, &o); err != nil {
			return err
		}
		if name == Names {
			return addons.Answer(ctx, o)
		}
		return addons.Run(ctx, o)
	}
	return fmt.Errorf("a cluster in virtual time has no part %s", name)
}
