// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init STORE nodes=3 version=v3.6.16 [KEY=VALUE...]",
		Short: "make a store, and write in it what the ring should be",
		Long: `init makes a store and writes the ring's first spec in it. The agents that
ringadm auto runs on each machine bootstrap the ring from it, once.

` + specKeys,
		Example: "  ringadm init file:///mnt/ring version=v3.6.16 nodes=3",
		Args:    atLeast(1, "the store's address and KEY=VALUE pairs"),
		RunE: func(c *cobra.Command, args []string) error {
			spec := store.Spec{Nodes: 3, Security: ring.TLS}
			fmt.Fprint(c.ErrOrStderr(), notes(args[1:]))
			if err := set(&spec, args[1:]); err != nil {
				return err
			}
			if err := create(c.Context(), args[0], spec); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "made: %d nodes of etcd %s (%s)\nnext, on each machine: ringadm auto %s --address ADDRESS\n", spec.Nodes, spec.Version, spec.Security, args[0])
			return nil
		},
	}
}

// renamed is the command by its name of the release before, which no help shows.
func renamed(old string, c *cobra.Command) *cobra.Command {
	name, arguments, _ := strings.Cut(c.Use, " ")
	c.Use, c.Deprecated = old+" "+arguments, "write "+name
	return c
}

const specKeys = `Keys:
  nodes            voters: 1, 3, 5, 7 or 9
  version          etcd release, as v3.6.16. Changed, it is an upgrade: one member after
                   another, the leader last, a minor at a time
  security         tls (the default) or plain: how the ring's clients speak, and its peers
  peers            plain: its members speak plain text to each other all the same. Changed to
                   tls, they are moved to it while the ring runs; it isn't taken back
  decommission     machines to move members off, comma-separated (in the spec: retire)
  paused           true: change nothing
  heartbeat        raft heartbeat, as 100ms
  election         election timeout, as 1s
  snapshot-count   raft entries between snapshots
  replace-after    how long a machine is absent before a spare takes its place, as 60s;
                   10m by itself, which is longer than a reboot
  certificates     how long certificates live, as 2160h; a year by itself. They are
                   renewed when a third of that is left
  flag.NAME        a flag of etcd's that ringadm doesn't set itself; none: no longer
  M.flag.NAME      the same for machine M alone
  M.version        the release of machine M, until it is as the others again`

func create(ctx context.Context, address string, spec store.Spec) error {
	if err := spec.Validate(); err != nil {
		return usageError{err}
	}
	s, specs, err := newStore(ctx, address, fmt.Sprintf("to change it: ringadm spec %s nodes=%d", address, spec.Nodes))
	if err != nil {
		return err
	}
	defer s.Close()
	if spec.Security.Secure() {
		if err := foundAuthority(ctx, s); err != nil {
			return err
		}
	}
	_, err = specs.Append(ctx, 0, spec)
	return err
}

// foundAuthority keeps the authority of an init that was cut off before it
// wrote the spec.
func foundAuthority(ctx context.Context, s store.Store) error {
	authority, err := launcher.NewAuthority(time.Now(), 1)
	if err != nil {
		return err
	}
	_, err = first(ctx, store.Log[store.Authority]{Store: s, Prefix: auto.AuthorityPrefix}, authority)
	return err
}

// newStore opens a store in which no ring is specified yet, and makes it where there is
// none. instead is what to do where one is.
func newStore(ctx context.Context, address, instead string) (store.Blob, store.Log[store.Spec], error) {
	s, err := store.Open(ctx, address+"?create_dir=true")
	if err != nil {
		return s, store.Log[store.Spec]{}, err
	}
	specs := store.Log[store.Spec]{Store: s, Prefix: auto.SpecPrefix}
	n := 0
	if err = store.Init(ctx, s); err == nil {
		n, _, err = specs.Latest(ctx)
	}
	if err == nil && n > 0 {
		err = fmt.Errorf("%s holds a ring's spec already; %s", address, instead)
	}
	if err != nil {
		return s, specs, errors.Join(err, s.Close())
	}
	return s, specs, nil
}

