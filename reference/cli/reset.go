// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
)

func resetCommand() *cobra.Command {
	var r reach
	run := ""
	c := &cobra.Command{
		Use:   "reset [MEMBER]",
		Short: "empty this machine's disk of a member that has left the ring",
		Long: `reset sets aside the etcd data of a member that has left the ring, and gives the
disk a new identity, so that the machine can take a new member. The data stay on
the disk as etcd.removed-MEMBER until the next member leaves.

MEMBER is the ID of the member whose data they are; without it reset says which
that is. It asks the ring first. A member that is still in the list is not reset:
remove it with ringadm member remove. Nor is one while the list can't be read, or
is that of another ring: what can't be read is unknown, and the data may be the
last copy.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			member := uint64(0)
			if len(args) == 1 {
				var err error
				if member, err = strconv.ParseUint(args[0], 16, 64); err != nil {
					return fmt.Errorf("member %q: an ID is written in hex, as ringadm member list prints it", args[0])
				}
			}
			h := host.NewReal("", r.data, run, nil)
			if err := h.Lock(); err != nil {
				return fmt.Errorf("reset refused: %w", err)
			}
			disk, err := launcher.Reset(h, member, launcher.ListAt(c.Context(), h, words(r.endpoints)))
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "the disk is empty; it is disk %s now\n", disk.ID)
			if disk.Aside != "" {
				fmt.Fprintf(c.OutOrStdout(), "what was on it is in %s\n", filepath.Join(r.data, disk.Aside))
			}
			return nil
		},
	}
	r.flags(c)
	c.Flags().StringVar(&run, "run", "/run/ringadm", "directory of the pid file")
	return c
}

func initDiskCommand() *cobra.Command {
	data := ""
	c := &cobra.Command{
		Use:   "init-disk",
		Short: "have a plain directory be a machine's disk",
		Long: `init-disk gives the directory --data an identity as a machine's disk. A mounted
filesystem gets one by itself; a directory on which none is mounted does not, as
one may be mounted late, and what is on it would be taken for lost.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h := host.NewReal("", data, "", nil)
			h.Plain = true
			disk, fresh, err := launcher.OpenDisk(h, "", launcher.Disk{})
			if err != nil {
				return err
			}
			if !fresh {
				return fmt.Errorf("%s is disk %s already", data, disk.ID)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is disk %s now\n", data, disk.ID)
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", defaultData, "the directory")
	return c
}
