// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"context"
	"fmt"
	"time"

	"github.com/ringproof/ringproof"
)

// aging is a lab whose clocks are its own to set.
type aging interface {
	// Age has all wall clocks go on by so much, the run's too.
	Age(by time.Duration) error
}

// letPass has all clocks go on, at once for the first time.
func (w *World) letPass(ctx context.Context, s ringproof.Step) (string, error) {
	lab, ok := w.lab.(aging)
	if !ok {
		return "", fmt.Errorf("%s is no fault of real time", s.Fault.Kind)
	}
	leaps, by, every := s.Fault.Leaps()
	w.mark(nil, func() { w.passing[s.Name] = true })
	goesOn := func() (on bool) {
		w.mark(nil, func() { on = w.passing[s.Name] && !w.ending })
		return on
	}
	w.tasks.Go(func() {
		for range leaps - 1 {
			if w.Sleep(context.WithoutCancel(ctx), every) != nil || !goesOn() || lab.Age(by) != nil {
				return
			}
		}
	})
	return fmt.Sprintf("all clocks go on by %v every %v", by, every), lab.Age(by)
}
