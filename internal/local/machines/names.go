// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package machines

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
)

// Names is to what machines' names resolve, in a file as /etc/hosts is, for all machines that
// have it as theirs. The file is written in place: a mount is of the file, and not of its name.
type Names struct {
	File   string
	Domain string // of all names; "": they have none, and nothing is written

	mu    sync.Mutex
	known []name
}

type name struct {
	of string
	to netip.Addr // the zero Addr: to nothing
}

// Set has NAME.Domain resolve to the address from now on, and to nothing where that is the zero
// Addr. Whoever has looked into the file may go by what it said for five seconds more, as Go's
// resolver does.
func (n *Names) Set(of string, to netip.Addr) error {
	if n.Domain == "" {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = append(slices.DeleteFunc(n.known, func(x name) bool { return x.of == of }), name{of, to})
	text := []byte("127.0.0.1 localhost\n")
	for _, x := range n.known {
		if x.to.IsValid() {
			text = fmt.Appendf(text, "%v %s.%s\n", x.to, x.of, n.Domain)
		}
	}
	return rewrite(n.File, text)
}

// rewrite leaves the file whole for whoever reads it meanwhile, but for lines that it had.
func rewrite(file string, text []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("writing the machines' names: %w", err)
	}
	_, err = f.WriteAt(text, 0)
	return errors.Join(err, f.Truncate(int64(len(text))), f.Close())
}
