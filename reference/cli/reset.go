// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

func resetCommand() *cobra.Command {
	var r reach
	run := ""
	c := &cobra.Command{
		Use:   "reset",
		Short: "empty this machine's disk of a member that has left the ring",
		Long: `reset removes the etcd data of a member that has left the ring, and gives the
disk a new identity, so that the machine can take a new member.

It asks the ring first. A member that is still in the list is not reset: remove
it with ringadm member remove. Nor is one while the list can't be read: what
can't be read is unknown, and the data may be the last copy.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			disk, err := reset(c.Context(), r, host.NewReal("", r.data, run, nil))
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "the disk is empty; it is disk %s now\n", disk.ID)
			return nil
		},
	}
	r.flags(c)
	c.Flags().StringVar(&run, "run", "/run/ringadm", "directory of the pid file")
	return c
}

func reset(ctx context.Context, r reach, h host.Host) (launcher.Disk, error) {
	running, err := h.Process().Running()
	if err != nil {
		return launcher.Disk{}, err
	}
	if running != nil {
		return launcher.Disk{}, errors.New("reset refused: an etcd runs on this data; it stops by itself once its member is removed")
	}
	var e launcher.Evidence
	launcher.ReadLog(h, &e)
	if e.Damaged != "" {
		return launcher.Disk{}, fmt.Errorf("reset refused: whose the data is can't be read: %s; move it away by hand", e.Damaged)
	}
	if e.WAL != nil {
		if err := left(ctx, r, e.WAL.Member); err != nil {
			return launcher.Disk{}, fmt.Errorf("reset refused: %w", err)
		}
	}
	return launcher.Empty(h, "")
}

// left returns nil when a list read with a quorum doesn't hold the member.
func left(ctx context.Context, r reach, member uint64) error {
	opened, err := r.open()
	if err != nil {
		return err
	}
	defer opened.Close()
	list, err := opened.List(ctx)
	if err != nil {
		return fmt.Errorf("whether member %x has left is unknown: %w", member, err)
	}
	for _, m := range list.Members {
		if m.ID == member {
			return fmt.Errorf("member %x is in the ring; remove it first: ringadm member remove %x", member, member)
		}
	}
	return nil
}
