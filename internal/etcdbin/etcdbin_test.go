// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcdbin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scripts is a builder whose binaries only know how to tell a version.
func scripts(says string) builder {
	return func(_ context.Context, p part, _, entry string, _ func(string)) (map[string]version, error) {
		return nil, writeScripts(entry, p.files(), says)
	}
}

func writeScripts(dir string, files []string, says string) error {
	for _, file := range files {
		text := fmt.Sprintf("#!/bin/sh\necho '%s version: %s'\necho 'Go Version: go1.99.1'\n", file, says)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func noBuild(context.Context, part, string, string, func(string)) (map[string]version, error) {
	return nil, errors.New("built what was there")
}

// entries lists what a cache shows: locks stay by design, anything else
// hidden is an unfinished build.
func entries(t *testing.T, c Cache) []string {
	files, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		if !strings.HasPrefix(file.Name(), ".lock-") {
			names = append(names, file.Name())
		}
	}
	return names
}

func TestInstallBuildsOnceAndThenFinds(t *testing.T) {
	c := Cache{Dir: filepath.Join(t.TempDir(), "made", "on", "demand")}
	_, ok, err := c.Lookup("v3.6.16")
	require.NoError(t, err)
	require.False(t, ok, "nothing was built")

	var told []string
	built, err := c.install(t.Context(), "3.6.16", func(line string) { told = append(told, line) }, scripts("3.6.16"))
	require.NoError(t, err)
	assert.Equal(t, []string{"etcd v3.6.16: built in 0s"}, told)
	assert.Equal(t, "v3.6.16", built.Version)
	assert.Equal(t, "go1.99.1", built.GoVersion)
	assert.Equal(t, "built", built.Source)
	assert.Equal(t, filepath.Join(c.Dir, "v3.6.16", "etcd"), built.Etcd)
	assert.Len(t, built.Digests, 1)

	again, err := c.install(t.Context(), "v3.6.16", nil, noBuild)
	require.NoError(t, err)
	assert.Equal(t, built, again)
	assert.Equal(t, []string{"v3.6.16"}, entries(t, c))
}

func TestReleasesBefore35HaveNoEtcdutl(t *testing.T) {
	release, err := Cache{Dir: t.TempDir()}.installTools(t.Context(), "3.4.15", nil, scripts("3.4.15"))
	require.NoError(t, err)
	assert.Empty(t, release.Etcdutl)
	assert.Len(t, release.Digests, 2)
}

func TestInstallsAtOnceBuildOnce(t *testing.T) {
	c := Cache{Dir: t.TempDir()}
	var builds, inside atomic.Int32
	slow := func(ctx context.Context, p part, work, entry string, say func(string)) (map[string]version, error) {
		builds.Add(1)
		if inside.Add(1) > 1 {
			return nil, errors.New("two builds at once")
		}
		defer inside.Add(-1)
		time.Sleep(200 * time.Millisecond)
		return scripts("3.6.16")(ctx, p, work, entry, say)
	}
	var waited atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			release, err := c.install(t.Context(), "v3.6.16", func(line string) {
				if strings.Contains(line, "waiting") {
					waited.Add(1)
				}
			}, slow)
			assert.NoError(t, err)
			assert.Equal(t, "v3.6.16", release.Version)
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, builds.Load())
	assert.Positive(t, waited.Load(), "nobody waited, so nothing ran at once")
}

func TestADamagedEntryIsFoundAndBuiltAgain(t *testing.T) {
	for name, damage := range map[string]func(entry string) error{
		"a byte more":    func(e string) error { return appendTo(filepath.Join(e, "etcd"), "#") },
		"a binary gone":  func(e string) error { return os.Remove(filepath.Join(e, "etcd")) },
		"not executable": func(e string) error { return os.Chmod(filepath.Join(e, "etcd"), 0o644) },
		"manifest gone":  func(e string) error { return os.Remove(filepath.Join(e, manifestFile)) },
		"manifest torn":  func(e string) error { return os.Truncate(filepath.Join(e, manifestFile), 20) },
		"manifest empty": func(e string) error { return os.WriteFile(filepath.Join(e, manifestFile), []byte("{}"), 0o644) },
		"no digest at all": func(e string) error {
			return os.WriteFile(filepath.Join(e, manifestFile), []byte(`{"version":"v3.6.16"}`), 0o644)
		},
		"of another number": func(e string) error { return renumber(filepath.Join(e, manifestFile)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := Cache{Dir: t.TempDir()}
			sound, err := c.install(t.Context(), "v3.6.16", nil, scripts("3.6.16"))
			require.NoError(t, err)
			require.NoError(t, damage(filepath.Join(c.Dir, "v3.6.16")))

			_, ok, err := c.Lookup("v3.6.16")
			require.ErrorIs(t, err, errDamaged)
			require.False(t, ok)

			var told strings.Builder
			mended, err := c.install(t.Context(), "v3.6.16", func(line string) { told.WriteString(line) }, scripts("3.6.16"))
			require.NoError(t, err)
			assert.Equal(t, sound, mended)
			assert.Contains(t, told.String(), "building it again")
			assert.Equal(t, []string{"v3.6.16"}, entries(t, c), "the damaged files are gone")
		})
	}
}

