// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestExtraFlagsComeLast(t *testing.T) {
	c := Command{Binary: "etcd", Version: "v3.6.16", Name: "m1", Flags: []string{"max-learners=2", "quota-backend-bytes=16777216"}}
	args := c.Args()
	assert.Equal(t, []string{"--max-learners=2", "--quota-backend-bytes=16777216"}, args[len(args)-2:])
}