// first returns a log's first record, which is the value if there was none.
func first[T any](ctx context.Context, log store.Log[T], value T) (T, error) {
	kept, there, err := log.First(ctx)
	if there || err != nil {
		return kept, err
	}
	_, err = log.Append(ctx, 0, value)
	return value, err
}

func specCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "spec STORE [KEY=VALUE...]",
		Short:   "show what the ring should be, or change it",
		Long:    "spec shows the newest spec, or writes the next one with the keys changed.\n\n" + specKeys,
		Example: "  ringadm spec file:///mnt/ring nodes=5",
		Args:    atLeast(1, "the store's address and KEY=VALUE pairs"),
		RunE: func(c *cobra.Command, args []string) error {
			fmt.Fprint(c.ErrOrStderr(), notes(args[1:]))
			spec, err := respec(c.Context(), args[0], args[1:])
			if err != nil {
				return err
			}
			if len(spec.Decommission) > 0 {
				fmt.Fprint(c.ErrOrStderr(), strangers(c.Context(), args[0], spec))
			}
			return printJSON(c.OutOrStdout(), spec)
		},
	}
}

// strangers names the machines that are to be decommissioned and that nobody has seen: who mistypes a
// name, and hears nothing, waits for a member to be moved that stays. They are no error, as
// a machine may be asked away before its agent has run.
func strangers(ctx context.Context, address string, spec store.Spec) (said string) {
	s, err := store.Open(ctx, address)
	if err != nil {
		return fmt.Sprintf("whether all that are to be decommissioned are there is not known: %v\n", err)
	}
	defer s.Close()
	known, err := auto.Machines(ctx, s)
	if err != nil {
		return fmt.Sprintf("whether all that are to be decommissioned are there is not known: %v\n", err)
	}
	for _, name := range spec.Decommission {
		if _, there := known[name]; !there {
			said += fmt.Sprintf("no machine %s is in the store, so that nothing is moved off it; there are: %s\n", name, cmp.Or(strings.Join(slices.Sorted(maps.Keys(known)), ", "), "none"))
		}
	}
	return said
}

func respec(ctx context.Context, address string, pairs []string) (store.Spec, error) {
	s, err := store.Open(ctx, address)
	if err != nil {
		return store.Spec{}, err
	}
	defer s.Close()
	if err := store.Check(ctx, s); err != nil {
		return store.Spec{}, err
	}
	log := store.Log[store.Spec]{Store: s, Prefix: auto.SpecPrefix}
	n, spec, err := log.Latest(ctx)
	if err != nil || len(pairs) == 0 {
		return spec, err
	}
	if n == 0 {
		return spec, fmt.Errorf("%s holds no spec; make one with ringadm init", address)
	}
	before := spec
	if err := set(&spec, pairs); err != nil {
		return spec, err
	}
	if spec.Security != before.Security {
		return before, errors.New("changing the security of a ring is not supported by this release")
	}
	if err := cmp.Or(upgraded(&spec, before.Version), spec.CheckOwn(before), encrypted(&spec, before.Peers)); err != nil {
		return before, usageError{err}
	}
	if err := spec.Validate(); err != nil {
		return before, usageError{err}
	}
	_, err = log.Append(ctx, n, spec)
	if errors.Is(err, store.ErrExists) {
		return before, cameFirst(ctx, log, address, err)
	}
	return spec, err
}

// upgraded asks for the release that was set as an upgrade.
func upgraded(spec *store.Spec, before ring.Version) error {
	asked := spec.Version
	spec.Version = before
	return spec.Ask(asked)
}

// encrypted asks for how peers speak that was set as a move.
func encrypted(spec *store.Spec, before ring.Security) error {
	asked := spec.PeersSpeak()
	spec.Peers = before
	return spec.AskPeers(asked)
}

