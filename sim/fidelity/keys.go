// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var keyCommands = map[string]command{
	"put":     {(*stage).put, 1, 5, "on lease size"},
	"get":     {(*stage).get, 1, 4, "on rev limit sort min-mod max-mod min-create max-create"},
	"del":     {(*stage).del, 1, 2, "on"},
	"txn":     {(*stage).txn, 0, 0, "on"},
	"puts":    {(*stage).puts, 2, 2, "on size"},
	"compact": {(*stage).compact, 1, 2, "on"},
}

// span reads how a script writes keys: k is one, k* are those that begin with
// k, a..c are those from a to before c, a.. all from a, and "" is no key.
func span(text string) (key string, opts []clientv3.OpOption) {
	if prefix, ok := strings.CutSuffix(text, "*"); ok {
		return prefix, []clientv3.OpOption{clientv3.WithPrefix()}
	}
	from, to, ranged := strings.Cut(text, "..")
	switch {
	case ranged && to == "":
		return from, []clientv3.OpOption{clientv3.WithFromKey()}
	case ranged:
		return from, []clientv3.OpOption{clientv3.WithRange(to)}
	case text == `""`:
		return "", nil
	}
	return text, nil
}

func (s *stage) putOp(c call) clientv3.Op {
	key, _ := span(c.words[0])
	var opts []clientv3.OpOption
	if lease, ok := c.opts["lease"]; ok {
		opts = append(opts, clientv3.WithLease(s.lease(lease)))
	}
	words := []string{}
	for _, word := range c.words[1:] {
		switch word {
		case "prev":
			opts = append(opts, clientv3.WithPrevKV())
		case "ignore-value":
			opts = append(opts, clientv3.WithIgnoreValue())
		case "ignore-lease":
			opts = append(opts, clientv3.WithIgnoreLease())
		default:
			words = append(words, word)
		}
	}
	value := strings.Join(words, " ")
	if size := c.number("size"); size > 0 {
		value = strings.Repeat("x", int(size))
	}
	return clientv3.OpPut(key, value, opts...)
}

func getOp(c call) clientv3.Op {
	key, opts := span(c.words[0])
	for _, word := range c.words[1:] {
		switch word {
		case "keys":
			opts = append(opts, clientv3.WithKeysOnly())
		case "count":
			opts = append(opts, clientv3.WithCountOnly())
		case "serializable":
			opts = append(opts, clientv3.WithSerializable())
		}
	}
	opts = append(opts, clientv3.WithRev(c.number("rev")), clientv3.WithLimit(c.number("limit")),
		clientv3.WithMinModRev(c.number("min-mod")), clientv3.WithMaxModRev(c.number("max-mod")),
		clientv3.WithMinCreateRev(c.number("min-create")), clientv3.WithMaxCreateRev(c.number("max-create")))
	if by, ok := c.opts["sort"]; ok {
		opts = append(opts, sorted(by))
	}
	return clientv3.OpGet(key, opts...)
}

var sortTargets = map[string]clientv3.SortTarget{
	"key": clientv3.SortByKey, "version": clientv3.SortByVersion, "value": clientv3.SortByValue,
	"create": clientv3.SortByCreateRevision, "mod": clientv3.SortByModRevision,
}

// sorted reads "mod", or "mod:down".
func sorted(by string) clientv3.OpOption {
	target, down := strings.CutSuffix(by, ":down")
	order := clientv3.SortAscend
	if down {
		order = clientv3.SortDescend
	}
	return clientv3.WithSort(sortTargets[target], order)
}

func delOp(c call) clientv3.Op {
	key, opts := span(c.words[0])
	if c.is("prev") {
		opts = append(opts, clientv3.WithPrevKV())
	}
	return clientv3.OpDelete(key, opts...)
}

