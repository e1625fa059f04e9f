// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Command toys is ringproof with a fault, an operation, a subject and a world of one's own.
package main

import (
	"os"

	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/harness/cli"

	"example.com/tiny/toys"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Registry{
		Subjects:   []cli.Subject{toys.Polite()},
		Worlds:     []cli.World{toys.World(), cli.Sim()},
		Faults:     []faults.Entry{toys.Nap},
		Operations: []faults.Operation{toys.Greet},
	}))
}
