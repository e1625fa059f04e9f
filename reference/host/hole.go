// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package host

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/proto"
)

// cutOff says where etcd would end reading a log that goes on behind that; "": nowhere. A block
// that reads as zeros is for etcd the end of what was written, and a length that makes no sense a
// record that was torn as the power went: it cuts the log off there, and the member votes on
// without what it had promised (wal.Repair). What was torn was never synced. Nothing is behind it
// but the rest of one Save, whose entries come before its hard state. So an entry, a hard state and
// another entry were written after the place had been synced.
func cutOff(path string) (where string, err error) {
	names, err := filepath.Glob(filepath.Join(path, "*.wal"))
	if err != nil || len(names) == 0 {
		return "", err
	}
	newest := slices.Max(names) // etcd fails by itself on an older one, whose sum the next begins with
	before := -1
	for {
		content, err := os.ReadFile(newest)
		if err != nil {
			return "", err
		}
		ends, goesOn := segment(content).hole()
		switch {
		case !goesOn:
			return "", nil
		case ends == before:
			return fmt.Sprintf("%s ends at byte %d for etcd, and goes on behind it: what was written there is damaged", filepath.Base(newest), ends), nil
		}
		before = ends // a running etcd may have written between two parts of what was read
	}
}

// segment is a file of a log.
type segment []byte

// hole is where reading ends, and whether two batches were saved behind that.
func (f segment) hole() (ends int, goesOn bool) {
	used := len(bytes.TrimRight(f, "\x00"))
	for ends < used {
		_, next, ok := f.record(ends)
		if !ok {
			break
		}
		ends = next
	}
	for at := ends + 8; at < used; at += 8 {
		if f.batches(at) {
			return ends, true
		}
	}
	return ends, false
}

// batches reports whether an entry, a hard state and another entry follow each other from a record
// on, with whatever is between.
func (f segment) batches(at int) bool {
	want := []int64{wal.EntryType, wal.StateType, wal.EntryType}
	last, next, ok := f.record(at)
	for ok {
		if last.GetType() == want[0] {
			if want = want[1:]; len(want) == 0 {
				return true
			}
		}
		var r *walpb.Record
		if r, next, ok = f.record(next); ok {
			ok = r.GetCrc() == crc32.Update(last.GetCrc(), castagnoli, r.GetData())
		}
		last = r
	}
	return false
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is the one that begins at a byte, if one may.
func (f segment) record(at int) (r *walpb.Record, next int, ok bool) {
	if at+8 > len(f) {
		return nil, 0, false
	}
	length := binary.LittleEndian.Uint64(f[at:])
	size, padding := int64(length&(1<<56-1)), int64(length>>56&7)
	if length>>63 == 0 {
		padding = 0
	}
	if size == 0 || size > int64(len(f)-at-8)-padding {
		return nil, 0, false
	}
	r, next = &walpb.Record{}, at+8+int(size+padding)
	err := proto.Unmarshal(f[at+8:at+8+int(size)], r)
	return r, next, err == nil && r.GetType() >= wal.MetadataType && r.GetType() <= wal.SnapshotType
}
