// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringproof/ringproof"
)

// endRing deletes the ring, and waits until nothing of it is left. It is the last that happens in a run: what
// members do from here on, which all end, is in no history.
func (r *runner) endRing(ctx context.Context, e ringproof.End) (came *ringproof.Ending) {
	r.record.close()
	came = &ringproof.Ending{}
	world, ok := r.world.(ringproof.Deleter)
	if !ok {
		came.Err = fmt.Sprintf("no ring of the %s world can be deleted", r.world.Name())
		return came
	}
	if e.Fault != nil {
		mended, err := r.faultMeanwhile(ctx, e, came)
		defer mended()
		if err != nil {
			came.Err = fmt.Sprintf("%s did not land: %v", e.Fault.Kind, err)
			return came
		}
	}
	look := func(ctx context.Context) (err error) {
		if came.Left, err = world.Left(ctx); err == nil && len(came.Left) > 0 {
			err = errLeft
		}
		return err
	}
	err := r.until(ctx, e, world.Delete)
	began := r.world.Now()
	if err == nil {
		err = r.until(ctx, e, look)
	}
	came.Took = ringproof.Duration(r.given(began))
	if err == nil && r.world.Sleep(ctx, lull(e)) == nil {
		err = look(ctx)
	}
	came.Fault = cmp.Or(came.Fault, r.record.lateFault()) // it was armed, and has gone off
	if err != nil && !errors.Is(err, errLeft) {
		came.Left, came.Err = nil, err.Error()
	}
	return came
}

// lull is after which time it is looked once more whether something is left: whoever was held up while the
// ring went, and goes on, may make something of it again.
func lull(e ringproof.End) time.Duration {
	if f := e.Fault; f != nil && f.For < e.Within {
		return quiet + f.For.Std()
	}
	return quiet
}

var errLeft = errors.New("something is left")

// until tries once in a while, until it succeeds or the end has had its time, and returns what it said
// last.
func (r *runner) until(ctx context.Context, e ringproof.End, try func(context.Context) error) (err error) {
	if ended := r.wait(ctx, e.Within.Std(), func() bool {
		trying, cancel := r.world.Timeout(ctx, e.Within.Std())
		defer cancel()
		err = try(trying)
		return err == nil
	}); ended != nil {
		return ended
	}
	return err
}

// faultMeanwhile applies the fault, and takes it away when its time is over; mended does so at once.
func (r *runner) faultMeanwhile(ctx context.Context, e ringproof.End, came *ringproof.Ending) (mended func(), err error) {
	s, targets, err := r.aim(ctx, e.Step())
	if err != nil {
		return func() {}, err
	}
	acting, cancel := r.deadline(ctx, e.Within.Std())
	defer cancel()
	if came.Fault, err = r.world.Do(acting, s, targets); err != nil {
		return func() {}, err
	}
	var once sync.Once
	mended = func() {
		once.Do(func() { _ = r.world.Heal(ctx, s, targets) }) // the world is about to go
	}
	if s.Fault.For > 0 {
		r.world.Go(ctx, "end of the fault", func(ctx context.Context) {
			if r.world.Sleep(ctx, s.Fault.For.Std()) == nil {
				mended()
			}
		})
	}
	return mended, nil
}