// perform does one operation and prints its answer.
func (s *stage) perform(ctx context.Context, c call, op clientv3.Op) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).Do(ctx, op)
	if err != nil {
		return failed(err)
	}
	switch {
	case op.IsPut():
		return s.putSaid(got.Put())
	case op.IsGet():
		return s.getSaid(got.Get())
	case op.IsDelete():
		return s.delSaid(got.Del())
	}
	return s.txnSaid(got.Txn())
}

func (s *stage) put(ctx context.Context, c call) string { return s.perform(ctx, c, s.putOp(c)) }
func (s *stage) get(ctx context.Context, c call) string { return s.perform(ctx, c, getOp(c)) }
func (s *stage) del(ctx context.Context, c call) string { return s.perform(ctx, c, delOp(c)) }

// puts puts a key again and again: puts KEY TIMES.
func (s *stage) puts(ctx context.Context, c call) string {
	times, err := strconv.Atoi(c.words[1])
	if err != nil {
		return failed(err)
	}
	said := "nothing put"
	for i := range times {
		c.words = []string{c.words[0], fmt.Sprintf("v%d", i+1)}
		if said = s.perform(ctx, c, s.putOp(c)); !strings.HasPrefix(said, "ok") {
			return fmt.Sprintf("put %d: %s", i+1, said)
		}
	}
	return fmt.Sprintf("put %d times, %s", times, said)
}

// at is the revision of an answer. Parts of a transaction's answer have none.
func (s *stage) at(header interface{ GetRevision() int64 }) string {
	if revision := header.GetRevision(); revision > 0 && !s.filled {
		return fmt.Sprintf("; revision %d", revision)
	}
	return ""
}

func (s *stage) putSaid(got *clientv3.PutResponse) string {
	line := "ok" + s.at(got.Header)
	if got.PrevKv != nil {
		line += "\nbefore: " + s.pair(got.PrevKv)
	}
	return line
}

func (s *stage) getSaid(got *clientv3.GetResponse) string {
	var lines []string
	for _, kv := range got.Kvs {
		lines = append(lines, s.pair(kv))
	}
	line := fmt.Sprintf("count %d", got.Count)
	if got.More {
		line += ", there are more"
	}
	return strings.Join(append(lines, line+s.at(got.Header)), "\n")
}

func (s *stage) delSaid(got *clientv3.DeleteResponse) string {
	lines := []string{fmt.Sprintf("deleted %d", got.Deleted) + s.at(got.Header)}
	if s.filled && got.Deleted > 1 {
		lines[0] = "deleted many"
	}
	for _, kv := range got.PrevKvs {
		lines = append(lines, "before: "+s.pair(kv))
	}
	return strings.Join(lines, "\n")
}

// pair is "k = v (create 2, mod 3, version 2, lease L)".
func (s *stage) pair(kv *mvccpb.KeyValue) string {
	value := string(kv.Value)
	if len(value) > 40 {
		value = fmt.Sprintf("%d bytes", len(value))
	}
	lease := ""
	if kv.Lease != 0 {
		lease = ", lease " + s.leaseName(clientv3.LeaseID(kv.Lease))
	}
	return fmt.Sprintf("%s = %s (create %d, mod %d, version %d%s)", kv.Key, value, kv.CreateRevision, kv.ModRevision, kv.Version, lease)
}

func (s *stage) compact(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	revision, err := strconv.ParseInt(c.words[0], 10, 64)
	if c.words[0] == "now" { // after as many writes as fitted
		var got *clientv3.GetResponse
		if got, err = s.asked(c).Get(ctx, "none"); err == nil {
			revision = got.Header.Revision
		}
	}
	if err != nil {
		return failed(err)
	}
	var opts []clientv3.CompactOption
	if c.is("physical") {
		opts = append(opts, clientv3.WithCompactPhysical())
	}
	got, err := s.asked(c).Compact(ctx, revision, opts...)
	if err != nil {
		return failed(err)
	}
	return "compacted" + s.at(got.Header)
}

// txn reads its input: lines of if, then and else. What is indented below
// "then txn" or "else txn" is a transaction inside.
func (s *stage) txn(ctx context.Context, c call) string {
	op, err := s.txnOp(c.input)
	if err != nil {
		return failed(err)
	}
	return s.perform(ctx, c, op)
}

