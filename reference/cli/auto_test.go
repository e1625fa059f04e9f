// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// TestAutoWithoutItsStore: an agent that is started before its store is mounted runs its
// member by what the disk remembers. One that knows of no ring has nothing to do without.
func TestAutoWithoutItsStore(t *testing.T) {
	dir := t.TempDir()
	etcd := filepath.Join(dir, "bin")
	require.NoError(t, os.WriteFile(etcd, []byte("#!/bin/false\n"), 0o700))
	f := autoFlags{machine: "m1", address: "127.0.0.1", data: filepath.Join(dir, "data"), run: filepath.Join(dir, "run"), binaries: []string{"v3.6.16=" + etcd}, noMount: true}
	run := func(ctx context.Context) (string, error) {
		var out bytes.Buffer
		err := runAuto(ctx, &out, "file://"+filepath.Join(dir, "unmounted"), f, Seams{})
		return out.String(), err
	}
	_, err := run(t.Context())
	require.ErrorContains(t, err, "the directory does not exist: mount it")

	initialMember := store.InitialMember{Name: "m1", Machine: "m1", Disk: "d1", PeerURL: "http://127.0.0.1:2380", ClientURL: "http://127.0.0.1:2379"}
	known, err := json.Marshal(launcher.Known{SpecNumber: 1, Spec: store.Spec{Nodes: 1, Version: "v3.6.16", Security: ring.Plain},
		Identity: &store.Identity{Token: "ring-1", Members: []store.InitialMember{initialMember}, Epoch: 1}, Formed: true})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(f.data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(f.data, "known.json"), known, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	out, err := run(ctx)
	require.NoError(t, err)
	require.Contains(t, out, "goes on by what its disk remembers")
	require.Contains(t, out, "mount it")
}
