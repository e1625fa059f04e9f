// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package lockstep

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// inside is what is compiled into every process: packages and files of the standard
// library, by their place there.
//
//go:embed inside wire.go
var inside embed.FS

// unbuilt keeps the files of inside from being built where they are kept.
const unbuilt = "//go:build lockstep\n"

// goTool is the Go that is on the path.
type goTool struct{ GOROOT, GOVERSION, GOOS, GOARCH string }

func askGo(ctx context.Context) (g goTool, err error) {
	said, err := exec.CommandContext(ctx, "go", "env", "-json", "GOROOT", "GOVERSION", "GOOS", "GOARCH").Output()
	if err != nil {
		return g, fmt.Errorf("asking go for its version: %w; install %s", err, goMinor)
	}
	return g, json.Unmarshal(said, &g)
}

// fits says why the patches can't be for this Go; nil: they may.
func (g goTool) fits() error {
	if g.GOVERSION != goMinor && !strings.HasPrefix(g.GOVERSION, goMinor+".") {
		return fmt.Errorf("refused to build with %s: virtual time needs the standard library of %s; put that first on the PATH (%w)", g.GOVERSION, goMinor, errors.ErrUnsupported)
	}
	if g.GOOS != "linux" || g.GOARCH != "amd64" {
		return fmt.Errorf("refused to build for %s/%s: virtual time is made for linux/amd64 (%w)", g.GOOS, g.GOARCH, errors.ErrUnsupported)
	}
	return nil
}

// patched are the files that differ from Go's, or that it hasn't, by their place below
// GOROOT/src.
func (g goTool) patched() (map[string]string, error) {
	files := map[string]string{}
	var wrong []error
	for _, p := range patches {
		text, read := files[p.file]
		if !read {
			of, err := os.ReadFile(filepath.Join(g.GOROOT, "src", p.file))
			if err != nil {
				return nil, fmt.Errorf("patching %s: %w", g.GOVERSION, err)
			}
			text = string(of)
		}
		if n := strings.Count(text, p.old); n != 1 {
			wrong = append(wrong, fmt.Errorf("patching %s of %s: found %d times and not once: %q", p.file, g.GOVERSION, n, p.old))
			continue
		}
		files[p.file] = strings.Replace(text, p.old, p.new, 1)
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	added, err := additions()
	maps.Copy(files, added)
	return files, err
}

// additions are the files that Go hasn't.
func additions() (map[string]string, error) {
	files := map[string]string{}
	err := fs.WalkDir(inside, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := inside.ReadFile(name)
		place := strings.TrimPrefix(name, "inside/")
		if place == name { // what both sides have
			place = "internal/lockstep/" + name
		}
		files[place] = strings.Replace(string(text), unbuilt, "", 1)
		return err
	})
	return files, err
}

// Overlay is the standard library of a world, as the go command's -overlay takes it.
type Overlay struct {
	File string // for -overlay
	Key  string // differs with what is in it, and with the Go that it is for
}

// MakeOverlay writes the overlay for the Go on the path below dir, where it is kept. An
// error wraps [errors.ErrUnsupported] where that Go isn't one that it fits.
func MakeOverlay(ctx context.Context, dir string) (Overlay, error) {
	g, err := askGo(ctx)
	if err == nil {
		err = g.fits()
	}
	if err != nil {
		return Overlay{}, err
	}
	files, err := g.patched()
	if err != nil {
		return Overlay{}, err
	}
	o := Overlay{Key: keyOf(g, files)}
	dir, err = filepath.Abs(filepath.Join(dir, "overlay-"+o.Key))
	o.File = filepath.Join(dir, "overlay.json")
	if _, missing := os.Stat(o.File); err != nil || missing == nil {
		return o, err
	}
	return o, write(dir, g, files)
}

// entrance is beside the main package of a program that neither serves nor asks by HTTP: of
// the standard library it is that package which begins a world's inside.
const entrance = "package main\n\nimport _ \"net/http\"\n"

// Beside is the overlay for a program of somebody's: its main package, in the directory, has
// a file more, so that the program is in lockstep whatever it imports. Nothing is written
// there.
func (o Overlay) Beside(main string) (Overlay, error) {
	text, err := os.ReadFile(o.File)
	if err != nil {
		return o, fmt.Errorf("reading the overlay: %w", err)
	}
	var list struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &list); err != nil {
		return o, fmt.Errorf("reading the overlay: %w", err)
	}
	of := sha256.Sum256([]byte(main))
	dir := filepath.Join(filepath.Dir(o.File), "beside-"+hex.EncodeToString(of[:4]))
	file := filepath.Join(dir, "entrance.go")
	list.Replace[filepath.Join(main, "zz_lockstep.go")] = file
	if text, err = json.MarshalIndent(list, "", "\t"); err != nil {
		return o, err
	}
	o.File = filepath.Join(dir, "overlay.json")
	return o, errors.Join(replace(file, []byte(entrance)), replace(o.File, text))
}

func keyOf(g goTool, files map[string]string) string {
	sum := sha256.New()
	fmt.Fprintln(sum, g)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(sum, name, files[name])
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// write writes the files, and last the list of them. Two that write at once write the same.
func write(dir string, g goTool, files map[string]string) error {
	var list struct{ Replace map[string]string }
	list.Replace = map[string]string{}
	for name, text := range files { // order: into a map
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := replace(file, []byte(text)); err != nil {
			return fmt.Errorf("writing the overlay: %w", err)
		}
		list.Replace[filepath.Join(g.GOROOT, "src", filepath.FromSlash(name))] = file
	}
	text, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, "overlay.json"), text)
}

// replace writes a file at once, and makes its directory.
func replace(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(file), ".next-*")
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	if err = errors.Join(err, next.Close(), os.Rename(next.Name(), file)); err != nil {
		os.Remove(next.Name())
	}
	return err
}
