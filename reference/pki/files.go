// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Files is what a directory of certificates holds.
type Files struct {
	CA []byte // ca.crt: whom to trust, one authority or a bundle
	// Authority's key goes to ca.key, if there is one. A machine that only runs
	// a member has no use for it.
	Authority Authority
	Pairs     map[string]Pair // "peer" is peer.crt and peer.key
}

const (
	dirMode  = 0o700
	certMode = 0o644
	keyMode  = 0o600
)

var pairPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Write writes the files into a directory, which it makes with mode 0700 if it
// is missing. Files that it does not mention stay as they are.
//
// Each file is replaced as a whole. All are written and synced before the first
// is renamed, so a full disk changes nothing; a crash between two renames can
// leave a certificate beside another's key, which Load reports and writing
// again repairs.
func Write(dir string, files Files) error {
	contents, err := files.contents()
	if err != nil {
		return err
	}
	if err := makeDir(dir); err != nil {
		return fmt.Errorf("certificates not written: %w", err)
	}
	written := map[string]string{} // temporary file → name
	defer func() {
		for temporary := range written {
			_ = os.Remove(temporary)
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		temporary, err := writeTemporary(dir, name, contents[name])
		if err != nil {
			return fmt.Errorf("%s not written: %w", filepath.Join(dir, name), err)
		}
		written[temporary] = name
	}
	return rename(dir, written)
}

func rename(dir string, written map[string]string) error {
	for _, temporary := range slices.Sorted(maps.Keys(written)) {
		if err := os.Rename(temporary, filepath.Join(dir, written[temporary])); err != nil {
			return fmt.Errorf("certificates written in part; write them again: %w", err)
		}
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("certificates in %s may not be durable: %w", dir, err)
	}
	return nil
}

// contents refuses what Load would refuse, before a good file is replaced by it.
func (f Files) contents() (map[string][]byte, error) {
	if _, err := pool(f.CA); err != nil {
		return nil, fmt.Errorf("ca.crt: %w", err)
	}
	contents := map[string][]byte{"ca.crt": f.CA}
	if f.Authority.key != nil {
		key, err := f.Authority.KeyPEM()
		if err != nil {
			return nil, err
		}
		if _, err := ParseAuthority(f.CA, key); err != nil {
			return nil, fmt.Errorf("ca.key: %w: put the certificate of %s first in ca.crt", err, f.Authority)
		}
		contents["ca.key"] = key
	}
	for _, name := range slices.Sorted(maps.Keys(f.Pairs)) {
		pair := f.Pairs[name]
		if name == "ca" || !pairPattern.MatchString(name) {
			return nil, fmt.Errorf("pair name %.80q refused: use lower-case words joined by '-', other than ca", name)
		}
		if _, err := pair.Leaf(); err != nil {
			return nil, fmt.Errorf("%s.crt: %w", name, err)
		}
		contents[name+".crt"], contents[name+".key"] = pair.CertPEM, pair.KeyPEM
	}
	return contents, nil
}

// makeDir sets the mode after making the directory, because the umask can only
// be trusted to take away. One that exists is left as its owner made it.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a directory; choose another place", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	if err := os.Chmod(dir, dirMode); err != nil {
		return err
	}
	return syncDir(filepath.Dir(filepath.Clean(dir)))
}

// writeTemporary never has a key readable by others, not even at first:
// CreateTemp makes 0600, which is widened afterwards for certificates alone.
func writeTemporary(dir, name string, content []byte) (temporary string, err error) {
	file, err := os.CreateTemp(dir, "."+name+".tmp-")
	if err != nil {
		return "", err
	}
	mode := fs.FileMode(keyMode)
	if strings.HasSuffix(name, ".crt") {
		mode = certMode
	}
	if err := fill(file, content, mode); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

func fill(file *os.File, content []byte, mode fs.FileMode) (err error) {
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Chmod(mode); err != nil {
		return err
	}
	if _, err := file.Write(content); err != nil {
		return err
	}
	return file.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
