// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"fmt"
	"strings"
)

// What clients asked and heard prints itself, as evidence does: one line a value.

// String prints "operation 12, client 3, 1.2s..1.3s: get /w/k0 → revision 7, /w/k0="x"@5".
func (o Operation) String() string {
	return fmt.Sprintf("operation %d, client %d, %s..%s: %s → %s", o.ID, o.Client, o.Call, o.Return, o.Request, o.Outcome())
}

// Outcome prints what came of it: "revision 7, deleted 1", "refused: …", "no answer: …".
func (o Operation) Outcome() string {
	switch {
	case o.Refused:
		return "refused: " + o.Err
	case o.Response == nil:
		return "no answer: " + o.Err
	case o.Request.Kind.Operates():
		return o.upkeep()
	}
	text := fmt.Sprintf("revision %d", o.Response.Revision)
	switch o.Request.Kind {
	case RequestDelete:
		text += fmt.Sprintf(", deleted %d", o.Response.Deleted)
	case RequestTxn:
		text += fmt.Sprintf(", succeeded %t", o.Response.Succeeded)
	case RequestGrant:
		text += fmt.Sprintf(", lease %x of %d s", o.Response.Lease, o.Response.TTL)
	}
	for _, kv := range o.Response.KVs {
		text += fmt.Sprintf(", %s=%q@%d", kv.Key, kv.Value, kv.ModRevision)
	}
	return text + results(o.Response.Results)
}

func results(all []Response) string {
	text := ""
	for _, r := range all {
		switch {
		case len(r.KVs) > 0:
			text += " | " + joined(r.KVs)
		case r.Results != nil:
			text += fmt.Sprintf(" | succeeded %t", r.Succeeded) + results(r.Results)
		default:
			text += fmt.Sprintf(" | deleted %d", r.Deleted)
		}
	}
	return text
}

func joined(kvs []KV) string {
	var texts []string
	for _, kv := range kvs {
		texts = append(texts, kv.String())
	}
	return strings.Join(texts, ", ")
}

// upkeep is what a member said of itself.
func (o Operation) upkeep() string {
	u := o.Response.Upkeep
	if u == nil {
		return "answered"
	}
	switch o.Request.Kind {
	case RequestStatus:
		return fmt.Sprintf("%s, leader %s, term %d, index %d, applied %d, %d bytes of %d", u.Version, u.Leader, u.Term, u.Index, u.Applied, u.Size, u.Quota)
	case RequestHash:
		return fmt.Sprintf("%08x at revision %d, compacted at %d", u.Hash, u.At, u.Compacted)
	case RequestSnapshot:
		return fmt.Sprintf("%d bytes, whole %t", u.Size, u.Whole)
	case RequestDefrag:
		return "done"
	}
	return fmt.Sprintf("%d alarms %v", len(u.Alarms), u.Alarms)
}

// String prints "put /w/k0 "x", lease 1f" or "txn if mod of /a = 3 then put /a "y" else get /a".
func (r Request) String() string {
	text := string(r.Kind) + " " + r.Key
	switch r.Kind {
	case RequestPut:
		text += fmt.Sprintf(" %q", r.Value) + under(r.Lease)
	case RequestGrant:
		text = fmt.Sprintf("grant a lease of %d s", r.TTL)
	case RequestKeepAlive, RequestRevoke:
		text = fmt.Sprintf("%s lease %x", r.Kind, r.Lease)
	case RequestTxn:
		if r.General() {
			text = r.branches()
			break
		}
		text += fmt.Sprintf(" if mod=%d then %q", r.Compare, r.Value)
	case RequestCompact:
		text = fmt.Sprintf("compact %d", r.Revision)
	default:
		if r.Revision > 0 {
			text += fmt.Sprintf(" at revision %d", r.Revision)
		}
	}
	if r.From != "" {
		text += " from " + r.From
	}
	if r.Limit > 0 {
		text += fmt.Sprintf(", at most %d", r.Limit)
	}
	if r.Serializable {
		text += ", serializable"
	}
	return text
}

// branches is a transaction with what it compares and does.
func (r Request) branches() string {
	text := "txn"
	for i, c := range r.If {
		text += map[bool]string{true: " if ", false: " and "}[i == 0] + c.String()
	}
	return text + branch(" then ", r.Then) + branch(" else ", r.Else)
}

func branch(word string, requests []Request) string {
	var texts []string
	for _, r := range requests {
		texts = append(texts, r.String())
	}
	if len(texts) == 0 {
		return ""
	}
	return word + strings.Join(texts, "; ")
}

// String prints "mod of /a = 3".
func (c Comparison) String() string {
	if c.Target == "value" {
		return fmt.Sprintf("%s of %s %s %q", c.Target, c.Key, c.Is, c.Value)
	}
	return fmt.Sprintf("%s of %s %s %d", c.Target, c.Key, c.Is, c.Number)
}

// String prints "/a="x" written at revision 7 (create 3, version 2, lease 1f)".
func (kv KV) String() string {
	return fmt.Sprintf("%s=%q written at revision %d (create %d, version %d%s)", kv.Key, kv.Value, kv.ModRevision, kv.CreateRevision, kv.Version, under(kv.Lease))
}

// under says under which lease a key is.
func under(lease int64) string {
	if lease == 0 {
		return ""
	}
	return fmt.Sprintf(", lease %x", lease)
}

// String prints "/a="x" at revision 7", or "/a deleted at revision 7".
func (e WatchEvent) String() string {
	if e.Delete {
		return fmt.Sprintf("%s deleted at revision %d", e.KV.Key, e.Revision)
	}
	return fmt.Sprintf("%s=%q at revision %d%s", e.KV.Key, e.KV.Value, e.Revision, under(e.KV.Lease))
}

// String prints "remove 1f, index 12, seen at 3.4s".
func (c ConfChange) String() string {
	text := c.Kind + " " + c.Member.String()
	if c.Initial {
		text += ", an initial member"
	}
	return text + fmt.Sprintf(", index %d, seen at ", c.Index) + c.At.String()
}

// String prints "m2 (1f, 3.6.1): 0000abcd at revision 7, compacted at 0".
func (h Hash) String() string {
	if h.Err != "" {
		return fmt.Sprintf("%s (%s, %s): %s", h.Machine, h.Member, h.Version, h.Err)
	}
	return fmt.Sprintf("%s (%s, %s): %08x at revision %d, compacted at %d", h.Machine, h.Member, h.Version, h.Hash, h.Revision, h.Compact)
}
