// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

var processCommands = map[string]command{
	"ring":      {(*stage).ring, 1, 9, "tls token release catch-up"},
	"start":     {(*stage).start, 1, 1, "state cluster token release tls listens ends serves"},
	"stop":      {(*stage).stop, 1, 9, ""},
	"tell":      {(*stage).tell, 1, 1, ""},
	"kill":      {(*stage).kill, 1, 9, ""},
	"power-off": {(*stage).powerOff, 1, 9, ""},
	"wipe":      {(*stage).wipe, 1, 1, ""},
	"unlink":    {(*stage).unlink, 1, 1, ""},
	"ended":     {(*stage).ended, 1, 1, ""},
	"lose":      {(*stage).lose, 2, 2, ""},
	"damage":    {(*stage).damage, 2, 2, ""},
	"occupy":    {(*stage).occupy, 2, 2, ""},
	"cut":       {(*stage).cut, 1, 1, ""},
	"part":      {(*stage).part, 2, 2, ""},
	"join":      {(*stage).join, 1, 1, ""},
	"elapse":    {(*stage).elapse, 1, 1, ""},
}

// ring starts etcd on all machines at once, as the first members of a ring.
func (s *stage) ring(ctx context.Context, c call) string {
	s.secure, s.token = c.opts["tls"] == "peers", c.opts["token"]
	s.extra = c.flags
	if entries, ok := c.opts["catch-up"]; ok {
		s.extra = append(slices.Clip(s.extra), s.catchUp()+"="+entries)
	}
	for _, name := range c.words {
		s.machine(name)
	}
	for _, name := range c.words {
		if err := s.launch(ctx, name, s.releaseOf(c), s.flags(name, "new", c.words, s.token)); err != nil {
			return failed(err)
		}
	}
	for _, name := range c.words {
		if said := s.serving(ctx, name, c.within(s.patient())); said != name+" serves" {
			return said
		}
	}
	if !s.await(ctx, s.patient(), s.formed(c.words)) {
		return "the ring doesn't form"
	}
	return fmt.Sprintf("%s; %d %s", verb(c.words, "serves", "serve"), len(c.words), plural("voter", len(c.words)))
}

