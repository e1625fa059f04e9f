// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcdbin

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseVersion(t *testing.T) {
	for _, text := range []string{"3.6.16", "v3.6.16"} {
		v, err := parseVersion(text)
		require.NoError(t, err)
		assert.Equal(t, version{3, 6, 16}, v)
		assert.Equal(t, "v3.6.16", v.String())
	}
	for _, text := range []string{"", "3.6", "v3.6.16-rc.0", "vv3.6.16", "3.06.1", "3.6.16.1", "latest", "../3.6.16", "3.6.1\n", "3.6.99999999999999999999"} {
		_, err := parseVersion(text)
		assert.ErrorContains(t, err, "write it like v3.6.16", "%q", text)
	}
}

func TestSortVersionsOrdersByNumberAndDropsPreReleases(t *testing.T) {
	got := sortVersions([]string{"v3.10.0", "v3.6.9", "v3.6.10", "v3.7.0-rc.0", "v3.6.9", "v3.8.0-alpha.0"})
	assert.Equal(t, []string{"v3.6.9", "v3.6.10", "v3.10.0"}, texts(got))
}

func TestNearest(t *testing.T) {
	known := sortVersions([]string{"v3.5.0", "v3.5.35", "v3.6.0", "v3.6.4", "v3.6.15", "v3.6.16", "v3.7.0", "v3.7.3"})
	for text, want := range map[string]string{
		"v3.6.99": "v3.6.16, v3.6.15, v3.7.0",
		"v3.6.3":  "v3.6.0, v3.6.4, v3.5.35",
		"v2.3.8":  "v3.5.0",
		"v4.0.0":  "v3.7.3, v3.7.0",
	} {
		v, err := parseVersion(text)
		require.NoError(t, err)
		assert.Equal(t, want, join(nearest(v, known)), text)
	}
	assert.Empty(t, nearest(version{3, 6, 1}, nil))
}

// proxy makes the go command see only a folder that holds these releases of a
// toy etcd, and a module cache of its own.
func proxy(t *testing.T, releases ...string) (dir string) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIPPED: the go command is not here")
	}
	dir = t.TempDir()
	for _, module := range []string{"server", "etcdctl", "etcdutl"} {
		at := filepath.Join(dir, "go.etcd.io", "etcd", module, "v3", "@v")
		require.NoError(t, os.MkdirAll(at, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(at, "list"), []byte(strings.Join(releases, "\n")+"\n"), 0o644))
		for _, release := range releases {
			publish(t, at, "go.etcd.io/etcd/"+module+"/v3", release)
		}
	}
	t.Setenv("GOPROXY", "file://"+dir)
	t.Setenv("GOSUMDB", "off") // the toy is in no checksum database
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Cleanup(func() { assert.NoError(t, exec.Command("go", "clean", "-modcache").Run()) })
	return dir
}

