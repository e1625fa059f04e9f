// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// belled is a ring that has refused or lost its first replies.
type belled struct {
	guarded
	silent int // how many requests are done and not answered
	stand  map[string]bool
}

func (b *belled) Alarm(_ context.Context, r *pb.AlarmRequest, _ ...grpc.CallOption) (*pb.AlarmResponse, error) {
	if b.refuses--; b.refuses >= 0 {
		return nil, rpctypes.ErrTimeout
	}
	b.stand[fmt.Sprintf("%s of %x", r.Alarm, r.MemberID)] = r.Action == pb.AlarmRequest_ACTIVATE
	if b.silent--; b.silent >= 0 {
		return nil, errors.New("no reply")
	}
	return &pb.AlarmResponse{}, nil
}

// TestAHandRaisesAnAlarm, and takes back that one, also where no reply said that it was raised
// and where its member has left.
func TestAHandRaisesAnAlarm(t *testing.T) {
	for name, c := range map[string]struct {
		refuses, silent int
		alarm           string
		says, stands    string
	}{
		"at once":             {0, 0, "CORRUPT", "the alarm CORRUPT of member 2 was raised by hand", "CORRUPT of 2"},
		"refused twice":       {2, 0, "NOSPACE", "the alarm NOSPACE of member 2 was raised by hand", "NOSPACE of 2"},
		"none is named":       {0, 0, "", "the alarm NOSPACE of member 2 was raised by hand", "NOSPACE of 2"},
		"no reply comes ever": {0, tries, "NOSPACE", "", "NOSPACE of 2"},
	} {
		b, all := &belled{guarded: guarded{refuses: c.refuses, at: 2}, silent: c.silent, stand: map[string]bool{}}, &Alarms{}
		ask := []Asking{func(ctx context.Context, what func(context.Context, Etcd) error) error { return what(ctx, b) }}
		sleep := func(context.Context, time.Duration) error { return nil }
		said, err := all.Raise(t.Context(), "step", ask, c.alarm, "10.0.0.2", sleep)
		require.Equal(t, c.says, said, name)
		require.Equal(t, c.says == "", err != nil, "%s: %v", name, err)
		require.Equal(t, map[string]bool{c.stands: true}, b.stand, name)
		b.at, b.refuses = 3, untilServing-1
		require.NoError(t, all.TakeBack(t.Context(), "another", ask, sleep), name)
		require.NoError(t, all.TakeBack(t.Context(), "step", ask, sleep), name)
		require.Equal(t, map[string]bool{c.stands: false}, b.stand, name)
	}
}
