// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Command ringproof runs scenarios of faults against automation that operates
// etcd, and says whether what it promises holds.
package main

import (
	"os"

	"github.com/ringproof/ringproof/harness/cli"
	"github.com/ringproof/ringproof/internal/subject"
)

// registry is what this program puts on trial, and where.
var registry = cli.Registry{
	Subjects: []cli.Subject{reference()},
	Worlds:   []cli.World{cli.Sim(), cli.Local(), cli.Virtual(), cli.Kind()},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "subject" {
		os.Exit(subject.Main(os.Args[2:]))
	}
	if args, ok := subject.Planted(); ok {
		os.Exit(subject.Main(args))
	}
	os.Exit(cli.Main(os.Args[1:], registry))
}