func (s *stage) txnOp(input []string) (clientv3.Op, error) {
	var compares []clientv3.Cmp
	branches := map[string][]clientv3.Op{}
	for i := 0; i < len(input); i++ {
		word, rest, _ := strings.Cut(input[i], " ")
		if word == "if" {
			compare, err := s.compare(strings.Fields(rest))
			if err != nil {
				return clientv3.Op{}, err
			}
			compares = append(compares, compare)
			continue
		}
		var inside []string
		for i+1 < len(input) && strings.HasPrefix(input[i+1], "  ") {
			i++
			inside = append(inside, strings.TrimPrefix(input[i], "  "))
		}
		op, err := s.op(rest, inside)
		if err != nil {
			return clientv3.Op{}, err
		}
		branches[word] = append(branches[word], op)
	}
	return clientv3.OpTxn(compares, branches["then"], branches["else"]), nil
}

func (s *stage) op(line string, inside []string) (clientv3.Op, error) {
	c, err := parseCall(line)
	if err != nil {
		return clientv3.Op{}, err
	}
	switch c.name {
	case "put":
		return s.putOp(c), nil
	case "get":
		return getOp(c), nil
	case "del":
		return delOp(c), nil
	case "txn":
		return s.txnOp(inside)
	}
	return clientv3.Op{}, fmt.Errorf("%s: not in a transaction; there are put, get, del and txn", c.name)
}

// compare reads "value k = v", with = != < >, of value, version, create, mod
// and lease; of many keys, all must hold.
func (s *stage) compare(words []string) (clientv3.Cmp, error) {
	if len(words) != 4 {
		return clientv3.Cmp{}, fmt.Errorf("if %q: write it like \"if value k = v\"", words)
	}
	key, _ := span(strings.TrimSuffix(words[1], "*"))
	from, to, ranged := strings.Cut(key, "..")
	number, _ := strconv.ParseInt(words[3], 10, 64)
	var compare clientv3.Cmp
	switch words[0] {
	case "value":
		compare = clientv3.Compare(clientv3.Value(from), words[2], words[3])
	case "version":
		compare = clientv3.Compare(clientv3.Version(from), words[2], number)
	case "create":
		compare = clientv3.Compare(clientv3.CreateRevision(from), words[2], number)
	case "mod":
		compare = clientv3.Compare(clientv3.ModRevision(from), words[2], number)
	case "lease":
		compare = clientv3.Compare(clientv3.LeaseValue(from), words[2], s.leaseOrNone(words[3]))
	default:
		return clientv3.Cmp{}, fmt.Errorf("if %s: there are value, version, create, mod and lease", words[0])
	}
	if ranged {
		compare = compare.WithRange(to)
	}
	if strings.HasSuffix(words[1], "*") {
		compare = compare.WithPrefix()
	}
	return compare, nil
}

func (s *stage) txnSaid(got *clientv3.TxnResponse) string {
	lines := []string{"failed" + s.at(got.Header)}
	if got.Succeeded {
		lines[0] = "succeeded" + s.at(got.Header)
	}
	for _, each := range got.Responses {
		said := ""
		switch {
		case each.GetResponsePut() != nil:
			said = s.putSaid((*clientv3.PutResponse)(each.GetResponsePut()))
		case each.GetResponseRange() != nil:
			said = s.getSaid((*clientv3.GetResponse)(each.GetResponseRange()))
		case each.GetResponseDeleteRange() != nil:
			said = s.delSaid((*clientv3.DeleteResponse)(each.GetResponseDeleteRange()))
		case each.GetResponseTxn() != nil:
			said = s.txnSaid((*clientv3.TxnResponse)(each.GetResponseTxn()))
		}
		lines = append(lines, "- "+strings.ReplaceAll(said, "\n", "\n  "))
	}
	return strings.Join(slices.Clip(lines), "\n")
}
