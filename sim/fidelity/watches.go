// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var watchCommands = map[string]command{
	"watch":    {(*stage).watch, 2, 5, "on rev"},
	"events":   {(*stage).events, 2, 2, ""},
	"quiet":    {(*stage).quiet, 1, 1, ""},
	"progress": {(*stage).progress, 1, 1, ""},
	"canceled": {(*stage).canceled, 1, 1, ""},
	"unwatch":  {(*stage).unwatch, 1, 1, ""},
}

// none is the stream of a watch that was refused.
type none struct{ name string }

func (n none) Next(context.Context) (clientv3.WatchResponse, error) {
	return clientv3.WatchResponse{}, fmt.Errorf("%s was never opened", n.name)
}

func (n none) Progress(context.Context) error { return fmt.Errorf("%s was never opened", n.name) }
func (none) Close()                           {}

// stream is a watch by its name.
func (s *stage) stream(name string) Stream {
	if w, ok := s.watches[name]; ok {
		return w
	}
	return none{name}
}

// watch opens a watch: watch NAME KEY.
func (s *stage) watch(ctx context.Context, c call) string {
	key, opts := span(c.words[1])
	opts = append(opts, clientv3.WithRev(c.number("rev")))
	for _, word := range c.words[2:] {
		switch word {
		case "prev":
			opts = append(opts, clientv3.WithPrevKV())
		case "no-put":
			opts = append(opts, clientv3.WithFilterPut())
		case "fragment":
			opts = append(opts, clientv3.WithFragment())
		case "no-delete":
			opts = append(opts, clientv3.WithFilterDelete())
		}
	}
	// It outlives this call, so it can't take a timeout.
	stream, err := s.asked(c).Watch(ctx, key, opts...)
	if err != nil {
		return failed(err)
	}
	s.watches[c.words[0]] = stream
	return c.words[0] + " watches"
}

// events prints the next events of a watch: events NAME COUNT. etcd may send
// them in one response or in several, but never splits a revision.
func (s *stage) events(ctx context.Context, c call) string {
	count, err := strconv.Atoi(c.words[1])
	if err != nil {
		return failed(err)
	}
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	var lines []string
	for len(lines) < count {
		got, err := s.stream(c.words[0]).Next(ctx)
		if err == nil {
			err = got.Err()
		}
		if err != nil {
			return strings.Join(append(lines, failed(err)), "\n")
		}
		for _, event := range got.Events {
			lines = append(lines, s.event(event))
		}
	}
	return strings.Join(lines, "\n")
}

func (s *stage) event(e *clientv3.Event) string {
	line := "put " + s.pair(e.Kv)
	if e.Type == mvccpb.Event_DELETE {
		line = fmt.Sprintf("delete %s (mod %d)", e.Kv.Key, e.Kv.ModRevision)
	}
	if e.PrevKv != nil {
		line += ", before: " + s.pair(e.PrevKv)
	}
	return line
}

// quiet holds that nothing comes.
func (s *stage) quiet(ctx context.Context, c call) string {
	ctx, cancel := s.Timeout(ctx, c.within(probeTimeout))
	defer cancel()
	got, err := s.stream(c.words[0]).Next(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return c.words[0] + " sees nothing"
	}
	if err != nil {
		return failed(err)
	}
	lines := []string{fmt.Sprintf("%s sees %d %s", c.words[0], len(got.Events), plural("event", len(got.Events)))}
	for _, event := range got.Events {
		lines = append(lines, s.event(event))
	}
	return strings.Join(lines, "\n")
}

// progress asks how far a watch is. Until its watcher has caught up etcd
// doesn't answer, so it is asked again.
func (s *stage) progress(ctx context.Context, c call) string {
	stream := s.stream(c.words[0])
	said := "no progress"
	s.await(ctx, c.within(request), func(ctx context.Context) bool {
		ctx, cancel := s.Timeout(ctx, probeTimeout)
		defer cancel()
		if err := stream.Progress(ctx); err != nil {
			said = failed(err)
			return true
		}
		got, err := stream.Next(ctx)
		if err == nil && got.IsProgressNotify() {
			said = "all is seen up to revision " + strconv.FormatInt(got.Header.Revision, 10)
		}
		return err == nil
	})
	return said
}

// canceled waits until etcd ends a watch, and says why.
func (s *stage) canceled(ctx context.Context, c call) string {
	ctx, cancel := s.limit(ctx, c)
	defer cancel()
	got, err := s.stream(c.words[0]).Next(ctx)
	if err != nil {
		return failed(err)
	}
	if !got.Canceled {
		return c.words[0] + " is not canceled"
	}
	line := c.words[0] + " is canceled: " + got.Err().Error()
	if got.CompactRevision > 0 {
		line += fmt.Sprintf("; compacted at %d", got.CompactRevision)
	}
	return line
}

func (s *stage) unwatch(_ context.Context, c call) string {
	s.stream(c.words[0]).Close()
	delete(s.watches, c.words[0])
	return c.words[0] + " is closed"
}
