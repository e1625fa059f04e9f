// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package observe

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof"
)

// TestLives: of what etcds ran on the last is kept, and told where no disk tells of it any more.
func TestLives(t *testing.T) {
	log := func(machine string, disk int, member ringproof.MemberID, last uint64) ringproof.MemberLog {
		return ringproof.MemberLog{Machine: machine, Disk: disk, Member: member, Last: last}
	}
	var l Lives
	l.Note(log("m2", 1, 2, 7))
	l.Note(log("m1", 2, 1, 3)) // the same member, on another disk
	l.Note(log("m1", 1, 1, 8))
	l.Note(log("m1", 1, 1, 9))
	read := []ringproof.MemberLog{log("m2", 1, 2, 12)}
	assert.Equal(t, []ringproof.MemberLog{read[0], log("m1", 1, 1, 9), log("m1", 2, 1, 3)}, l.Beside(read))
}
