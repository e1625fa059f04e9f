// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"pgregory.net/rapid"
)

// What is counted as used is what is kept, and nothing is kept for ever. It
// catches a compaction that forgets a change and not its bytes, or the bytes
// twice: the size of a long run would creep up to its quota.
func TestUsedIsWhatIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				value := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "value")
				_, err := s.Put(&pb.PutRequest{Key: []byte(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")), Value: value})
				require.NoError(t, err)
			},
			"delete":  func(t *rapid.T) { s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("c")}) },
			"compact": func(t *rapid.T) { s.Compact(rapid.Int64Range(0, s.revision).Draw(t, "revision")) },
			"": func(t *rapid.T) {
				kept := map[*change]bool{}
				for _, changes := range [][]*change{s.edge, s.log, s.compacted()} {
					for _, c := range changes {
						kept[c] = true
					}
				}
				sum := int64(0)
				for c := range kept {
					sum += int64(c.size)
				}
				require.Equal(t, sum, s.used)
				s.head.Ascend(func(c *change) bool {
					require.False(t, c.deleted && c.main() <= s.compactRev, "a deletion that nothing can show any more")
					return true
				})
			},
		})
	})
}
