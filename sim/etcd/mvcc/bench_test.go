// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc_test

import (
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/ringproof/ringproof/sim/etcd/mvcc"
)

const benchKeys = 5000

func benchKey(i int) []byte { return fmt.Appendf(nil, "/registry/things/%05d", i%benchKeys) }

func filled() *mvcc.Store {
	s := mvcc.New()
	for i := range benchKeys {
		s.Put(&pb.PutRequest{Key: benchKey(i), Value: []byte("a value of some length")})
	}
	return s
}

// BenchmarkPut compacts now and then, as a long run does.
func BenchmarkPut(b *testing.B) {
	s := filled()
	reqs := make([]*pb.PutRequest, benchKeys)
	for i := range reqs {
		reqs[i] = &pb.PutRequest{Key: benchKey(i * 7), Value: []byte("another value")}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Put(reqs[i%benchKeys])
		if i%10_000 == 9_999 {
			s.Compact(s.Revision() - 1000)
		}
	}
}

func BenchmarkRangeOne(b *testing.B) {
	s := filled()
	req := &pb.RangeRequest{Key: benchKey(1234)}
	b.ReportAllocs()
	for b.Loop() {
		s.Range(req)
	}
}

func BenchmarkRange100(b *testing.B) {
	s := filled()
	req := &pb.RangeRequest{Key: benchKey(1200), RangeEnd: benchKey(1300)}
	b.ReportAllocs()
	for b.Loop() {
		s.Range(req)
	}
}

func BenchmarkTxn(b *testing.B) {
	s := filled()
	req := &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: benchKey(1), Target: pb.Compare_VERSION, Result: pb.Compare_GREATER}},
		Success: do(&pb.PutRequest{Key: benchKey(1), Value: []byte("v")}, &pb.RangeRequest{Key: benchKey(2)}),
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if mvcc.CheckTxn(req, mvcc.MaxTxnOps) == nil {
			s.Txn(req)
		}
		if i%10_000 == 9_999 {
			s.Compact(s.Revision() - 1000)
		}
	}
}

// BenchmarkClone includes the first put after, which copies what is shared.
func BenchmarkClone(b *testing.B) {
	s := filled()
	req := &pb.PutRequest{Key: benchKey(1)}
	b.ReportAllocs()
	for b.Loop() {
		s.Clone().Put(req)
	}
}

func BenchmarkCompact(b *testing.B) {
	s := filled()
	req := &pb.PutRequest{Key: benchKey(1)}
	b.ReportAllocs()
	for b.Loop() {
		for range 100 {
			s.Put(req)
		}
		s.Compact(s.Revision())
	}
}

func BenchmarkHash(b *testing.B) {
	s := filled()
	b.ReportAllocs()
	for b.Loop() {
		s.Hash(0)
	}
}

func BenchmarkWatch100(b *testing.B) {
	s := filled()
	var watches []*mvcc.Watch
	for i := range 100 {
		w, _ := s.Watch(&pb.WatchCreateRequest{Key: benchKey(i)})
		watches = append(watches, w)
	}
	req := &pb.PutRequest{Key: benchKey(1)}
	b.ReportAllocs()
	for b.Loop() {
		s.Put(req)
		for _, w := range watches {
			w.Next(1000)
		}
	}
}

func BenchmarkWatchIdle(b *testing.B) {
	s := filled()
	w, _ := s.Watch(&pb.WatchCreateRequest{RangeEnd: []byte{0}})
	for b.Loop() {
		w.Next(1000)
	}
}