func plural(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// catchUp is the flag that says how many entries a leader keeps for those that
// lag. It was experimental in 3.5.
func (s *stage) catchUp() string {
	if minor(s.release) == "3.5" {
		return "--experimental-snapshot-catchup-entries"
	}
	return "--snapshot-catchup-entries"
}

// formed reports whether all members have written their names into the ring and
// know what version it speaks. Both are raft entries: what comes later must
// not depend on whether it overtakes them.
func (s *stage) formed(members []string) func(context.Context) bool {
	return func(ctx context.Context) bool {
		for _, name := range members {
			got, err := s.client(name).MemberList(ctx)
			if err != nil {
				return false
			}
			s.learn(got.Header, got.Members)
			for _, m := range got.Members {
				if m.Name == "" {
					return false
				}
			}
			if version, err := s.ClusterVersion(ctx, name); err != nil || version == "" || version == "not_decided" {
				return false
			}
		}
		return true
	}
}

func (s *stage) releaseOf(c call) string {
	if release, ok := c.opts["release"]; ok {
		return release
	}
	return s.release
}

// flags are etcd's, for a machine that boots with these members in its
// initial cluster.
func (s *stage) flags(name, state string, cluster []string, token string) []string {
	var all []string
	for _, each := range cluster {
		all = append(all, each+"="+s.URL(s.machine(each), PeerPort, s.secure))
	}
	if token == "" {
		token = "ring"
	}
	peer, client := s.URL(name, PeerPort, s.secure), s.URL(name, ClientPort, false)
	flags := []string{
		"--name=" + name, "--data-dir=" + s.DataDir(name),
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--initial-cluster=" + strings.Join(all, ","), "--initial-cluster-state=" + state, "--initial-cluster-token=" + token,
		"--heartbeat-interval=50", "--election-timeout=500",
	}
	if s.secure {
		flags = append(flags, s.PeerTLS(name)...)
	}
	return append(flags, s.extra...)
}

func (s *stage) launch(ctx context.Context, name, release string, flags []string) error {
	if err := s.idle(name); err != nil {
		return err
	}
	s.boots[name] = boot{release, flags}
	s.up[name] = true
	delete(s.clients, name) // the old one waits longer and longer before it dials again
	return s.Start(ctx, name, release, flags)
}

// idle refuses what no etcd may run for.
func (s *stage) idle(name string) error {
	if slices.Contains(s.running(), name) {
		return fmt.Errorf("etcd runs on %s: stop it first", name)
	}
	return nil
}

// start starts etcd as it was started last; with options, or the first time,
// as something new that joins the ring.
func (s *stage) start(ctx context.Context, c call) string {
	name := s.machine(c.words[0])
	last, again := s.boots[name]
	_, state := c.opts["state"]
	_, cluster := c.opts["cluster"]
	if _, release := c.opts["release"]; release || !again {
		last.release = s.releaseOf(c)
	}
	if !again || state || cluster {
		last.flags = s.joining(name, c)
	}
	if way, ok := c.opts["listens"]; ok {
		last.flags = s.listens(name, way, last.flags)
	}
	for _, flag := range c.flags {
		last.flags = append(slices.Clip(last.flags), s.expandAll(flag))
	}
	if err := s.launch(ctx, name, last.release, last.flags); err != nil {
		return failed(err)
	}
	said := s.serving(ctx, name, c.within(s.patient()))
	// How a removed member ends is a race between its server and its listeners.
	if c.opts["ends"] == "anyhow" && strings.Contains(said, " exits ") {
		return name + " ends"
	}
	if end, ended := s.Ended(name); c.opts["ends"] == "code" && ended { // what it says names its machine, or is said to nobody
		return fmt.Sprintf("%s exits %d", name, end.Code)
	}
	// So is whether it serves that was killed between two words of its log.
	if _, ended := s.Ended(name); c.opts["serves"] == "perhaps" && !ended {
		return name + " runs"
	}
	return said
}

// listens are flags with which etcd listens for peers without TLS (plain), with it at the
// second port (tls), or for both (mixed). Those that it was given before are taken out: a
// URL that is in a flag already etcd doesn't take for the only one.
func (s *stage) listens(name, way string, flags []string) []string {
	var urls []string
	if way != "tls" {
		urls = append(urls, s.URL(name, PeerPort, false))
	}
	if way != "plain" {
		urls = append(urls, s.URL(name, SecondPort, true))
	}
	at := strings.Join(urls, ",")
	flags = slices.DeleteFunc(slices.Clone(flags), func(flag string) bool {
		return strings.HasPrefix(flag, "--listen-peer-urls=") || strings.HasPrefix(flag, "--initial-advertise-peer-urls=")
	})
	flags = append(flags, "--listen-peer-urls="+at, "--initial-advertise-peer-urls="+at)
	if way == "plain" {
		return flags
	}
	return append(flags, s.PeerTLS(name)...)
}

// joining are the flags of a start that says more than "again". Members that
// the script doesn't list are those that were seen in a member list last.
func (s *stage) joining(name string, c call) []string {
	state, cluster, token := "existing", s.names.machinesOfRing(), s.token
	if v, ok := c.opts["state"]; ok {
		state = v
	}
	if v, ok := c.opts["cluster"]; ok {
		cluster = strings.Split(v, ",")
	}
	if v, ok := c.opts["token"]; ok {
		token = v
	}
	was := s.secure
	if v, ok := c.opts["tls"]; ok {
		s.secure = v == "peers"
	}
	defer func() { s.secure = was }()
	return s.flags(name, state, cluster, token)
}

// serving waits until etcd on the machine answers, or has ended.
func (s *stage) serving(ctx context.Context, name string, within time.Duration) string {
	said := name + " doesn't serve"
	s.await(ctx, within, func(ctx context.Context) bool {
		if end, ended := s.Ended(name); ended {
			said = exits(name, end)
			return true
		}
		status, err := s.status(ctx, name)
		if err == nil {
			s.names.ring(status.Header.ClusterId)
			said = name + " serves"
		}
		return err == nil
	})
	return said
}

func exits(name string, end End) string {
	return fmt.Sprintf("%s exits %d: %s", name, end.Code, masked(end.Why))
}

// each does something to every machine that a call names.
func (s *stage) each(c call, done string, do func(name string) error) string {
	for _, name := range c.words {
		if err := do(s.machine(name)); err != nil {
			return failed(err)
		}
		s.up[name] = false
	}
	return list(c.words) + " " + done
}

func (s *stage) stop(ctx context.Context, c call) string {
	return s.each(c, "stopped", func(name string) error { return s.Stop(ctx, name) })
}

// tell is stop without waiting for the end; a stop that follows waits.
func (s *stage) tell(ctx context.Context, c call) string {
	return s.each(c, "is told to end", func(name string) error { return s.Tell(ctx, name) })
}

func (s *stage) kill(_ context.Context, c call) string { return s.each(c, "killed", s.Kill) }

func (s *stage) powerOff(_ context.Context, c call) string {
	if err := s.PowerOff(c.words...); err != nil {
		return failed(err)
	}
	return s.each(c, "lost power", func(string) error { return nil })
}

func (s *stage) wipe(_ context.Context, c call) string {
	if err := s.idle(c.words[0]); err != nil {
		return failed(err)
	}
	return s.each(c, "wiped", s.Wipe)
}

// unlink removes the data of an etcd that runs on.
func (s *stage) unlink(_ context.Context, c call) string {
	if err := s.Unlink(s.machine(c.words[0])); err != nil {
		return failed(err)
	}
	return "no name leads to the data of " + c.words[0]
}

// ended waits until etcd ends by itself.
func (s *stage) ended(ctx context.Context, c call) string {
	name := c.words[0]
	if !s.await(ctx, c.within(s.patient()), func(context.Context) bool {
		_, ended := s.Ended(name)
		return ended
	}) {
		return name + " runs on"
	}
	s.up[name] = false
	end, _ := s.Ended(name)
	return exits(name, end)
}

// cut waits until a voter has noticed: a cut that didn't take would be written
// into the transcript. A learner notices nothing.
func (s *stage) cut(ctx context.Context, c call) string {
	name := c.words[0]
	if err := s.Cut(name); err != nil {
		return failed(err)
	}
	if len(s.running()) < 2 {
		return name + " is cut off"
	}
	if status, err := s.status(ctx, name); err == nil && !status.IsLearner && !s.leaderless(ctx, c) {
		return name + " keeps its leader: the cut didn't take"
	}
	return name + " is cut off"
}

// part cuts two machines off one another, which keep the others.
func (s *stage) part(_ context.Context, c call) string {
	if err := s.Part(s.machine(c.words[0]), s.machine(c.words[1])); err != nil {
		return failed(err)
	}
	return c.words[0] + " and " + c.words[1] + " don't reach each other"
}

// spoil does something to a part of a data directory.
func (s *stage) spoil(c call, do func(machine, part string) error) error {
	if err := s.idle(c.words[0]); err != nil {
		return err
	}
	return do(s.machine(c.words[0]), c.words[1])
}

func (s *stage) lose(_ context.Context, c call) string {
	if err := s.spoil(c, s.Lose); err != nil {
		return failed(err)
	}
	return c.words[0] + " has no " + c.words[1]
}

func (s *stage) damage(_ context.Context, c call) string {
	if err := s.spoil(c, s.Damage); err != nil {
		return failed(err)
	}
	return "the " + c.words[1] + " of " + c.words[0] + " is damaged"
}

func (s *stage) occupy(_ context.Context, c call) string {
	if err := s.Occupy(s.machine(c.words[0]), Port(c.words[1])); err != nil {
		return failed(err)
	}
	return "the " + c.words[1] + " port of " + c.words[0] + " is taken"
}

func (s *stage) join(_ context.Context, c call) string {
	if err := s.Join(c.words[0]); err != nil {
		return failed(err)
	}
	return c.words[0] + " is back"
}

// elapse lets time pass: etcd judges its peers by the last five seconds.
func (s *stage) elapse(ctx context.Context, c call) string {
	d, err := time.ParseDuration(c.words[0])
	if err != nil {
		return failed(err)
	}
	if err := s.Elapse(ctx, d); err != nil {
		return failed(err)
	}
	return ""
}
