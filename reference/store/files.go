// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
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
// was there when it was opened, whatever is mounted over it later.
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

// beside asks a store beside whoever asks, who waits for as long as his context says. A file
// system that hangs, as NFS does while its server is away, holds each call in the kernel,
// and no context ends that: the agent of a machine did nothing else meanwhile, and an etcd
// that was killed stayed down. While a question hangs for which nobody waits any more no
// other is asked, as each would hold a thread; and its answer is taken by who asks it next.
//
// It keeps a place open for as long as that is the store. One that was opened before its
// volume was mounted, or that was unmounted since, never becomes it again: the next question
// opens another. A question and what vouches for its answer are of one place.
type beside struct {
	open func() (place, error)

	mu   sync.Mutex
	at   place     // nil: the next question opens it
	late *question // for which nobody waits any more; nil: there is none
}

// place is a store that is open.
type place interface {
	Store
	io.Closer
}

// marked vouches for the answers of a directory.
type marked struct {
	Marked
	io.Closer
}

// question is one call.
type question struct {
	what  string // what is not done, while it isn't answered
	value []byte // that is to be created

	answered chan struct{} // closed once the rest is there
	answer
	at time.Time
}

type answer struct {
	value []byte
	keys  []string
	err   error
}

// freshFor is how long a late answer says what is: who asks again does so within seconds.
const freshFor = 5 * time.Second

// Create implements Store.
func (b *beside) Create(ctx context.Context, key string, value []byte) error {
	return b.ask(ctx, &question{what: key + " not created", value: value}, func(ctx context.Context, p place) answer {
		return answer{err: p.Create(ctx, key, value)}
	}).err
}

// Get implements Store.
func (b *beside) Get(ctx context.Context, key string) ([]byte, error) {
	a := b.ask(ctx, &question{what: key + " not read"}, func(ctx context.Context, p place) (a answer) {
		a.value, a.err = p.Get(ctx, key)
		if key == MarkerKey && (errors.Is(a.err, ErrNotFound) || a.err == nil && string(a.value) != marker) {
			b.leave(p)
		}
		return a
	})
	return a.value, a.err
}

// List implements Store.
func (b *beside) List(ctx context.Context, prefix string) ([]string, error) {
	a := b.ask(ctx, &question{what: fmt.Sprintf("%q not listed", prefix)}, func(ctx context.Context, p place) (a answer) {
		a.keys, a.err = p.List(ctx, prefix)
		return a
	})
	return a.keys, a.err
}

// Close lets go of the place.
func (b *beside) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == nil {
		return nil
	}
	defer func() { b.at = nil }()
	return b.at.Close()
}

// opened is the place that is to be asked.
func (b *beside) opened() (place, error) {
	b.mu.Lock()
	at := b.at
	b.mu.Unlock()
	if at != nil {
		return at, nil
	}
	opened, err := b.open()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at != nil { // somebody else was first
		return b.at, opened.Close()
	}
	b.at = opened
	return opened, nil
}

// leave has the next question open another place than p.
func (b *beside) leave(p place) {
	b.mu.Lock()
	left := b.at == p
	if left {
		b.at = nil
	}
	b.mu.Unlock()
	if left {
		_ = p.Close()
	}
}

// gone are the errors of a place that is the store no more: what was mounted there is
// another, or was taken away by force.
var gone = []error{ErrNotAStore, syscall.ESTALE, syscall.EIO, syscall.ENOTCONN, syscall.ENODEV}

func (b *beside) answer(ctx context.Context, what string, of func(context.Context, place) answer) answer {
	p, err := b.opened()
	if err != nil {
		return answer{err: fmt.Errorf("%s: %w", what, err)}
	}
	a := of(ctx, p)
	if slices.ContainsFunc(gone, func(e error) bool { return errors.Is(a.err, e) }) {
		b.leave(p)
	}
	return a
}

// ask has the store asked without a context that ends: an answer that comes late is a whole one.
func (b *beside) ask(ctx context.Context, q *question, of func(context.Context, place) answer) answer {
	if err := ctx.Err(); err != nil {
		return answer{err: fmt.Errorf("%s: %w", q.what, err)}
	}
	if a, known := b.lately(q); known {
		return a
	}
	q.answered = make(chan struct{})
	go func() {
		q.answer = b.answer(context.WithoutCancel(ctx), q.what, of)
		q.at = time.Now()
		close(q.answered)
	}()
	select {
	case <-q.answered:
		return q.answer
	case <-ctx.Done():
		b.forsake(q)
		return answer{err: fmt.Errorf("%s: the store gives no answer: %w", q.what, ctx.Err())}
	}
}

// forsake notes that nobody waits for the answer any more.
func (b *beside) forsake(q *question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.late == nil {
		b.late = q
	}
}

// lately answers a question without asking: by what has come late to the same, or by
// saying that another hangs.
func (b *beside) lately(q *question) (a answer, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	late := b.late
	if late == nil {
		return answer{}, false
	}
	select {
	case <-late.answered:
	default:
		return answer{err: fmt.Errorf("%s: the store hangs, as an earlier question has no answer yet (%s): see what is mounted there", q.what, late.what)}, true
	}
	b.late = nil
	same := late.what == q.what && bytes.Equal(late.value, q.value)
	return late.answer, same && time.Since(late.at) < freshFor
}
