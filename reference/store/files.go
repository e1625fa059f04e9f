// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// files is a Store in a directory.
//
// It is not gocloud's fileblob, whose IfNotExist is a Stat and then a Rename
// under a mutex that every writer makes for itself (v0.47.0, fileblob.go:780
// and :854). Two creators, even within one process: both Stat and find nothing, A
// renames and is told that it won, B renames over A's file and is told that it
// won. Two machines then hold the same epoch. A hard link is exclusive in the
// kernel, and on an NFS server: link(2) fails with EEXIST or makes the name.
//
// The directory is held open, so that every call means the file system that
// was there when the store was opened, whatever is mounted over it later.
type files struct{ root *os.Root }

const (
	dirMode  = 0o700
	fileMode = 0o600
)

func openFiles(dir string, create bool) (files, error) {
	if create {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return files{}, fmt.Errorf("cannot create the directory: %w", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return files{}, errors.New("the directory does not exist: mount it, or add ?create_dir=true if it never existed")
	}
	if err != nil {
		return files{}, fmt.Errorf("cannot open the directory: %w", err)
	}
	return files{root}, nil
}

func (f files) Close() error { return f.root.Close() }

// Create writes a temporary file beside the key, makes it durable, and links
// it to the key; nobody ever sees half a value. A crash may leave the temporary
// file behind, which nobody lists.
func (f files) Create(ctx context.Context, key string, value []byte) error {
	if err := cmp.Or(ctx.Err(), CheckKey(key)); err != nil {
		return fmt.Errorf("%s not created: %w", key, err)
	}
	dir := path.Dir(key)
	if err := f.root.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("%s not created: %w", key, err)
	}
	temporary := path.Join(dir, ".tmp-"+rand.Text())
	defer func() { _ = f.root.Remove(temporary) }()
	if err := f.write(temporary, value); err != nil {
		return fmt.Errorf("%s not created: %w", key, err)
	}
	linked := f.link(temporary, key)
	if linked != nil && !errors.Is(linked, ErrExists) {
		return linked
	}
	// The loser waits for the disk as the winner does: it will act on what
	// it lost to, which must not be gone after a power cut.
	if err := f.sync(dir); err != nil {
		return fmt.Errorf("%s may not be durable: %w", key, err)
	}
	return linked
}

func (f files) write(name string, value []byte) (err error) {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(value); err != nil {
		return err
	}
	return file.Sync()
}

func (f files) link(temporary, key string) error {
	err := f.root.Link(temporary, key)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		// NFS repeats a request whose reply was lost, and the repetition
		// finds the name that the first one made: that name is ours.
		if f.same(temporary, key) {
			return nil
		}
		return fmt.Errorf("%s: %w", key, ErrExists)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s not created: the store needs a file system with hard links, which make creation exclusive: %w", key, err)
	}
	return fmt.Errorf("%s: unknown whether created: %w", key, err)
}

func (f files) same(a, b string) bool {
	ours, err := f.root.Lstat(a)
	if err != nil {
		return false
	}
	theirs, err := f.root.Lstat(b)
	return err == nil && os.SameFile(ours, theirs)
}

// sync makes the names in dir durable, and dir itself: the MkdirAll that made
// it may have been another machine's.
func (f files) sync(dir string) error {
	for ; ; dir = path.Dir(dir) {
		if err := f.syncOne(dir); err != nil || dir == "." {
			return err
		}
	}
}

func (f files) syncOne(dir string) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get implements Store. What it returns is durable: a reader acts on it, and
// its creator may have crashed between the link and the sync.
func (f files) Get(ctx context.Context, key string) ([]byte, error) {
	if err := cmp.Or(ctx.Err(), CheckKey(key)); err != nil {
		return nil, fmt.Errorf("%s not read: %w", key, err)
	}
	value, err := f.root.ReadFile(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	if err == nil {
		err = f.sync(path.Dir(key))
	}
	if err != nil {
		return nil, fmt.Errorf("%s not read: %w", key, err)
	}
	return value, nil
}

// List implements Store.
func (f files) List(ctx context.Context, prefix string) ([]string, error) {
	if err := cmp.Or(ctx.Err(), checkPrefix(prefix)); err != nil {
		return nil, fmt.Errorf("%q not listed: %w", prefix, err)
	}
	start := path.Dir(prefix)
	var keys []string
	err := fs.WalkDir(f.root.FS(), start, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == start:
			return nil
		case err != nil:
			return err
		case entry.IsDir() || strings.HasPrefix(entry.Name(), "."):
			return nil
		}
		if strings.HasPrefix(name, prefix) {
			keys = append(keys, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%q not listed: %w", prefix, err)
	}
	slices.Sort(keys)
	return keys, nil
}
