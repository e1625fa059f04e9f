// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build unix

package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// reap waits for the children of others that have died, as the first process of a
// container must. etcd itself is waited for too; whoever looks for it asks the kernel.
func reap(ctx context.Context) {
	if os.Getpid() != 1 {
		return
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		defer signal.Stop(died)
		for {
			select {
			case <-ctx.Done():
				return
			case <-died:
				for pid := 1; pid > 0; {
					pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
				}
			}
		}
	}()
}