// cameFirst tells whoever asked too late what was asked for meanwhile, so that one
// of two operators doesn't take the other's spec for his own.
func cameFirst(ctx context.Context, log store.Log[store.Spec], address string, err error) error {
	n, now, failed := log.Latest(ctx)
	if failed != nil {
		return fmt.Errorf("%w; another operator was first, and nothing was changed", err)
	}
	text, _ := json.Marshal(now)
	return fmt.Errorf("%w; another operator was first, and nothing was changed: spec %d is now %s; see ringadm spec %s, and ask again", err, n, text, address)
}

// renamedKeys are those that have another name now; the one of the release before is taken,
// with a note.
var renamedKeys = map[string]string{"retire": "decommission"}

func notes(pairs []string) (said string) {
	for _, pair := range pairs {
		key, _, _ := strings.Cut(pair, "=")
		if now := renamedKeys[key]; now != "" {
			said += fmt.Sprintf("Key %q is deprecated, write %s\n", key, now)
		}
	}
	return said
}

// set applies KEY=VALUE pairs.
func set(spec *store.Spec, pairs []string) error {
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return usageError{fmt.Errorf("%q: write KEY=VALUE, as in nodes=3", pair)}
		}
		setter, known := setters[cmp.Or(renamedKeys[key], key)]
		if !known {
			setter, known = setterOf(key)
		}
		if !known {
			return usageError{fmt.Errorf("unknown key %q; the keys are nodes, version, security, peers, decommission, paused, heartbeat, election, snapshot-count, replace-after, certificates, flag.NAME, MACHINE.version, MACHINE.flag.NAME", key)}
		}
		if err := setter(spec, value); err != nil {
			return usageError{fmt.Errorf("%s: %w", pair, err)}
		}
	}
	return nil
}

var setters = map[string]func(*store.Spec, string) error{
	"nodes": func(s *store.Spec, v string) error { return setNumber(&s.Nodes, v) },
	"version": func(s *store.Spec, v string) error {
		s.Version = ring.Version("v" + strings.TrimPrefix(v, "v"))
		return nil
	},
	"security":       func(s *store.Spec, v string) error { s.Security = ring.Security(v); return nil },
	"peers":          func(s *store.Spec, v string) error { s.Peers = ring.Security(v); return nil },
	"decommission":   func(s *store.Spec, v string) error { s.Decommission = words(v); return nil },
	"paused":         func(s *store.Spec, v string) (err error) { s.Paused, err = strconv.ParseBool(v); return err },
	"heartbeat":      func(s *store.Spec, v string) error { return setMillis(&s.HeartbeatMillis, v) },
	"election":       func(s *store.Spec, v string) error { return setMillis(&s.ElectionMillis, v) },
	"snapshot-count": func(s *store.Spec, v string) error { return setNumber(&s.SnapshotCount, v) },
	"replace-after":  func(s *store.Spec, v string) error { return setMillis(&s.ReplaceAfterMillis, v) },
	"certificates":   func(s *store.Spec, v string) error { return setMillis(&s.CertificateMillis, v) },
}

// setterOf returns the setter of a key that has a name in it: flag.NAME,
// MACHINE.version or MACHINE.flag.NAME. No value takes what was set away.
func setterOf(key string) (func(*store.Spec, string) error, bool) {
	if name, ok := strings.CutPrefix(key, "flag."); ok {
		return func(s *store.Spec, v string) error { s.SetFlag("", name, v); return nil }, true
	}
	if machine, ok := strings.CutSuffix(key, ".version"); ok {
		return func(s *store.Spec, v string) error { s.SetVersion(machine, ring.Version(v)); return nil }, true
	}
	if machine, name, ok := strings.Cut(key, ".flag."); ok {
		return func(s *store.Spec, v string) error { s.SetFlag(machine, name, v); return nil }, true
	}
	return nil, false
}

func setNumber(to *int, value string) (err error) {
	*to, err = strconv.Atoi(value)
	if err != nil {
		return errors.New("write a whole number")
	}
	return nil
}

func setMillis(to *int, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d%time.Millisecond != 0 {
		return errors.New("write whole milliseconds with a unit, as 100ms or 5s")
	}
	*to = int(d.Milliseconds())
	return nil
}

func words(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(w string) bool { return w == "" })
}
