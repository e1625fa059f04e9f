// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/store"
)

// aged is a host whose log is read, some time after its process began.
type aged struct {
	host.Host
	age   time.Duration
	lines []string
}

func (a *aged) Monotonic() time.Duration { return a.age }
func (a *aged) Log(l host.Line)          { a.lines = append(a.lines, string(l.Event)+": "+l.Text) }

// away is a source that can't be read, unless err is nil.
type away struct {
	Source
	err error
}

func (a *away) Learn(context.Context, store.Machine, *Known) error { return a.err }

// TestASourceThatIsAwayIsTold: an agent that knew its ring said nothing of a store that had
// been away for a month: what was asked for meanwhile never came about, and nobody knew why.
func TestASourceThatIsAwayIsTold(t *testing.T) {
	real := host.NewReal("m1", t.TempDir(), t.TempDir(), nil)
	h, s := &aged{Host: real}, &away{}
	l := &Launcher{Config: Config{Machine: "m1", Source: s}, host: h, log: &host.Recorder{Host: h}}
	l.Known = Known{SpecNumber: 1, Formed: true}
	learn := func(at time.Duration, err error) []string {
		h.age, h.lines, s.err = at, nil, err
		l.learn(t.Context(), true)
		return h.lines
	}
	assert.Empty(t, learn(0, nil))
	for at := range 10 {
		assert.Empty(t, learn(time.Second+time.Duration(at)*time.Second, errors.New("stale file handle")), "it may be back soon")
	}
	said := learn(12*time.Second, errors.New("stale file handle"))
	assert.Equal(t, []string{"trouble: what is asked for of the ring has not been readable for 10s, and what is new is not learned until it is: stale file handle"}, said)
	for at := range 100 {
		assert.Empty(t, learn(13*time.Second+time.Duration(at)*time.Second, fmt.Errorf("no file %d", at)), "it was told")
	}
	assert.Empty(t, learn(200*time.Second, nil))
	assert.Empty(t, learn(201*time.Second, errors.New("stale file handle")))
	assert.Len(t, learn(220*time.Second, errors.New("stale file handle")), 1, "it is away again")
}

// TestWhomToAskIsRememberedWithoutASource: while the source was away for weeks every member was
// replaced by another. An agent that started again asked those that had been there before, and
// found no ring.
func TestWhomToAskIsRememberedWithoutASource(t *testing.T) {
	h := host.NewReal("m1", t.TempDir(), t.TempDir(), nil)
	l := &Launcher{Config: Config{Machine: "m1"}, host: h, log: &host.Recorder{Host: h, DryRun: true}}
	l.Known = Known{SpecNumber: 1, Formed: true}
	for _, url := range []string{"http://10.0.0.2:2379", "http://10.0.0.7:2379"} {
		members := []*etcdserverpb.Member{{ID: 7, ClientURLs: []string{url}}}
		assert.NoError(t, l.Attend(t.Context(), &Look{View: admin.View{Members: members}}))
		known, ok := recalled(h.Disk().Read)
		assert.True(t, ok)
		assert.Equal(t, []string{url}, known.Members)
	}
}
