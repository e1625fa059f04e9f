// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof"
)

// operate asks what is about a member.
func (c *Client) operate(ctx context.Context, r ringproof.Request) (ringproof.Response, error) {
	switch r.Kind {
	case ringproof.RequestStatus:
		return c.status(ctx)
	case ringproof.RequestHash:
		hashed, err := c.Upkeep.HashKV(ctx, c.URL, r.Revision)
		if err != nil {
			return ringproof.Response{}, err
		}
		// Before 3.6 a member doesn't say which revision it hashed.
		return answered(header(hashed.Header), ringproof.UpkeepAnswer{Hash: hashed.Hash, At: max(r.Revision, hashed.HashRevision), Compacted: hashed.CompactRevision}), nil
	case ringproof.RequestAlarms:
		listed, err := c.Upkeep.AlarmList(ctx)
		if err != nil {
			return ringproof.Response{}, err
		}
		return answered(header(listed.Header), ringproof.UpkeepAnswer{Alarms: alarms(listed)}), nil
	case ringproof.RequestDisarm:
		return c.disarm(ctx)
	case ringproof.RequestDefrag:
		done, err := c.Upkeep.Defragment(ctx, c.URL)
		if err != nil {
			return ringproof.Response{}, err
		}
		return answered(header(done.Header), ringproof.UpkeepAnswer{}), nil
	}
	return c.snapshot(ctx)
}

func (c *Client) status(ctx context.Context) (ringproof.Response, error) {
	s, err := c.Upkeep.Status(ctx, c.URL)
	if err != nil {
		return ringproof.Response{}, err
	}
	return answered(header(s.Header), ringproof.UpkeepAnswer{
		Version: s.Version, Size: s.DbSize, InUse: s.DbSizeInUse, Quota: s.DbSizeQuota, Leader: ringproof.MemberID(s.Leader),
		Term: s.RaftTerm, Index: s.RaftIndex, Applied: s.RaftAppliedIndex, Learner: s.IsLearner, Errors: s.Errors,
	}), nil
}

// disarm takes back the alarms that are raised, one request each.
func (c *Client) disarm(ctx context.Context) (ringproof.Response, error) {
	listed, err := c.Upkeep.AlarmList(ctx)
	if err != nil {
		return ringproof.Response{}, err
	}
	last, gone := listed.Header, []ringproof.Alarm(nil)
	for _, each := range listed.Alarms {
		done, err := c.Upkeep.AlarmDisarm(ctx, (*clientv3.AlarmMember)(each))
		if err != nil {
			return ringproof.Response{}, err
		}
		last, gone = done.Header, append(gone, ringproof.Alarm{Member: ringproof.MemberID(each.MemberID), Kind: each.Alarm.String()})
	}
	return answered(header(last), ringproof.UpkeepAnswer{Alarms: gone}), nil
}

// snapshot reads a backup to its end: whole pages, and then their hash.
func (c *Client) snapshot(ctx context.Context) (ringproof.Response, error) {
	content, err := c.Upkeep.Snapshot(ctx)
	if err != nil {
		return ringproof.Response{}, err
	}
	defer content.Close()
	read, err := io.ReadAll(content)
	if err != nil {
		return ringproof.Response{}, fmt.Errorf("the backup broke off after %d bytes: %w", len(read), err)
	}
	return answered(ringproof.Response{}, ringproof.UpkeepAnswer{Size: int64(len(read)), Whole: Whole(read)}), nil
}

// Whole reports whether a backup is pages, and then their sum, as etcd writes it.
func Whole(backup []byte) bool {
	end := len(backup) - sha256.Size
	if end <= 0 || end%512 != 0 {
		return false
	}
	sum := sha256.Sum256(backup[:end])
	return bytes.Equal(sum[:], backup[end:])
}

func answered(r ringproof.Response, upkeep ringproof.UpkeepAnswer) ringproof.Response {
	r.Upkeep = &upkeep
	return r
}

func alarms(listed *clientv3.AlarmResponse) []ringproof.Alarm {
	var all []ringproof.Alarm
	for _, each := range listed.Alarms {
		all = append(all, ringproof.Alarm{Member: ringproof.MemberID(each.MemberID), Kind: each.Alarm.String()})
	}
	return all
}
