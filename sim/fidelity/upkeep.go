// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var upkeepCommands = map[string]command{
	"status":       {(*stage).printStatus, 1, 1, ""},
	"version":      {(*stage).version, 1, 1, ""},
	"hash":         {(*stage).hash, 0, 0, "rev on"},
	"hash-of":      {(*stage).hashOf, 1, 1, "rev"},
	"wait-applied": {(*stage).waitApplied, 0, 0, ""},
	"wait-space":   {(*stage).waitSpace, 1, 1, ""},
	"wait-schema":  {(*stage).waitSchema, 1, 1, ""},
	"alarms":       {(*stage).alarms, 0, 0, "on"},
	"disarm":       {(*stage).disarm, 0, 1, "on"},
	"applied":      {(*stage).applied, 2, 2, ""},
	"sizes":        {(*stage).sizes, 1, 1, ""},
	"schema":       {(*stage).schema, 1, 1, ""},
	"fill":         {(*stage).fill, 1, 1, "on size"},
	"defrag":       {(*stage).defrag, 1, 1, ""},
	"snapshot":     {(*stage).snapshot, 0, 0, "on"},
	"downgrade":    {(*stage).downgrade, 1, 2, "on"},
}

// printStatus leaves out sizes, terms and indexes: they depend on time and on
// the file format.
func (s *stage) printStatus(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	name := s.machine(c.words[0])
	got, err := s.client(name).Status(ctx, s.URL(name, ClientPort, false))
	if err != nil {
		return failed(err)
	}
	line := name + ": a voter that follows"
	switch {
	case got.IsLearner:
		line = name + ": a learner"
	case got.Leader == got.Header.MemberId:
		line = name + ": a voter that leads"
	case got.Leader == 0:
		line = name + ": a voter with no leader"
	}
	var errors []string
	for _, each := range got.Errors {
		// protobuf prints one space or two, so that nobody compares what it prints.
		errors = append(errors, s.names.tidy(strings.Join(strings.Fields(each), " ")))
	}
	slices.Sort(errors) // etcd keeps them in a map
	if len(errors) > 0 {
		line += "; errors: " + strings.Join(errors, "; ")
	}
	return line
}

// version prints what the member is and what the ring speaks. What every
// release says of itself is printed alike.
func (s *stage) version(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	name := s.machine(c.words[0])
	got, err := s.client(name).Status(ctx, s.URL(name, ClientPort, false))
	if err != nil {
		return failed(err)
	}
	ring, err := s.ClusterVersion(ctx, name)
	if err != nil {
		return failed(err)
	}
	return fmt.Sprintf("%s is %s; the ring speaks %s", name, s.own(got.Version), s.own(ring))
}

// own is how a version is printed: what each release says of itself, alike.
func (s *stage) own(version string) string {
	switch {
	case "v"+version == s.release:
		return "of this release"
	case version == minor(s.release)+".0", version == minor(s.release):
		return "its version"
	}
	return version
}

func (s *stage) waitApplied(ctx context.Context, c call) string {
	if !s.caughtUp(ctx, c) {
		return "they don't catch up"
	}
	return verb(s.running(), "has", "have") + " applied the same"
}

// caughtUp waits until all running members have applied the same entries.
func (s *stage) caughtUp(ctx context.Context, c call) bool {
	return s.await(ctx, c.within(s.patient()), func(ctx context.Context) bool {
		var first *clientv3.StatusResponse
		for _, name := range s.running() {
			got, err := s.status(ctx, name)
			if err != nil {
				return false
			}
			if first == nil {
				first = got
			}
			if got.RaftAppliedIndex != first.RaftAppliedIndex || got.RaftIndex != got.RaftAppliedIndex {
				return false
			}
		}
		return true
	})
}

// hash compares HashKV of all running members at one revision. The hash itself
// isn't printed: a model needs to be consistent, not to copy CRC-32 of etcd's
// encoding.
func (s *stage) hash(ctx context.Context, c call) string {
	if !s.caughtUp(ctx, c) {
		return "they don't catch up"
	}
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	hashes := map[uint32]bool{}
	var line string
	for _, name := range s.running() {
		got, err := s.client(name).HashKV(ctx, s.URL(name, ClientPort, false), c.number("rev"))
		if err != nil {
			return failed(err)
		}
		hashes[got.Hash] = true
		line = fmt.Sprintf("%s; compacted at %d", s.at(got.Header), got.CompactRevision)
	}
	if len(hashes) > 1 {
		return "the hashes of " + list(s.running()) + " differ" + line
	}
	return verb(s.running(), "has a hash", "have the same hash") + line
}

// hashOf prints only how a machine answers.
func (s *stage) hashOf(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	name := s.machine(c.words[0])
	got, err := s.client(name).HashKV(ctx, s.URL(name, ClientPort, false), c.number("rev"))
	if err != nil {
		return failed(err)
	}
	return name + " has a hash" + s.at(got.Header)
}

func (s *stage) alarms(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.asked(c).AlarmList(ctx)
	if err != nil {
		return failed(err)
	}
	return s.alarmLines((*clientv3.AlarmResponse)(got))
}

