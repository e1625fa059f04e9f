// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package sim

import (
	"context"
	"crypto/sha256"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestWhoLeavesIsHeard: a member without a leader writes nothing for a client
// that has left, if it hears of that. A deadline came with the request; whoever
// leaves before has to get through, and what he wanted comes true if he doesn't.
func TestWhoLeavesIsHeard(t *testing.T) {
	play(t, 7, &keeper{size: 3, machines: 4}, func(s *stage) {
		s.formed()
		asked, from := s.follower(), s.machine("m4")
		s.block("alone", []*Machine{asked}, s.keep.initialMembers(), "")
		s.block("alone", s.keep.initialMembers(), []*Machine{asked}, "")
		s.until(10*time.Second, "it has no leader", func() bool {
			said, err := say[*pb.StatusResponse](asked.etcd, &pb.StatusRequest{})
			return err == nil && said.Leader == 0
		})
		put := func(key string, within time.Duration, meanwhile func(leave context.CancelFunc)) {
			ctx, leave := s.Timeout(s.ctx, within)
			defer leave()
			s.Go(s.ctx, "meanwhile", func(ctx context.Context) {
				assert.NoError(s, s.Sleep(ctx, 500*time.Millisecond))
				meanwhile(leave)
			})
			_, err := s.dial(from, asked).Put(ctx, key, "v")
			require.Error(s, err)
		}
		cut := func() { s.network.cut("silent", from, asked, "") }
		put("leaves", time.Minute, func(leave context.CancelFunc) { leave() })
		put("deadline", time.Second, func(context.CancelFunc) { cut() })
		s.sleep(100 * time.Millisecond)
		s.network.mend("silent")
		put("unheard", time.Minute, func(leave context.CancelFunc) { cut(); leave() })
		s.sleep(time.Second)
		s.network.mend("alone")
		s.sleep(10 * time.Second)
		got := map[string]string{}
		for _, key := range []string{"leaves", "deadline", "unheard"} {
			var err error
			got[key], err = s.get(s.dial(nil, asked), key)
			require.NoError(s, err)
		}
		assert.Equal(s, map[string]string{"leaves": "", "deadline": "", "unheard": "v"}, got)
	})
}

// TestABackup has the sum of the rest at its end, and is read without a thread
// of its own.
func TestABackup(t *testing.T) {
	ring(t, 3, func(s *stage) {
		body, err := s.dial(nil, s.follower()).Snapshot(s.ctx)
		require.NoError(s, err)
		content, err := io.ReadAll(body)
		require.NoError(s, err)
		sum := sha256.Sum256(content[:len(content)-sha256.Size])
		assert.Equal(s, sum[:], content[len(content)-sha256.Size:])
	})
}

// say asks the server what it answers at once.
func say[R any](s *server, request any) (said R, err error) {
	err = errDown
	s.hear(func() {
		s.etcd.Call(nil, request, func(reply any, failed error) {
			if err = failed; err == nil {
				said = reply.(R)
			}
		})
	})
	return said, err
}
