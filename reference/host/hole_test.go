// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build unix

package host_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// TestWALThatGoesOnBehindItsEnd has etcd read a log as shorter than it was. Of what was torn as the
// power went that is so by right.
func TestWALThatGoesOnBehindItsEnd(t *testing.T) {
	const batches, each = 40, 3
	zeros := func(b []byte) { clear(b) }
	others := func(b []byte) {
		for i := range b {
			b[i] = ^b[i]
		}
	}
	for name, spoil := range map[string]struct {
		from, to int // of the bytes that were written; negative: before their end
		how      func([]byte)
		says     string // where it is cut off
		fails    bool
	}{
		"as it was":               {how: zeros},
		"a block of zeros":        {from: 4096, to: 4608, how: zeros, says: "goes on behind it"},
		"a length of no sense":    {from: 4000, to: 4300, how: others, fails: true},
		"zeros to the end":        {from: 4096, to: 1 << 20, how: zeros},
		"a torn record":           {from: -100, to: 1 << 20, how: zeros},
		"a hole in the last Save": {from: -700, to: -500, how: zeros},
	} {
		t.Run(name, func(t *testing.T) {
			d, w := newLog(t)
			for i := range batches {
				var entries []*raftpb.Entry
				for j := range each {
					entries = append(entries, &raftpb.Entry{Term: proto.Uint64(1), Index: proto.Uint64(uint64(i*each + j + 1)), Data: request(t, 200)})
				}
				require.NoError(t, w.Save(&raftpb.HardState{Term: proto.Uint64(1), Commit: proto.Uint64(uint64(i * each))}, entries))
			}
			require.NoError(t, w.Close())
			files, err := filepath.Glob(filepath.Join(d.Path("etcd/member/wal"), "*.wal"))
			require.NoError(t, err)
			content, err := os.ReadFile(files[0])
			require.NoError(t, err)
			written := content[:len(bytes.TrimRight(content, "\x00"))]
			from, to := spoil.from, min(spoil.to, len(written))
			if from < 0 {
				from += len(written)
			}
			if to < 0 {
				to += len(written)
			}
			spoil.how(written[from:to])
			require.NoError(t, os.WriteFile(files[0], content, 0o600))
			found, err := d.WAL("etcd")
			switch {
			case spoil.fails:
				require.Error(t, err)
			case spoil.says == "":
				require.NoError(t, err)
				require.Empty(t, found.Cut)
			default:
				require.NoError(t, err)
				require.Contains(t, found.Cut, spoil.says)
				require.Less(t, found.Last, uint64(batches*each))
			}
		})
	}
}
