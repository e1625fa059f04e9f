// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package host

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLastWords: the reason of a panic stands before the stacks of all goroutines, and one
// of an earlier life is none.
func TestLastWords(t *testing.T) {
	stacks := strings.Repeat("goroutine 7 [select]:\n\tmain.go:1\n", 1000)
	log := "{\"level\":\"info\",\"msg\":\"up\"}\n"
	require.Equal(t, "panic: tocommit(9) is out of range\n", lastWords(log + "panic: tocommit(9) is out of range\n" + stacks)[:35])
	require.Len(t, lastWords(log+stacks+strings.Repeat(log, 100)), 2048)
	require.NotContains(t, lastWords(log+"panic: it\n"+stacks+log), "panic")
	require.NotContains(t, lastWords(log+"panic: it\n"+stacks+"flag provided but not defined: -x\nUsage:\n\n  etcd [flags]\n"), "panic")
}

// TestInherited names what an operator has set in vain, and nothing else.
func TestInherited(t *testing.T) {
	before := Inherited()
	t.Setenv("ETCD_FORCE_NEW_CLUSTER", "true")
	t.Setenv("XETCD_NAME", "x")
	require.ElementsMatch(t, append(before, "ETCD_FORCE_NEW_CLUSTER"), Inherited())
}
