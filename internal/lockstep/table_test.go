// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process has its parent's root directory in its machine's /proc, whatever is in its environment: an
// etcd is given none by its launcher, and ends with the container of both.
func TestTableTellsRoots(t *testing.T) {
	root, w := t.TempDir(), &world{}
	w.Dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "etcd"), nil, 0o700))
	for _, c := range []struct {
		p    *process
		name string
		want string
	}{
		{&process{pid: 101, root: root}, "/etcd", root},
		{&process{pid: 102}, filepath.Join(root, "etcd"), "/"},
	} {
		require.NoError(t, w.list(c.p, order{Name: c.name}, epoch))
		told, err := os.Readlink(filepath.Join(w.procfs(c.p.host), strconv.Itoa(c.p.pid), "root"))
		require.NoError(t, err)
		assert.Equal(t, c.want, told)
	}
}
