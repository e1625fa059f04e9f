// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ringproof/ringproof"
)

// Beside the store's directory: what was in it when it was made, and what was taken out of it.
const (
	madeStore = ".as-made"
	takenOut  = ".taken-out"
)

func putsStoreBack(s ringproof.Step) bool {
	return s.Fault != nil && s.Fault.Kind == ringproof.FaultStoreLost && s.Fault.Leave == ringproof.LeaveMade
}

func (p *Processes) storeDir() string { return strings.TrimPrefix(p.store, "file://") }

// LoseStore takes out of the store what a store-lost doesn't leave in it. Its directory stays, as
// agents hold it open.
func (p *Processes) LoseStore(ctx context.Context, s ringproof.Step) (string, error) {
	at := p.storeDir()
	to := at + takenOut
	switch s.Fault.Leave {
	case ringproof.LeaveMade, ringproof.LeaveAnew:
		to = filepath.Join(p.dir, "store.before-"+s.Name)
	default:
		p.empty[s.Name] = true
	}
	n, err := moveFiles(to, at)
	switch {
	case err != nil:
	case s.Fault.Leave == ringproof.LeaveMade:
		err = copyFiles(at, at+madeStore)
	case s.Fault.Leave == ringproof.LeaveAnew:
		err = p.makeStore(ctx)
	}
	return fmt.Sprintf("%d of the store's files taken out", n), err
}

// GiveStoreBack puts back what a step took out of the store, unless another still holds it empty.
func (p *Processes) GiveStoreBack(step string) error {
	if !p.empty[step] {
		return nil
	}
	if delete(p.empty, step); len(p.empty) > 0 {
		return nil
	}
	_, err := moveFiles(p.storeDir(), p.storeDir()+takenOut)
	return err
}

// moveFiles moves what is in a directory into another, and tells how many files that were.
func moveFiles(to, from string) (n int, err error) {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return 0, err
	}
	err = filepath.WalkDir(from, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		if err == nil {
			err = os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
		}
	}
	return n, err
}

// copyFiles copies a directory of files that are nobody else's to read.
func copyFiles(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.Join(to, strings.TrimPrefix(path, from))
		if e.IsDir() {
			return os.MkdirAll(name, 0o700)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(name, content, 0o600)
	})
}