func appendTo(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(old, text...), 0o755)
}

func renumber(path string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(old), "3.6.16", "3.6.15", 1)), 0o644)
}

func TestAnUnreadableEntryIsNotRebuilt(t *testing.T) {
	// A manifest that is a folder stands for any error that a build would not mend.
	c := Cache{Dir: t.TempDir()}
	require.NoError(t, os.MkdirAll(filepath.Join(c.Dir, "v3.6.16", manifestFile), 0o755))
	_, err := c.install(t.Context(), "v3.6.16", nil, noBuild)
	require.ErrorContains(t, err, "cannot read the cached binaries")
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	for name, build := range map[string]builder{
		"refused":       noBuild,
		"wrong version": scripts("3.6.15"),
		"incomplete":    func(context.Context, part, string, string, func(string)) (map[string]version, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			c := Cache{Dir: t.TempDir()}
			_, err := c.install(t.Context(), "v3.6.16", nil, build)
			require.Error(t, err)
			assert.Empty(t, entries(t, c))
		})
	}
}

func TestABuildThatDiedIsSweptByTheNext(t *testing.T) {
	c := Cache{Dir: t.TempDir()}
	dead, other := filepath.Join(c.Dir, ".build-v3.6.16.1"), filepath.Join(c.Dir, ".build-v3.6.1.1")
	require.NoError(t, os.MkdirAll(filepath.Join(dead, "entry"), 0o755))
	require.NoError(t, os.MkdirAll(other, 0o755))
	_, err := c.install(t.Context(), "v3.6.16", nil, scripts("3.6.16"))
	require.NoError(t, err)
	assert.NoDirExists(t, dead)
	assert.DirExists(t, other, "the build of another version may be alive")
}

func TestCancelMidBuildLeavesNothing(t *testing.T) {
	c := Cache{Dir: t.TempDir()}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := c.install(ctx, "v3.6.16", nil, func(ctx context.Context, p part, work, entry string, _ func(string)) (map[string]version, error) {
		if err := writeScripts(entry, p.files(), "3.6.16"); err != nil {
			return nil, err
		}
		cancel(errors.New("interrupt"))
		_, err := run(ctx, exec.CommandContext(ctx, "sleep", "600"))
		return nil, err
	})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "interrupt")
	assert.Empty(t, entries(t, c))

	_, err = c.install(t.Context(), "v3.6.16", nil, scripts("3.6.16"))
	require.NoError(t, err, "the lock is free again")
}

