// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Command tiny puts the launcher on trial, by every command that ringproof has.
package main

import (
	"os"

	"github.com/ringproof/ringproof/harness/cli"

	"example.com/tiny"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Registry{
		Subjects: []cli.Subject{tiny.Subject()},
		Worlds:   []cli.World{cli.Sim()},
	}))
}
