// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Real etcd on a busy machine needs patience; virtual time costs nothing.
const (
	patience     = 20 * time.Second       // for what must come
	request      = 10 * time.Second       // for one request, unless the script says within=
	pause        = 50 * time.Millisecond  // between two looks
	probeTimeout = 500 * time.Millisecond // for one probe
)

// command is what a line of a script does. It returns what etcd said, without
// the last newline.
type command struct {
	run         func(*stage, context.Context, call) string
	least, most int // words
	options     string
}

// commands is filled when the package starts, since what it names refers to it.
var commands map[string]command

func init() {
	commands = map[string]command{"needs": {most: len(needs)}, "only": {most: 9}}
	for _, group := range []map[string]command{processCommands, memberCommands, keyCommands, leaseCommands, watchCommands, upkeepCommands} {
		maps.Copy(commands, group)
	}
}

// stage is a script in play.
type stage struct {
	Machines
	release string
	names   *names
	order   []string // machines, as the script named them
	boots   map[string]boot
	up      map[string]bool // started, and not ended by the script
	clients map[string]Client
	watches map[string]Stream
	secure  bool // peers speak TLS
	token   string
	extra   []string  // flags of the ring, which those that join take over
	filled  bool      // by as many writes as fitted: revisions tell nothing since
	began   time.Time // just before the last of begins
	term    uint64    // of the leader that the script chose last; 0: it chose none
}

// boot is how etcd was started last on a machine.
type boot struct {
	release string
	flags   []string
}

func newStage(release string, machines Machines) *stage {
	return &stage{Machines: machines, release: release, names: newNames(), boots: map[string]boot{}, up: map[string]bool{},
		clients: map[string]Client{}, watches: map[string]Stream{}}
}

// do carries out a call and returns whole lines.
func (s *stage) do(ctx context.Context, c call) string {
	text := s.names.tidy(commands[c.name].run(s, ctx, c))
	// The server knows the client's deadline, and may be the first to notice.
	if _, ok := c.opts["within"]; ok && text == failed(rpctypes.ErrTimeout) {
		text = failed(context.DeadlineExceeded)
	}
	if text == "" {
		return ""
	}
	return strings.TrimRight(text, "\n") + "\n"
}

func (s *stage) close() {
	for _, name := range slices.Sorted(maps.Keys(s.watches)) {
		s.watches[name].Close()
	}
}

// machine makes the machine known, so that its URLs get their names.
func (s *stage) machine(name string) string {
	if slices.Contains(s.order, name) {
		return name
	}
	s.order = append(s.order, name)
	for _, port := range ports {
		s.names.swap(s.URL(name, port, false), fmt.Sprintf("http://%s.%s", name, port))
		s.names.swap(s.URL(name, port, true), fmt.Sprintf("https://%s.%s", name, port))
		_, address, _ := strings.Cut(s.URL(name, port, false), "://")
		s.names.swap(address, fmt.Sprintf("%s.%s", name, port))
	}
	return name
}

// machineAt is the machine that listens for peers at a URL.
func (s *stage) machineAt(url string) string {
	for _, name := range s.order {
		for _, port := range []Port{PeerPort, SecondPort} {
			if s.URL(name, port, false) == url || s.URL(name, port, true) == url {
				return name
			}
		}
	}
	return url
}

// running are the machines on which etcd runs, as far as is known.
func (s *stage) running() []string {
	var all []string
	for _, name := range slices.Sorted(slices.Values(s.order)) {
		if _, ended := s.Ended(name); s.up[name] && !ended {
			all = append(all, name)
		}
	}
	return all
}

// asked is the client of the machine that a call names by on=, or of the first
// that runs.
func (s *stage) asked(c call) Client {
	if on, ok := c.opts["on"]; ok {
		return s.client(s.machine(on))
	}
	if up := s.running(); len(up) > 0 {
		return s.client(up[0])
	}
	return s.client(s.order[0])
}

func (s *stage) client(machine string) Client {
	if s.clients[machine] == nil {
		client, err := s.Client(machine)
		if err != nil {
			panic(fmt.Sprintf("a client of %s: %v", machine, err)) // a fault of the adapter
		}
		s.clients[machine] = client
	}
	return s.clients[machine]
}

// limit bounds one request.
func (s *stage) limit(ctx context.Context, c call) (context.Context, context.CancelFunc) {
	return s.Timeout(ctx, c.within(request))
}

func (c call) within(otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(c.opts["within"]); err == nil {
		return d
	}
	return otherwise
}

func (c call) is(word string) bool { return slices.Contains(c.words, word) }

// number is an option that is a number; 0 when it is not given.
func (c call) number(option string) int64 {
	n, _ := strconv.ParseInt(c.opts[option], 10, 64)
	return n
}

// patient is for what a script can't go on without. Where much else runs an etcd
// takes half a minute to start; so does, by any clock, one that has lost its log.
func (s *stage) patient() time.Duration { return 3 * patience }

// await looks until what is hoped for is there, or within is over.
func (s *stage) await(ctx context.Context, within time.Duration, there func(context.Context) bool) bool {
	ctx, cancel := s.Timeout(ctx, within)
	defer cancel()
	for ctx.Err() == nil {
		if there(ctx) {
			return true
		}
		if s.Elapse(ctx, pause) != nil {
			return false
		}
	}
	return false
}

// status asks a machine briefly.
func (s *stage) status(ctx context.Context, machine string) (*clientv3.StatusResponse, error) {
	ctx, cancel := s.Timeout(ctx, probeTimeout)
	defer cancel()
	return s.client(machine).Status(ctx, s.URL(machine, ClientPort, false))
}

// unnamed is a file that etcd gives a name of its own to, where the machine has its data.
var unnamed = regexp.MustCompile(`/\S*/(?:db\.tmp\.\d+|[0-9a-f]+-[0-9a-f]+\.snap)`)

// masked is a text without the names of such files.
func masked(text string) string { return unnamed.ReplaceAllString(text, "a new file") }

// failed is how an error of etcd is printed.
func failed(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		return "error: " + context.DeadlineExceeded.Error()
	}
	return "error: " + masked(err.Error())
}
