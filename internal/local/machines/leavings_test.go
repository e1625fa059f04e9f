// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// marked lists what carries the marker in its environment, from outside, with its network namespaces.
func marked(marker string) (ps []Process, nets map[string]bool) {
	nets = map[string]bool{}
	for _, v := range vitals() {
		if m, _ := environ(v.pid, "RINGPROOF_TEST_MARKER"); m == marker && !v.dead() {
			ps = append(ps, describe(v, ""))
			ns, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", v.pid))
			nets[ns] = true
		}
	}
	return ps, nets
}

// live starts the test binary in a role, as a user would, and waits until its lab is ready.
func live(t *testing.T, play string) (cmd *exec.Cmd, marker string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	marker = fmt.Sprintf("%s-%d", t.Name(), os.Getpid())
	cmd = exec.Command(exe)
	cmd.Env = append(os.Environ(), role+"="+play, "RINGPROOF_TEST_MARKER="+marker)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for s := bufio.NewScanner(out); s.Scan(); {
		if s.Text() == "ready" {
			return cmd, marker
		}
		if strings.Contains(s.Text(), errors.ErrUnsupported.Error()) {
			t.Skip("no namespaces here: " + s.Text())
		}
		t.Log(s.Text())
	}
	t.Fatal("its lab did not get ready")
	return nil, ""
}

// inUse reports whether a process is in one of the network namespaces, other than our own.
func inUse(nets map[string]bool) bool {
	own, _ := os.Readlink("/proc/self/ns/net")
	return slices.ContainsFunc(vitals(), func(v vital) bool {
		ns, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", v.pid))
		return ns != own && nets[ns]
	})
}

func requireGone(t *testing.T, marker string, nets map[string]bool) {
	t.Helper()
	require.True(t, within(time.Minute, func() bool {
		ps, _ := marked(marker)
		return len(ps) == 0
	}), "processes are left")
	require.True(t, within(time.Minute, func() bool { return !inUse(nets) }), "network namespaces are left")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), "ringproof")
	links, err := net.Interfaces()
	require.NoError(t, err)
	for _, l := range links {
		require.NotContains(t, l.Name, "ringproof")
	}
}

func TestSandboxLeavesNothing(t *testing.T) {
	cases := map[string]struct {
		sig  syscall.Signal
		code int
	}{
		"killed": {syscall.SIGKILL, -1},
		"ctrl-c": {syscall.SIGINT, 9},
		"term":   {syscall.SIGTERM, 9},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cmd, marker := live(t, "outer")
			ps, nets := marked(marker)
			t.Log(Roll(ps))
			require.GreaterOrEqual(t, len(ps), 7, "outer, init, run, two hosts, two agents")
			require.Len(t, nets, 4, "ours, the run's, and one a machine")
			require.NoError(t, cmd.Process.Signal(c.sig))
			_ = cmd.Wait()
			require.Equal(t, c.code, cmd.ProcessState.ExitCode())
			requireGone(t, marker, nets)
		})
	}
}

// The run dying alone is the sandbox's end too, with its exit code.
func TestSandboxEndsWithItsRun(t *testing.T) {
	cmd, marker := live(t, "outer")
	ps, nets := marked(marker)
	for _, p := range ps {
		if p.PID != cmd.Process.Pid && !strings.Contains(strings.Join(p.Args, " "), "machines-") && p.Tag == "" {
			require.NoError(t, p.kill(syscall.SIGKILL))
		}
	}
	_ = cmd.Wait()
	require.Equal(t, 137, cmd.ProcessState.ExitCode())
	requireGone(t, marker, nets)
}

func TestSandboxRefusals(t *testing.T) {
	t.Setenv(withoutNamespaces, "1")
	_, err := Sandbox(t.Context(), nil, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "unset it")
}

// fallback has a cache of its own, so that Clean touches no other run of the user's.
func fallback(t *testing.T) string {
	t.Helper()
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv(withoutNamespaces, "1")
	return filepath.Join(cache, "ringproof", "runs")
}

func TestFallback(t *testing.T) {
	runs := fallback(t)
	ms := newLab(t, "m1", "m2")
	m := ms[0]
	require.ErrorIs(t, m.lab.Limits(), errors.ErrUnsupported)
	require.Regexp(t, `^127\.0\.\d+\.11$`, m.Addr().String())
	startServing(t, m, "agent", "agent")
	startServing(t, ms[1], "server", "serve")
	require.NoError(t, dial(ms[1], m, surely))

	for _, refused := range []func() error{
		func() error { _, err := m.Block(Traffic{}, ms[1].Addr()); return err },
		func() error { _, err := m.BlockTo(ms[1].Addr()); return err },
		func() error { _, err := m.Unblock(t.Context()); return err },
		func() error { _, err := m.FillVolume(); return err },
		func() error { _, err := m.FreeVolume(); return err },
		func() error { _, err := m.Drops(); return err },
	} {
		err := refused()
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "need namespaces")
	}

	e, err := m.Freeze()
	require.Len(t, shown(t, e, err).Processes, 2)
	e, err = m.Thaw()
	shown(t, e, err)
	require.NoError(t, os.WriteFile(filepath.Join(m.DataRoot(), "kept"), nil, 0o600))
	e, err = m.PowerOff()
	require.Len(t, shown(t, e, err).Processes, 2)
	require.Error(t, dialFromRun(m, soon))
	require.NoError(t, dialFromRun(ms[1], surely))
	_, err = m.PowerOn(t.Context())
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(m.DataDir(), "kept"))
	said := make(chan string, 1)
	require.NoError(t, m.Start(t.Context(), program("holder", "hold", filepath.Join(m.DataDir(), "f"), func(s string) { said <- s })))
	<-said
	e, err = m.SwapVolume(t.Context())
	require.Len(t, shown(t, e, err).Processes, 1)
	require.NoFileExists(t, filepath.Join(m.DataDir(), "kept"))

	removed, err := Clean()
	require.NoError(t, err)
	require.Empty(t, removed, "a living run is left alone")
	require.NoError(t, m.lab.Close())
	left, err := os.ReadDir(runs)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestFallbackLeavings(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "ctrl-c": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			fallback(t)
			cmd, marker := live(t, "direct")
			require.NoError(t, cmd.Process.Signal(sig))
			_ = cmd.Wait()
			requireGone(t, marker, nil)
			removed, err := Clean()
			require.NoError(t, err)
			t.Log(removed)
			require.Equal(t, sig == syscall.SIGKILL, len(removed) > 0, "only a killed run leaves folders")
		})
	}
}

// The worst case: all of the fallback's own processes are killed at once, and the programs live on.
func TestCleanFindsWhatLivesOn(t *testing.T) {
	runs := fallback(t)
	cmd, marker := live(t, "direct")
	ps, _ := marked(marker)
	var own []Process
	for _, p := range ps {
		if strings.Contains(strings.Join(p.Args, " "), asHost) || p.PID == cmd.Process.Pid {
			own = append(own, p)
		}
	}
	require.Len(t, own, 3, "the run and two hosts")
	orphans := append(below(own[1].PID), below(own[2].PID)...)
	require.NoError(t, killAll(own, syscall.SIGSTOP))
	require.NoError(t, killAll(own, syscall.SIGKILL))
	_ = cmd.Wait()
	removed, err := Clean()
	require.NoError(t, err)
	t.Log(strings.Join(removed, "\n"))
	require.True(t, within(time.Minute, func() bool { return allOf(orphans, Process.dead) }), Roll(orphans))
	left, err := os.ReadDir(runs)
	require.NoError(t, err)
	require.Empty(t, left)
}
