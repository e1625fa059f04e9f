// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build !unix

package etcdbin

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// endTogether leaves cmd as it is: nothing is built here.
func endTogether(*exec.Cmd) {}

// lock refuses, and with it every build: rings of real etcd are put on trial on Linux.
func lock(*os.File) error {
	return fmt.Errorf("etcd isn't built on %s: use the sim world", runtime.GOOS)
}
