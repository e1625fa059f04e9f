// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package fidelity_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/internal/virtual"
	"github.com/ringproof/ringproof/internal/virtual/addons"
)

// TestMain is also a sandbox's first process, and the parts of a cluster in virtual time
// that are ringproof's own.
func TestMain(m *testing.M) {
	if entered, code := machines.Enter(); entered {
		os.Exit(code)
	}
	if args := os.Args[1:]; len(args) == 2 && slices.Contains(virtual.OwnParts(), args[0]) {
		fmt.Fprintln(os.Stderr, virtual.BePart(context.Background(), args[0], args[1], io.Discard))
		os.Exit(1) // it was to run for ever
	}
	os.Exit(m.Run())
}

// TestInVirtualTime plays the scripts of clusters in which pods run on the control plane
// and the kubelets of a world in virtual time. It does so in a sandbox, whose mounts nobody
// else sees. The program of this test is itself the seat of that world.
func TestInVirtualTime(t *testing.T) {
	if slices.Equal(flag.Args(), []string{asSeat}) {
		sit(t)
		return
	}
	if text := os.Getenv(worldEnv); text != "" {
		var w inVirtualTime
		require.NoError(t, json.Unmarshal([]byte(text), &w))
		w.live(t)
		return
	}
	text, err := json.Marshal(parts(t))
	require.NoError(t, err)
	code, err := machines.Sandbox(t.Context(), []string{thisTest, "-test.timeout=0"}, append(os.Environ(), worldEnv+"="+string(text)))
	if errors.Is(err, errors.ErrUnsupported) {
		needs.Lacking(t, err.Error())
	}
	require.NoError(t, err)
	require.Zero(t, code, "what was played in virtual time says why, above")
}

// worldEnv names the environment variable with the world, in JSON, that this program is to
// make in its sandbox.
const worldEnv = "RINGPROOF_WORLD"

// inVirtualTime is what a world is made of.
type inVirtualTime struct {
	Seat  string // the path of this program, built for a world
	Trial virtual.Trial
}

// parts builds them. Kubernetes takes some ten minutes the first time, so nobody but a
// trial builds it.
func parts(t *testing.T) inVirtualTime {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: it builds for virtual time: make test")
	}
	kit, err := virtual.Parts(t.Context())
	if errors.Is(err, errors.ErrUnsupported) {
		needs.Lacking(t, err.Error())
	}
	require.NoError(t, err)
	if !kit.HasKubernetes() {
		needs.Trial(t, "Kubernetes isn't built here for virtual time")
	}
	say := func(line string) { t.Log(line) }
	kit, err = kit.WithKubernetes(t.Context(), say)
	require.NoError(t, err)
	here, err := os.Getwd()
	require.NoError(t, err)
	actor := filepath.Join(here, "..", "..", "..", "internal", "actor")
	kit, err = kit.WithProgram(t.Context(), actor, say)
	require.NoError(t, err)
	etcd, err := kit.Etcd.Install(t.Context(), needs.Release, say)
	require.NoError(t, err)
	seat := filepath.Join(t.TempDir(), "seat.test")
	require.NoError(t, kit.BuildTest(t.Context(), here, seat))
	return inVirtualTime{seat, virtual.Trial{Kubernetes: kit.Kubernetes, Program: kit.Programs[actor], Releases: map[string]etcdbin.Release{needs.Release: etcd}}}
}

// live lets the world live.
func (w inVirtualTime) live(t *testing.T) {
	seat := virtual.Seat{Path: w.Seat, Seed: 1, Args: []string{thisTest, "-test.timeout=0", "-test.parallel=100", asSeat},
		Log: func(name string, text []byte) { t.Logf("%s:\n%s", name, text) }}
	o, err := seat.Live(t.Context(), w.Trial, os.Stdout)
	require.NoError(t, err)
	require.Zero(t, o.Status)
	fmt.Printf("%s in virtual time, all that happened in it is %016x\n", o.Virtual.Round(time.Second), o.Hash)
}

const (
	asSeat   = "seat" // the argument by which this program knows that it is one
	thisTest = "-test.run=^TestInVirtualTime$"
)

// nodesInVirtualTime are so many that all pods of all scripts find an address.
const nodesInVirtualTime = 5

// sit makes the cluster and plays the scripts in it.
func sit(t *testing.T) {
	t.Helper()
	var of virtual.Trial
	require.NoError(t, json.NewDecoder(os.Stdin).Decode(&of))
	lab, err := of.Sit(actors{}, "").Labs(t.Context(), machines.Options{})
	require.NoError(t, err)
	hosts := map[string]local.Host{}
	for n := range nodesInVirtualTime {
		name := onVirtual{}.Called(n + 1)
		hosts[name], err = lab.Add(t.Context(), name)
		require.NoError(t, err)
	}
	asked := administrator(t, lab.(local.Nodes).Kubeconfig())
	require.Eventually(t, func() bool { return ready(t, asked) }, settled, time.Second, "the nodes aren't ready")
	playAll(t, func(t *testing.T, path string) api { return onVirtual{newReal(t, asked, path), hosts} })
	require.NoError(t, lab.Close())
}

// ready reports whether all nodes are.
func ready(t *testing.T, c client.Client) bool {
	var all corev1.NodeList
	require.NoError(t, c.List(t.Context(), &all))
	return len(all.Items) == nodesInVirtualTime && !slices.ContainsFunc(all.Items, func(n corev1.Node) bool {
		return !contains(strings.Join(nodeLines(&n), "\n"), []string{"ready True"}) || len(n.Spec.Taints) > 0
	})
}

// actors are the subject of a world in which scripts play: their image is shipped to its
// nodes.
type actors struct{ trial.Subject }

func (actors) Image() (name, program string) { return actor, "/actor" }
func (actors) EtcdImage(string) string       { return "etcd" }
func (actors) Selector() string              { return "" }

// onVirtual is a cluster in virtual time.
type onVirtual struct {
	*real
	of map[string]local.Host
}

func (onVirtual) Called(worker int) string { return fmt.Sprintf("node-%d", worker) }
func (onVirtual) Class() string            { return addons.Class }

func (v onVirtual) Do(ctx context.Context, worker int, deed string) (err error) {
	host := v.of[v.Called(worker)]
	switch deed {
	case kubeletStops:
		_, err = host.(local.Kept).SignalKubelet(syscall.SIGSTOP)
	case kubeletGoes:
		_, err = host.(local.Kept).SignalKubelet(syscall.SIGCONT)
	case powerGoes:
		_, err = host.PowerOff()
	case powerComes:
		_, err = host.PowerOn(ctx)
	default:
		err = fmt.Errorf("a node can't suffer %s", deed)
	}
	return err
}
