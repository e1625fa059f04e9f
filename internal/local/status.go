// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/trial"
)

// A subject is asked what it says of its ring every now and then, and waited for only so
// long: an API server that is away is no reason to look at nothing else.
const (
	statusEvery  = 2 * time.Second
	statusWithin = 500 * time.Millisecond
)

// readStatus keeps what the subject says of its ring, and tells when that is another. What
// can't be read leaves a gap.
func (w *World) readStatus(ctx context.Context) {
	subject, says := w.Subject.(trial.Reporting)
	told := w.statuses()
	if !says || len(told) > 0 && w.Now().Sub(told[len(told)-1].At) < statusEvery {
		return
	}
	asking, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	at := w.Now()
	s, err := subject.Status(asking)
	if err != nil {
		return
	}
	s.At = at
	w.mu.Lock()
	w.told = append(w.told, s)
	w.mu.Unlock()
	if len(told) == 0 || told[len(told)-1].String() != s.String() {
		w.recorder.Record(ringproof.Event{At: at, Kind: ringproof.EventStatus, Text: s.String()})
	}
}

// emptyStatus drops what the subject has said.
func (w *World) emptyStatus(ctx context.Context) (evidence string, err error) {
	subject, ok := w.Subject.(trial.Reporting)
	if !ok {
		return "", errors.New("the subject has no object with a status")
	}
	before, err := subject.Empty(ctx)
	if err != nil {
		return "", err
	}
	return "it was " + before, nil
}

// statuses are those that were read.
func (w *World) statuses() []ringproof.Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}
