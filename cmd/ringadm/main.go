// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Command ringadm creates, grows, shrinks and repairs etcd rings.
package main

import (
	"os"

	"github.com/ringproof/ringproof/reference/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], cli.Seams{})) }