func (s *stage) alarmLines(got *clientv3.AlarmResponse) string {
	var lines []string
	for _, alarm := range got.Alarms {
		lines = append(lines, fmt.Sprintf("%s on %s", alarm.Alarm, s.names.members[alarm.MemberID]))
	}
	if len(lines) == 0 {
		return "no alarm"
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// applied compares what a member says it has applied with what another says is
// committed.
func (s *stage) applied(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	one, err := s.client(s.machine(c.words[0])).Status(ctx, s.URL(c.words[0], ClientPort, false))
	if err != nil {
		return failed(err)
	}
	other, err := s.client(s.machine(c.words[1])).Status(ctx, s.URL(c.words[1], ClientPort, false))
	if err != nil {
		return failed(err)
	}
	if one.RaftAppliedIndex < other.RaftIndex {
		return c.words[0] + " has applied less than " + c.words[1] + " has committed"
	}
	return c.words[0] + " has applied what " + c.words[1] + " has committed"
}

// sizes compares a member's file with its quota and with what is in it.
func (s *stage) sizes(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.client(s.machine(c.words[0])).Status(ctx, s.URL(c.words[0], ClientPort, false))
	switch {
	case err != nil:
		return failed(err)
	case got.DbSizeInUse > got.DbSize:
		return c.words[0] + " has more in its file than the file is large"
	case got.DbSizeQuota > 0 && got.DbSize >= got.DbSizeQuota:
		return c.words[0] + " has a file beyond its quota"
	case 2*got.DbSizeInUse < got.DbSize:
		return c.words[0] + " has a file that is mostly empty"
	}
	return c.words[0] + " has a file"
}

// waitSpace waits until most of a member's file is empty: what a compaction
// frees is counted some commits later.
func (s *stage) waitSpace(ctx context.Context, c call) string {
	return s.until(ctx, c, s.sizes, c.words[0]+" has a file that is mostly empty")
}

// waitSchema waits until a member has its database in the ring's version, which
// it learns some seconds after it started.
func (s *stage) waitSchema(ctx context.Context, c call) string {
	return s.until(ctx, c, s.schema, c.words[0]+" has a database its version")
}

// until asks until the answer is the one that is waited for, and returns the last.
func (s *stage) until(ctx context.Context, c call, ask func(context.Context, call) string, answer string) (last string) {
	s.await(ctx, c.within(s.patient()), func(ctx context.Context) bool { last = ask(ctx, c); return last == answer })
	return last
}

// schema is the version of the member's database; 3.5 doesn't tell.
func (s *stage) schema(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.client(s.machine(c.words[0])).Status(ctx, s.URL(c.words[0], ClientPort, false))
	switch {
	case err != nil:
		return failed(err)
	case got.StorageVersion == "":
		return c.words[0] + " doesn't tell"
	}
	return c.words[0] + " has a database " + s.own(got.StorageVersion)
}

// disarm disarms all alarms, or those of one member.
func (s *stage) disarm(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	of := &clientv3.AlarmMember{}
	if len(c.words) > 0 {
		of.MemberID, of.Alarm = s.id(c.words[0]), pb.AlarmType_NOSPACE
	}
	got, err := s.asked(c).AlarmDisarm(ctx, of)
	if err != nil {
		return failed(err)
	}
	return "disarmed " + s.alarmLines(got)
}

// fill puts new keys until etcd refuses one. How many fit depends on the file
// format, and on when it was last written.
func (s *stage) fill(ctx context.Context, c call) string {
	s.filled = true
	value := strings.Repeat("x", int(c.number("size")))
	for i := range 1000 {
		ctx, cancel := s.limit(ctx, c)
		_, err := s.asked(c).Put(ctx, fmt.Sprintf("%s%d", c.words[0], i), value)
		cancel()
		if err != nil {
			return failed(err)
		}
	}
	return "never full"
}

func (s *stage) defrag(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	name := s.machine(c.words[0])
	if _, err := s.client(name).Defragment(ctx, s.URL(name, ClientPort, false)); err != nil {
		return failed(err)
	}
	return name + " is defragmented"
}

// snapshot reads a backup. Its last 32 bytes are the SHA-256 of the rest: that
// is how etcdutl knows a torn one.
func (s *stage) snapshot(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	body, err := s.asked(c).Snapshot(ctx)
	if err != nil {
		return failed(err)
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil {
		return failed(err)
	}
	rest := max(0, len(content)-sha256.Size)
	if sum := sha256.Sum256(content[:rest]); !bytes.Equal(sum[:], content[rest:]) {
		return "a backup with a wrong checksum"
	}
	return "a backup with its checksum"
}

// downgrade is validate, enable or cancel, and a target: "3.5.0".
func (s *stage) downgrade(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	actions := map[string]clientv3.DowngradeAction{
		"validate": clientv3.DowngradeValidate, "enable": clientv3.DowngradeEnable, "cancel": clientv3.DowngradeCancel,
	}
	target := strings.Join(c.words[1:], "")
	got, err := s.asked(c).Downgrade(ctx, actions[c.words[0]], target)
	if err != nil {
		return failed(err)
	}
	return fmt.Sprintf("%s; the ring speaks %s", c.words[0], s.own(got.Version))
}