func publish(t *testing.T, at, module, release string) {
	mod := "module " + module + "\n\ngo 1.21\n"
	name := strings.Replace(strings.Split(module, "/")[2], "server", "etcd", 1)
	said := name + " Version: " + strings.TrimPrefix(release, "v") + "\nGo Version: go1.99.1\n"
	main := fmt.Sprintf("package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(%q) }\n", said)
	require.NoError(t, os.WriteFile(filepath.Join(at, release+".info"), []byte(`{"Version":"`+release+`"}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(at, release+".mod"), []byte(mod), 0o644))
	file, err := os.Create(filepath.Join(at, release+".zip"))
	require.NoError(t, err)
	defer file.Close()
	archive := zip.NewWriter(file)
	for path, text := range map[string]string{"go.mod": mod, "main.go": main} {
		part, err := archive.Create(module + "@" + release + "/" + path)
		require.NoError(t, err)
		_, err = part.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
}

func TestInstallBuildsWithGo(t *testing.T) {
	proxy(t, "v3.6.15", "v3.6.16")
	c := Cache{Dir: t.TempDir()}
	var told []string
	release, err := c.Install(t.Context(), "v3.6.16", func(line string) { told = append(told, line) })
	require.NoError(t, err)
	assert.Equal(t, "go1.99.1", release.GoVersion)
	require.Len(t, told, 3)
	assert.Equal(t, []string{"etcd v3.6.16: downloading modules", "etcd v3.6.16: building etcd"}, told[:2])
	assert.Contains(t, told[2], "etcd v3.6.16: built in ")
	assert.Empty(t, release.Etcdctl, "nobody runs it")

	again, err := Cache{Dir: t.TempDir()}.Install(t.Context(), "v3.6.16", nil)
	require.NoError(t, err)
	assert.Equal(t, release.Digests, again.Digests, "the same release, built in another folder, is the same bytes")

	found, err := exec.Command("go", "version", "-m", release.Etcd).Output()
	require.NoError(t, err)
	assert.Contains(t, string(found), "DefaultGODEBUG=", "runtime defaults are those of the module's own Go version")
}

func TestUnknownVersionNamesTheNearest(t *testing.T) {
	proxy(t, "v3.5.35", "v3.6.15", "v3.6.16", "v3.7.0", "v3.8.0-alpha.0")
	c := Cache{Dir: t.TempDir()}
	_, err := c.Install(t.Context(), "3.6.99", nil)
	require.ErrorIs(t, err, ErrUnknownVersion)
	require.NotErrorIs(t, err, ErrProxyUnreachable)
	require.EqualError(t, err, "etcd v3.6.99 is not a release the module proxy offers; nearest: v3.6.16, v3.6.15, v3.7.0; "+
		"all: v3.4.15, v3.5.35, v3.6.15, v3.6.16, v3.7.0; --etcd-bin DIR takes a build of your own")
	assert.Empty(t, entries(t, c))
}

func TestAReleaseThatIsServedButNotListedInstalls(t *testing.T) {
	dir := proxy(t, "v3.6.11", "v3.6.16")
	for _, module := range []string{"server", "etcdctl", "etcdutl"} {
		list := filepath.Join(dir, "go.etcd.io", "etcd", module, "v3", "@v", "list")
		require.NoError(t, os.WriteFile(list, []byte("v3.6.16\n"), 0o644))
	}
	_, err := Cache{Dir: t.TempDir()}.Install(t.Context(), "v3.6.11", nil)
	require.NoError(t, err)
}

func TestAListedReleaseThatCannotBeHadIsNotUnknown(t *testing.T) {
	dir := proxy(t, "v3.6.15", "v3.6.16")
	for _, ext := range []string{".info", ".mod"} {
		require.NoError(t, os.Remove(filepath.Join(dir, "go.etcd.io", "etcd", "server", "v3", "@v", "v3.6.15"+ext)))
	}
	_, err := Cache{Dir: t.TempDir()}.Install(t.Context(), "v3.6.15", nil)
	require.ErrorContains(t, err, "cannot download etcd v3.6.15")
	require.NotErrorIs(t, err, ErrUnknownVersion)
}

// unlisted takes one release of a tool out of the proxy.
func unlisted(t *testing.T, dir, tool, release string) {
	at := filepath.Join(dir, "go.etcd.io", "etcd", tool, "v3", "@v")
	list, err := os.ReadFile(filepath.Join(at, "list"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(at, "list"), []byte(strings.Replace(string(list), release+"\n", "", 1)), 0o644))
	for _, ext := range []string{".info", ".mod", ".zip"} {
		require.NoError(t, os.Remove(filepath.Join(at, release+ext)))
	}
}

func TestAToolThatCannotBeHadIsBorrowedFromTheNearestRelease(t *testing.T) {
	dir := proxy(t, "v3.5.2", "v3.6.0", "v3.6.2", "v3.6.4", "v3.6.16")
	unlisted(t, dir, "etcdutl", "v3.6.2")
	unlisted(t, dir, "etcdutl", "v3.6.4")
	c := Cache{Dir: t.TempDir()}
	var told []string
	release, err := c.InstallTools(t.Context(), "v3.6.2", func(line string) { told = append(told, line) })
	require.NoError(t, err)
	assert.Equal(t, "v3.6.2", release.Version)
	assert.Equal(t, map[string]string{"etcdutl": "v3.6.0"}, release.Borrowed)
	assert.Contains(t, told, "etcd v3.6.2: etcdutl can't be had, taking that of v3.6.0")

	again, ok, err := c.Lookup("v3.6.2")
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, release, again, "a release from the cache says so too")
}

func TestAToolThatAProxyCannotBeAskedForIsNotBorrowed(t *testing.T) {
	dir := proxy(t, "v3.6.0", "v3.6.2")
	zip := filepath.Join(dir, "go.etcd.io", "etcd", "etcdutl", "v3", "@v", "v3.6.2.zip")
	require.NoError(t, os.WriteFile(zip, []byte("torn on the way"), 0o644))
	_, err := Cache{Dir: t.TempDir()}.InstallTools(t.Context(), "v3.6.2", nil)
	require.ErrorContains(t, err, "cannot download go.etcd.io/etcd/etcdutl/v3 v3.6.2")
}

func TestAReleaseWithoutItsEtcdIsNotBorrowed(t *testing.T) {
	dir := proxy(t, "v3.6.0", "v3.6.2")
	unlisted(t, dir, "server", "v3.6.2")
	_, err := Cache{Dir: t.TempDir()}.Install(t.Context(), "v3.6.2", nil)
	require.ErrorIs(t, err, ErrUnknownVersion)
}

func TestSiblingsAreOfTheSameMinorAndTheNearestFirst(t *testing.T) {
	known := sortVersions([]string{"v3.5.2", "v3.6.0", "v3.6.1", "v3.6.2", "v3.6.4", "v3.6.16", "v3.7.2", "v4.6.2"})
	assert.Equal(t, []string{"v3.6.1", "v3.6.4", "v3.6.0", "v3.6.16"}, texts(siblings(version{3, 6, 2}, known)))
}

func TestAReleaseThatMissesAProgramNamesIt(t *testing.T) {
	dir := proxy(t, "v3.6.16")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "go.etcd.io", "etcd", "etcdutl")))
	c := Cache{Dir: t.TempDir()}
	_, err := c.InstallTools(t.Context(), "v3.6.16", nil)
	require.ErrorContains(t, err, "cannot download go.etcd.io/etcd/etcdutl/v3 v3.6.16")
	require.NotErrorIs(t, err, ErrUnknownVersion)
	assert.Equal(t, []string{"v3.6.16"}, entries(t, c), "its etcd is there all the same")
}

func TestAProxyThatCannotBeAskedIsNotAnAnswer(t *testing.T) {
	proxy(t)
	for _, address := range []string{"off", "http://127.0.0.1:1"} {
		t.Setenv("GOPROXY", address)
		_, err := Cache{Dir: t.TempDir()}.Install(t.Context(), "v3.6.99", nil)
		require.ErrorIs(t, err, ErrProxyUnreachable, address)
		require.NotErrorIs(t, err, ErrUnknownVersion, address)
		_, err = Versions(t.Context())
		require.ErrorIs(t, err, ErrProxyUnreachable, address)
	}
}

func TestALostConnectionIsNotAnAnswer(t *testing.T) {
	proxy(t, "v3.6.16")
	err := explain(t.Context(), version{3, 6, 11}, t.TempDir(), errors.New("read: connection reset by peer"))
	require.ErrorIs(t, err, ErrProxyUnreachable)
	err = explain(t.Context(), version{3, 6, 11}, t.TempDir(), errors.New("reading v3.6.11.info: 404 Not Found"))
	require.ErrorIs(t, err, ErrUnknownVersion)
}

func TestVersions(t *testing.T) {
	proxy(t, "v3.6.9", "v3.6.10", "v3.7.0-rc.0")
	got, err := Versions(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"v3.4.15", "v3.6.9", "v3.6.10"}, got)
}

func TestVersionsLeavesTheModuleThatOneStandsInAlone(t *testing.T) {
	proxy(t, "v3.6.16")
	stand := t.TempDir()
	before := "module example.com/mine\n\ngo 1.21\n\nrequire (\n)\n"
	require.NoError(t, os.WriteFile(filepath.Join(stand, "go.mod"), []byte(before), 0o644))
	t.Chdir(stand)
	_, err := Versions(t.Context())
	require.NoError(t, err)
	after, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	assert.Equal(t, before, string(after))
}

func TestWithoutGoTheErrorPointsToEtcdBin(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Cache{Dir: t.TempDir()}.Install(t.Context(), "v3.6.16", nil)
	require.ErrorIs(t, err, errNoGo)
	require.ErrorContains(t, err, "--etcd-bin DIR")
	require.NotErrorIs(t, err, ErrProxyUnreachable)
}

func TestCancelStopsTheGoCommand(t *testing.T) {
	proxy(t, "v3.6.16")
	c := Cache{Dir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Install(ctx, "v3.6.16", func(line string) {
		if strings.Contains(line, "building") {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, entries(t, c))
}

// TestInstallRealRelease builds the newest etcd 3.6 there is, from nothing.
func TestInstallRealRelease(t *testing.T) {
	if os.Getenv("RINGPROOF_TRIALS") == "" { // needs imports this package
		t.Skip("SKIPPED: a download can fail: make trials")
	}
	known, err := Versions(t.Context())
	if errors.Is(err, ErrProxyUnreachable) || errors.Is(err, errNoGo) {
		t.Skipf("SKIPPED: no real etcd was built: %v", err)
	}
	require.NoError(t, err)
	require.True(t, slices.Contains(known, "v3.6.16"), "%v", known)
	release, err := Cache{Dir: t.TempDir()}.InstallTools(t.Context(), "v3.6.16", func(line string) { t.Log(line) })
	require.NoError(t, err)
	require.FileExists(t, release.Etcdctl)
	require.FileExists(t, release.Etcdutl)
	own, err := FromDir(t.Context(), filepath.Dir(release.Etcd))
	require.NoError(t, err)
	assert.Equal(t, "v3.6.16", own.Version)
	assert.Equal(t, release.Digests["etcd"], own.Digests["etcd"])
	assert.Equal(t, release.GoVersion, own.GoVersion)
}

// Versions returns the releases that the module proxy lists, and the older
// ones that Install knows how to build, oldest first.
//
// A proxy may list fewer than it serves, so Install also tries what is not
// listed. An error means that nothing is known: it is never an empty list.
func Versions(ctx context.Context) ([]string, error) {
	dir, err := os.MkdirTemp("", "ringproof-versions-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	known, err := releases(ctx, dir)
	if err != nil {
		return nil, err
	}
	return texts(known), nil
}
