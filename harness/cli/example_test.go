// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli_test

import (
	"fmt"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/harness/cli"
)

// A command line of your own is a main that says what is put on trial, and where. The
// subject here is put nowhere yet: its Ways say how it comes into a world.
func ExampleMain() {
	mine := cli.Registry{
		Subjects: []cli.Subject{{Name: "mine", Security: "plain", Supports: func(ringproof.Step) error { return nil }, Runs: func(ringproof.Plan) error { return nil }}},
		Worlds:   []cli.World{cli.Sim()},
	}
	fmt.Println("exit code", cli.Main([]string{"explain", "margin"}, mine))
	// Output:
	// margin (term): how many more voters the ring can lose: those that have their log, less the quorum
	// exit code 0
}
