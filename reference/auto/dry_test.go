// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package auto

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestADryRunHoldsNothing: what a seam gets new is either known to read only, or
// refused in a dry run; a method that is merely taken over from the real thing is
// neither.
func TestADryRunHoldsNothing(t *testing.T) {
	reads := strings.Fields(`Path Read Prepared Exists WAL Running LastWords Get GetStream List Close MemberList
		Status AlarmList HashKV Snapshot SnapshotWithVersion Leases TimeToLive
		Now Monotonic Sleep Timeout Nonce Log`)
	for _, seam := range []any{dryHost{}, dryDisk{}, dryProcess{}, dryStore{}, dryEtcd{}} {
		of := reflect.TypeOf(seam)
		for i := range of.NumMethod() {
			m := of.Method(i)
			file, _ := runtime.FuncForPC(m.Func.Pointer()).FileLine(m.Func.Pointer())
			own := strings.HasSuffix(file, "dry.go")
			if !own && !slices.Contains(reads, m.Name) {
				t.Errorf("%s.%s is the real one's: refuse it in a dry run, or say here that it only reads", of.Name(), m.Name)
			}
		}
	}
}
