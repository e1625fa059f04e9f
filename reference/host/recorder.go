// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package host

import "cmp"

// Recorder writes a host's log: what is tried again and again is said once, and an
// action is told of before and after it.
type Recorder struct {
	Host   Host
	DryRun bool // no action is taken: the log says which would be
	Lines  int  // that were said
	said   map[Event]string
}

// Say logs a line, unless the last of its event said the same.
func (r *Recorder) Say(event Event, text string) {
	if r.News(event, text) {
		r.Lines++
		r.Host.Log(Line{Event: event, Text: text})
	}
}

// News reports whether the text is another than the last of the event, and takes it
// for the last.
func (r *Recorder) News(event Event, text string) bool {
	if r.said[event] == text {
		return false
	}
	if r.said == nil {
		r.said = map[Event]string{}
	}
	r.said[event] = text
	return true
}

// Forget makes whatever is said next of the event news.
func (r *Recorder) Forget(event Event) { delete(r.said, event) }

// Act takes an action and logs it before and after. In a dry run it only says what
// it would do.
func (r *Recorder) Act(line Line, do func() error) error {
	if r.DryRun {
		r.Say(EventWaiting, "dry run: "+cmp.Or(line.Command, line.Action))
		return nil
	}
	line.Event = EventActionBegun
	r.Host.Log(line)
	err := do()
	line.Event = EventActionDone
	if err != nil {
		line.Event, line.Text = EventActionFailed, err.Error()
	}
	r.Host.Log(line)
	return err
}