func TestCancelEndsTheWaitForAnotherBuild(t *testing.T) {
	c := Cache{Dir: t.TempDir()}
	unlock, err := c.lock(t.Context(), version{3, 6, 16}.etcd(), func(string) {})
	require.NoError(t, err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	_, err = c.install(ctx, "v3.6.16", func(string) { cancel() }, noBuild)
	require.ErrorIs(t, err, context.Canceled)
}

func TestCancelKillsTheWholeProcessGroup(t *testing.T) {
	dir := t.TempDir()
	started, survived := filepath.Join(dir, "started"), filepath.Join(dir, "survived")
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "sh", "-c", `(touch "$1"; sleep 1; touch "$2") & wait`, "sh", started, survived)
	go func() {
		defer cancel()
		for i := 0; i < 1000; i++ {
			if _, err := os.Stat(started); err == nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	_, err := run(ctx, cmd)
	require.ErrorIs(t, err, context.Canceled)
	require.FileExists(t, started)
	time.Sleep(1500 * time.Millisecond)
	assert.NoFileExists(t, survived, "a grandchild outlived the cancel")
}

func TestListGivesTheSoundAndNamesTheRest(t *testing.T) {
	c := Cache{Dir: filepath.Join(t.TempDir(), "none yet")}
	found, err := c.List()
	require.NoError(t, err)
	require.Empty(t, found)

	for _, text := range []string{"3.6.9", "3.6.10", "3.5.0"} {
		_, err := c.install(t.Context(), text, nil, scripts(text))
		require.NoError(t, err)
	}
	require.NoError(t, os.Remove(filepath.Join(c.Dir, "v3.6.9", "etcd")))
	found, err = c.List()
	require.ErrorIs(t, err, errDamaged)
	require.ErrorContains(t, err, "v3.6.9")
	require.Len(t, found, 2)
	assert.Equal(t, "v3.5.0", found[0].Version)
	assert.Equal(t, "v3.6.10", found[1].Version)
}

func TestFromDirBelievesTheBinary(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, writeScripts(dir, []string{"etcd", "etcdctl", "etcdutl"}, "3.7.0-rc.0"))
	release, err := FromDir(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, "v3.7.0-rc.0", release.Version)
	assert.Equal(t, "user's own: "+dir, release.Source)
	assert.Equal(t, "go1.99.1", release.GoVersion)
	assert.Len(t, release.Digests, 3)
}

func TestFromDirSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		says  string
		want  string
	}{
		"empty":       {nil, "", "no such file"},
		"odd version": {[]string{"etcd", "etcdctl"}, "main", `its version is "main"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, writeScripts(dir, c.files, c.says))
			_, err := FromDir(t.Context(), dir)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "--etcd-bin "+dir)
		})
	}
	_, err := FromDir(t.Context(), filepath.Join(t.TempDir(), "absent"))
	require.ErrorContains(t, err, "not a folder")
}

func TestFromDirTakesTheToolsThatAreThere(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, writeScripts(dir, []string{"etcd", "etcdctl"}, "3.6.16"))
	release, err := FromDir(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "etcdctl"), release.Etcdctl)
	assert.Empty(t, release.Etcdutl)
	require.NoError(t, os.Chmod(filepath.Join(dir, "etcdctl"), 0o644))
	_, err = FromDir(t.Context(), dir)
	require.ErrorContains(t, err, "etcdctl: not an executable file")
}

// TestToolsAreBuiltWhenTheyAreWanted, beside an etcd that is there and may be running.
func TestToolsAreBuiltWhenTheyAreWanted(t *testing.T) {
	c := Cache{Dir: t.TempDir()}
	plain, err := c.install(t.Context(), "v3.6.16", nil, scripts("3.6.16"))
	require.NoError(t, err)
	require.Empty(t, plain.Etcdctl)
	whole, err := c.installTools(t.Context(), "v3.6.16", nil, scripts("3.6.16"))
	require.NoError(t, err)
	assert.Equal(t, plain.Etcd, whole.Etcd)
	assert.FileExists(t, whole.Etcdctl)
	assert.FileExists(t, whole.Etcdutl)
	assert.Len(t, whole.Digests, 3)

	for _, install := range []func(context.Context, string, func(string), builder) (Release, error){c.install, c.installTools} {
		again, err := install(t.Context(), "v3.6.16", nil, noBuild)
		require.NoError(t, err)
		assert.Equal(t, whole, again)
	}
	found, err := c.List()
	require.NoError(t, err)
	assert.Equal(t, []Release{whole}, found, "it is one release")

	require.NoError(t, appendTo(whole.Etcdctl, "#"))
	again, ok, err := c.Lookup("v3.6.16")
	require.NoError(t, err)
	require.True(t, ok, "its etcd is sound")
	assert.Empty(t, again.Etcdctl)
	again, err = c.installTools(t.Context(), "v3.6.16", nil, scripts("3.6.16"))
	require.NoError(t, err)
	assert.Equal(t, whole, again)
}

// TestAnEntryMayHoldTheToolsToo, as caches did that an earlier ringproof filled.
func TestAnEntryMayHoldTheToolsToo(t *testing.T) {
	c := Cache{Dir: t.TempDir()}
	entry := filepath.Join(c.Dir, "v3.6.16")
	require.NoError(t, os.Mkdir(entry, 0o755))
	files := []string{"etcd", "etcdctl", "etcdutl"}
	require.NoError(t, writeScripts(entry, files, "3.6.16"))
	digests, err := digestAll(entry, files)
	require.NoError(t, err)
	text, err := json.Marshal(manifest{Version: "v3.6.16", Digests: digests})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(entry, manifestFile), text, 0o644))
	release, err := c.installTools(t.Context(), "v3.6.16", nil, noBuild)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(entry, "etcdutl"), release.Etcdutl)
	require.NoError(t, appendTo(release.Etcdutl, "#"))
	_, _, err = c.Lookup("v3.6.16")
	require.ErrorIs(t, err, errDamaged)
}

func TestFromDirRefusesAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etcd"), []byte("#!/bin/sh\necho hello\n"), 0o755))
	_, err := FromDir(t.Context(), dir)
	require.ErrorContains(t, err, `does not look like etcd's: it printed "hello"`)
}
