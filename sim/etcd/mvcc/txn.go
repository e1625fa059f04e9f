// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package mvcc

import (
	"bytes"
	"cmp"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Put carries out a put that CheckPut lets through. It fails with
// ErrGRPCLeaseNotFound and, when a value or lease that isn't there is to be
// kept, with ErrGRPCKeyNotFound.
func (s *Store) Put(req *pb.PutRequest) (*pb.PutResponse, error) {
	if err := s.leased(req); err != nil {
		return nil, err
	}
	resp, err := s.putOf(req)
	s.complete()
	return resp, err
}

func (s *Store) leased(req *pb.PutRequest) error {
	if req.Lease != 0 && !s.leases.Has(lease{id: req.Lease}) {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	return nil
}

func (s *Store) replaces(req *pb.PutRequest) error {
	if (req.IgnoreValue || req.IgnoreLease) && s.get(req.Key, s.current()) == nil {
		return rpctypes.ErrGRPCKeyNotFound
	}
	return nil
}

func (s *Store) putOf(req *pb.PutRequest) (*pb.PutResponse, error) {
	resp, header := headed(s, &s.nobody.put)
	resp.Header, header.Revision = header, s.revision+1
	value, held := req.Value, req.Lease
	if req.IgnoreValue || req.IgnoreLease || req.PrevKv {
		old := s.get(req.Key, s.current())
		switch {
		case old == nil && (req.IgnoreValue || req.IgnoreLease):
			return nil, rpctypes.ErrGRPCKeyNotFound
		case old == nil:
			old = &change{}
		case req.PrevKv:
			resp.PrevKv = &old.kv
		}
		if req.IgnoreValue {
			value = old.kv.Value
		}
		if req.IgnoreLease {
			held = old.kv.Lease
		}
	}
	s.put(req.Key, value, held)
	return resp, nil
}

// DeleteRange carries out a deletion that CheckDelete lets through. One that
// deletes nothing makes no revision.
func (s *Store) DeleteRange(req *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	resp := s.deleteOf(req)
	s.complete()
	return resp
}

func (s *Store) deleteOf(req *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	resp, header := headed(s, &s.nobody.remove)
	var doomed []*change
	s.each(req.Key, req.RangeEnd, s.current(), func(c *change) { doomed = append(doomed, c) })
	for _, c := range doomed {
		s.remove(c)
		if req.PrevKv && !s.Unheard {
			resp.PrevKvs = append(resp.PrevKvs, &c.kv)
		}
	}
	resp.Deleted = int64(len(doomed))
	resp.Header, header.Revision = header, s.current()
	return resp
}

// Txn carries out a transaction that CheckTxn lets through, in one revision or,
// when it changes nothing, in none. Every comparison, of nested transactions
// too, is made before the first operation. It fails like its operations, and
// then nothing is changed.
//
// It panics where etcd's members do: a transaction may delete from a key on
// without an end, which CheckTxn doesn't see, and then put one of those keys
// and keep its value.
func (s *Store) Txn(req *pb.TxnRequest) (*pb.TxnResponse, error) {
	decided := s.decide(nil, req)
	if err := s.checked(req, decided); err != nil {
		return nil, err
	}
	resp := s.txnOf(req, &decided)
	resp.Header.Revision = s.current()
	s.complete()
	return resp, nil
}

// branches are the outcomes of a transaction's comparisons and those of the
// nested ones in the branch it takes, in the order of their operations.
type branches []bool

func (b *branches) take(req *pb.TxnRequest) (succeeded bool, ops []*pb.RequestOp) {
	succeeded, *b = (*b)[0], (*b)[1:]
	return succeeded, opsOf(req, succeeded)
}

func opsOf(req *pb.TxnRequest, succeeded bool) []*pb.RequestOp {
	if succeeded {
		return req.Success
	}
	return req.Failure
}

func (s *Store) decide(so branches, req *pb.TxnRequest) branches {
	succeeded := true
	for _, c := range req.Compare {
		if succeeded = s.holds(c); !succeeded {
			break
		}
	}
	so = append(so, succeeded)
	for _, op := range opsOf(req, succeeded) {
		if nested := op.GetRequestTxn(); nested != nil {
			so = s.decide(so, nested)
		}
	}
	return so
}

// holds reports whether a comparison is true of every key of its range. Of no key
// it is asked of an empty one, but then no value is equal, not even none.
func (s *Store) holds(c *pb.Compare) bool {
	some, all := false, true
	s.each(c.Key, c.RangeEnd, s.current(), func(found *change) {
		some, all = true, all && holdsOf(c, &found.kv)
	})
	if !some {
		return c.Target != pb.Compare_VALUE && holdsOf(c, &mvccpb.KeyValue{})
	}
	return all
}

func holdsOf(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	difference := 0
	switch c.Target {
	case pb.Compare_VALUE:
		difference = bytes.Compare(kv.Value, c.GetValue())
	case pb.Compare_CREATE:
		difference = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		difference = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case pb.Compare_VERSION:
		difference = cmp.Compare(kv.Version, c.GetVersion())
	case pb.Compare_LEASE:
		difference = cmp.Compare(kv.Lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return difference == 0
	case pb.Compare_NOT_EQUAL:
		return difference != 0
	case pb.Compare_GREATER:
		return difference > 0
	case pb.Compare_LESS:
		return difference < 0
	}
	return true
}

// checked finds the first operation that can't be carried out. etcd 3.5 looks
// at all puts before the first range, so that of two faults it names another.
func (s *Store) checked(req *pb.TxnRequest, decided branches) error {
	if s.Release == V3_5 {
		puts := decided
		if err := checkOps(req, &puts, s.checkPutOp); err != nil {
			return err
		}
		return checkOps(req, &decided, s.checkRangeOp)
	}
	return checkOps(req, &decided, func(op *pb.RequestOp) error {
		if err := s.checkPutOp(op); err != nil {
			return err
		}
		return s.checkRangeOp(op)
	})
}

func checkOps(req *pb.TxnRequest, decided *branches, check func(*pb.RequestOp) error) error {
	_, ops := decided.take(req)
	for _, op := range ops {
		if nested := op.GetRequestTxn(); nested != nil {
			if err := checkOps(nested, decided, check); err != nil {
				return err
			}
		} else if err := check(op); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) checkPutOp(op *pb.RequestOp) error {
	put := op.GetRequestPut()
	if put == nil {
		return nil
	}
	first, then := s.leased, s.replaces
	if s.Release != V3_7 {
		first, then = then, first
	}
	if err := first(put); err != nil {
		return err
	}
	return then(put)
}

func (s *Store) checkRangeOp(op *pb.RequestOp) error {
	read := op.GetRequestRange()
	switch {
	case read == nil || read.Revision == 0:
		return nil
	case read.Revision > s.revision:
		return rpctypes.ErrGRPCFutureRev
	case read.Revision < s.compactRev:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

func (s *Store) txnOf(req *pb.TxnRequest, decided *branches) *pb.TxnResponse {
	succeeded, ops := decided.take(req)
	resp, header := headed(s, &s.nobody.txn)
	resp.Header, resp.Succeeded = header, succeeded
	if s.Unheard {
		for _, op := range ops {
			s.doUnheard(op, decided)
		}
		return resp
	}
	resp.Responses = make([]*pb.ResponseOp, len(ops))
	for i, op := range ops {
		resp.Responses[i] = s.do(op, decided)
	}
	return resp
}

// headed is an empty response with its header: nobody's, if nobody hears it.
func headed[R any](s *Store, nobodys *R) (*R, *pb.ResponseHeader) {
	if s.Unheard {
		return nobodys, &s.nobody.header
	}
	return Headed[R]()
}

func (s *Store) do(op *pb.RequestOp, decided *branches) *pb.ResponseOp {
	var err error
	done := &pb.ResponseOp{}
	switch op := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		answer := &pb.ResponseOp_ResponseRange{}
		answer.ResponseRange, err = s.Range(op.RequestRange)
		done.Response = answer
	case *pb.RequestOp_RequestPut:
		answer := &pb.ResponseOp_ResponsePut{}
		answer.ResponsePut, err = s.putOf(op.RequestPut)
		done.Response = answer
	case *pb.RequestOp_RequestDeleteRange:
		done.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: s.deleteOf(op.RequestDeleteRange)}
	case *pb.RequestOp_RequestTxn:
		done.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: s.txnOf(op.RequestTxn, decided)}
	}
	mustDo(op, err)
	return done
}

// doUnheard is do without its answer: a read is nothing then.
func (s *Store) doUnheard(op *pb.RequestOp, decided *branches) {
	switch op := op.Request.(type) {
	case *pb.RequestOp_RequestPut:
		_, err := s.putOf(op.RequestPut)
		mustDo(op, err)
	case *pb.RequestOp_RequestDeleteRange:
		s.deleteOf(op.RequestDeleteRange)
	case *pb.RequestOp_RequestTxn:
		s.txnOf(op.RequestTxn, decided)
	}
}

func mustDo(op any, err error) {
	if err != nil {
		panic(fmt.Sprintf("mvcc: %v failed within a transaction that was checked: %v; etcd's member stops here too", op, err))
	}
}
