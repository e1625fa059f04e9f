// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"bytes"
	"os"
)

// The hidden first arguments of this executable.
const (
	asInit   = "machines-init"
	asHost   = "machines-host"
	asDoctor = "machines-doctor"
)

// withoutNamespaces is the environment variable that, set to 1, forces the fallback.
const withoutNamespaces = "RINGPROOF_NO_NAMESPACES"

// self is this executable even after its file was replaced or removed, as go run and go test do.
const self = "/proc/self/exe"

// Enter does the work of a process that this package started, if this is one, and returns its exit
// code. It belongs first in main and in TestMain.
func Enter() (entered bool, code int) {
	if len(os.Args) < 2 {
		return false, 0
	}
	switch os.Args[1] {
	case asInit:
		return true, beInit(os.Args[2:])
	case asHost:
		return true, beHost()
	case asDoctor:
		return true, beDoctor()
	}
	return false, 0
}

// Inside reports whether this process runs in a sandbox. It asks process 1 and not the environment, which
// a user's shell could carry along: outside, the lab would build its bridge on the real network.
func Inside() bool {
	line, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		return false
	}
	args := bytes.Split(line, []byte{0})
	return len(args) > 1 && string(args[1]) == asInit
}
