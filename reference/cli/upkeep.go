// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/ring"
)

const pause = 2 * time.Second // between two looks at a ring that isn't there yet

func isRunningCommand() *cobra.Command {
	var r reach
	var within time.Duration
	c := &cobra.Command{
		Use:   "is-running",
		Short: "wait until the ring takes writes",
		Long: `is-running asks the ring to commit something that leaves no key behind, again and
again until it does: then a quorum of it answers, and it has space. It is for whoever
is to start after the ring, as the init container of an API server.`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			return r.reached(func(opened *admin.Ring) error { return awaitWrites(c.Context(), opened, within, c.OutOrStdout()) })
		},
	}
	r.flags(c)
	c.Flags().DurationVar(&within, "within", time.Minute, "how long to wait")
	return c
}

// awaitWrites waits until the ring has committed a write.
func awaitWrites(ctx context.Context, r *admin.Ring, within time.Duration, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		_, err := r.Revision(ctx) // finds an endpoint that answers
		if err == nil {
			err = r.Settle(ctx)
		}
		if err == nil {
			fmt.Fprintln(out, "the ring takes writes")
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the ring has taken no write within %s: %w", within, err)
		case <-time.After(pause):
		}
	}
}

func advanceLogCommand() *cobra.Command {
	var r reach
	a := ring.Action{Kind: ring.AdvanceLog}
	c := &cobra.Command{
		Use:   "advance-log --entries N",
		Short: "add entries that change nothing to the ring's log, so that its members take a snapshot",
		Long: `advance-log adds entries to the ring's log that change nothing, not even the revision.
A member takes a snapshot when as many were added since its last as --snapshot-count says,
10000 by itself, and begins with what comes after it when it is started again.

It is for a ring that was of v3.5: v3.7 panics on what v3.5 wrote into the log. Before an
upgrade the automation does this by itself.`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			if a.Entries == 0 {
				return usageError{errors.New("--entries is missing: how many are to be added")}
			}
			return r.do(c, a)
		},
	}
	r.flags(c)
	c.Flags().Uint64Var(&a.Entries, "entries", 0, "how many (required)")
	return c
}

func snapshotCommand() *cobra.Command {
	var r reach
	c := &cobra.Command{
		Use:   "snapshot FILE",
		Short: "write what the ring holds into a file",
		Long: `snapshot writes the keyspace of a member that holds all that the ring had
acknowledged when this began: not of whoever answers first, which may have been cut
off for long, and not of one that etcd has found to hold other data than the rest
(alarm CORRUPT). What came is checked by etcd's sum. FILE appears whole or not at all,
readable by its owner alone; one that is there already is refused.

- is the standard output: what came there is a backup only if this ended with exit code 0.
So a backup comes out of a pod whose image has no tar, which kubectl cp needs.

etcdutl snapshot restore FILE makes a data directory of it.`,
		Args: exactly(1, "the file to write, or -"),
		RunE: func(c *cobra.Command, args []string) error {
			return r.reached(func(opened *admin.Ring) error {
				if args[0] == "-" {
					return printSnapshot(c, opened)
				}
				return writeSnapshot(c, opened, args[0])
			})
		},
	}
	r.flags(c)
	return c
}

func writeSnapshot(c *cobra.Command, r *admin.Ring, file string) error {
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("%s is there already: choose another name, or move it away", file)
	}
	var bytes int64
	from, revision, err := r.Backup(c.Context(), func(_ context.Context, from admin.Asked) (err error) {
		bytes, err = copySnapshot(c, r, from, file)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s: %d bytes of %s, at revision %d or later\n", file, bytes, from, revision)
	return nil
}

// printSnapshot writes the keyspace to the standard output. What is out can't be called back: once
// one member has begun no other is asked.
func printSnapshot(c *cobra.Command, r *admin.Ring) error {
	out := c.OutOrStdout()
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return usageError{errors.New("a backup is not printed to a terminal: write it to a file, or redirect it")}
	}
	var bytes int64
	from, revision, err := r.Backup(c.Context(), func(_ context.Context, from admin.Asked) (err error) {
		if bytes > 0 {
			return errors.New("it was not asked: another had begun")
		}
		bytes, err = receive(c, r, from, out)
		return err
	})
	if err != nil {
		return fmt.Errorf("the %d bytes that were written are no backup: %w", bytes, err)
	}
	fmt.Fprintf(c.ErrOrStderr(), "%d bytes of %s, at revision %d or later\n", bytes, from, revision)
	return nil
}

const stalled = 30 * time.Second // how long a snapshot may bring nothing

// copySnapshot writes the member's keyspace beside the file, and moves it there when it is
// on the disk.
func copySnapshot(c *cobra.Command, r *admin.Ring, from admin.Asked, file string) (bytes int64, err error) {
	part, err := os.OpenFile(file+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part.Name()))
		}
	}()
	bytes, err = receive(c, r, from, part)
	if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
		return bytes, err
	}
	return bytes, errors.Join(publish(os.Link, part.Name(), file), syncDir(filepath.Dir(file)))
}

// publish gives what is on the disk its name, and replaces nothing, as a rename would. Where a
// filesystem has no links (SMB, FAT, what is mounted from an object store) the name is taken first.
func publish(link func(old, new string) error, part, file string) error {
	err := link(part, file)
	if err == nil {
		return os.Remove(part)
	}
	if errors.Is(err, os.ErrExist) {
		return err
	}
	taken, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(taken.Close(), os.Rename(part, file)); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// receive passes on the member's keyspace, tells how far it is, and gives up when nothing comes.
func receive(c *cobra.Command, r *admin.Ring, from admin.Asked, to io.Writer) (bytes int64, err error) {
	ctx, cancel := context.WithCancelCause(c.Context())
	defer cancel(nil)
	late := time.AfterFunc(stalled, func() { cancel(fmt.Errorf("nothing came for %s", stalled)) })
	defer late.Stop()
	last := time.Now()
	bytes, err = r.Snapshot(ctx, from.Endpoint, to, func(n int64) {
		late.Reset(stalled)
		if now := time.Now(); now.Sub(last) > pause {
			fmt.Fprintf(c.ErrOrStderr(), "%s: %d of %d bytes\n", from, n, from.Bytes)
			last = now
		}
	})
	if err != nil {
		err = cmp.Or(context.Cause(ctx), err)
	}
	return bytes, err
}

func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func defragCommand() *cobra.Command {
	var r reach
	var limit time.Duration
	c := &cobra.Command{
		Use:   "defrag",
		Short: "give back the space that members' keyspace files don't need",
		Long: `defrag has each member write its keyspace file anew, followers first and who leads
last, which hands leadership over before. A member serves nobody meanwhile, so the
next has its turn only while all voters answer. Ended by an error or by an interrupt,
it leaves the rest as they are.`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			return r.reached(func(opened *admin.Ring) error {
				return opened.Defragment(c.Context(), limit, func(d admin.Defragmented) {
					fmt.Fprintf(c.OutOrStdout(), "%s: %d bytes became %d\n", d.Member, d.Before, d.After)
				})
			})
		},
	}
	r.flags(c)
	c.Flags().DurationVar(&limit, "limit", 10*time.Minute, "how long one member may take")
	return c
}
