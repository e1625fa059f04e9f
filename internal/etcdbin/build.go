// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcdbin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const serverModule = "go.etcd.io/etcd/server/v3"

// older maps the releases before 3.5, when etcd was one module with no usable
// tags, to the pseudo-versions that they are known under.
var older = map[version]string{
	{3, 4, 15}: "v0.5.0-alpha.5.0.20210428180535-15715dcf1ace",
}

// program is one main package and the module that holds it.
type program struct{ file, module, at, path string }

func (p part) programs() (programs []program) {
	for _, file := range p.files() {
		programs = append(programs, p.version.program(file))
	}
	return programs
}

func (v version) program(file string) program {
	module, at := "go.etcd.io/etcd/"+file+"/v3", v.String()
	path := module
	if file == "etcd" {
		module, path = serverModule, serverModule
	}
	if old, ok := older[v]; ok {
		module, at, path = "go.etcd.io/etcd", old, "go.etcd.io/etcd"
		if file != "etcd" {
			path += "/" + file
		}
	}
	return program{file, module, at, path}
}

// goBuild is the builder of real releases, with the flags of go build. Each program is built in a
// throw-away module that requires it and nothing else, so that it gets the
// dependencies its own go.mod names and not those of the other programs.
//
// A release is its etcd. A tool that can't be had at that version, such as the
// etcdutl of v3.6.2, which no checksum database knows, comes from the nearest
// release of the same minor.
func goBuild(flags []string) builder {
	return func(ctx context.Context, of part, work, entry string, say func(string)) (map[string]version, error) {
		return of.build(ctx, flags, work, entry, say)
	}
}

func (of part) build(ctx context.Context, flags []string, work, entry string, say func(string)) (borrowed map[string]version, err error) {
	say("downloading modules")
	programs := of.programs()
	borrowed = map[string]version{}
	for i, p := range programs {
		err := p.fetch(ctx, work)
		switch {
		case err == nil || ctx.Err() != nil:
		case !of.isTools:
			return nil, explain(ctx, of.version, work, err)
		case refused(err):
			programs[i], err = p.borrow(ctx, of.version, work, err)
			if err == nil {
				borrowed[p.file], _ = parseVersion(programs[i].at)
				say(fmt.Sprintf("%s can't be had, taking that of %s", p.file, programs[i].at))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("cannot download %s %s: %w; --etcd-bin DIR takes a build of your own", p.module, p.at, err)
		}
	}
	for _, p := range programs {
		say(fmt.Sprintf("building %s", p.file))
		if err := p.build(ctx, flags, filepath.Join(work, p.file), filepath.Join(entry, p.file)); err != nil {
			return nil, err
		}
	}
	return borrowed, nil
}

// borrow fetches the program of the nearest release of v's minor that has one.
// why is the refusal of v's own, and its answer if no other can be had.
func (p program) borrow(ctx context.Context, v version, work string, why error) (program, error) {
	known, err := listVersions(ctx, work, p.module)
	if err != nil {
		return p, err
	}
	for _, other := range siblings(v, known) {
		p.at = other.String()
		err := p.fetch(ctx, work)
		if err == nil || !refused(err) {
			return p, err
		}
	}
	return p, fmt.Errorf("%w; and no other %d.%d has one", why, v[0], v[1])
}

// fetch makes the program ready to be built in a folder of its name.
func (p program) fetch(ctx context.Context, work string) error {
	dir := filepath.Join(work, p.file)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := p.require(ctx, dir); err != nil {
		return err
	}
	return p.download(ctx, dir)
}

// require writes the throw-away module. It takes over the Go version of the
// program's module, because that decides the runtime's defaults (GODEBUG): a
// release must behave as it was released.
func (p program) require(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	out, err := goCommand(ctx, dir, "list", "-m", "-f", "{{.GoVersion}}", p.module+"@"+p.at)
	if err != nil {
		return err
	}
	language := strings.TrimSpace(out)
	if language == "" { // also what the go command prints when it cannot read the file
		_, err := goCommand(ctx, dir, "mod", "download", p.module+"@"+p.at)
		return errors.Join(errors.New("its go.mod names no Go version, or cannot be read"), err)
	}
	module := fmt.Sprintf("module ringproof.dev/throwaway\n\ngo %s\n\nrequire %s %s\n", language, p.module, p.at)
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o644)
}

// download fetches what the program imports, which is far less than what its
// module graph names.
func (p program) download(ctx context.Context, dir string) error {
	_, err := goCommand(ctx, dir, "list", "-deps", "-f", "", p.path)
	return err
}

func (p program) build(ctx context.Context, flags []string, dir, out string) error {
	args := slices.Concat([]string{"build", "-trimpath", "-buildvcs=false"}, flags, []string{"-o", out, p.path})
	if _, err := goCommand(ctx, dir, args...); err != nil {
		return fmt.Errorf("cannot build %s %s: %w", p.path, p.at, err)
	}
	return nil
}
