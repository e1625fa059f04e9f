// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build !unix

package host

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// An agent has its machine on Unix only. Elsewhere the package compiles, so that rings can
// be simulated, and every way to a real machine is refused.
var errElsewhere = fmt.Errorf("an agent looks after etcd on Unix, and this is %s: run it there", runtime.GOOS)

func mounted(string) (bool, error)            { return false, errElsewhere }
func ownSession() *syscall.SysProcAttr        { return nil }
func signalProcess(int, syscall.Signal) error { return errElsewhere }
func lock(*os.File) error                     { return errElsewhere }
