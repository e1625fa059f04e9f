// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package pki

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Load reads back what Write wrote, and looks that everything fits together.
// It takes expired certificates.
func Load(dir string) (Files, error) {
	f := Files{Pairs: map[string]Pair{}}
	var err error
	if f.CA, err = os.ReadFile(filepath.Join(dir, "ca.crt")); err != nil {
		return Files{}, fmt.Errorf("certificates not loaded: %w: make them first, or mount them", err)
	}
	if _, err := pool(f.CA); err != nil {
		return Files{}, fmt.Errorf("%s: %w", filepath.Join(dir, "ca.crt"), err)
	}
	names, err := pairNames(dir)
	if err != nil {
		return Files{}, fmt.Errorf("certificates not loaded: %w", err)
	}
	for _, name := range names {
		if err := f.load(dir, name); err != nil {
			return Files{}, fmt.Errorf("%s: %w", filepath.Join(dir, name+".crt"), err)
		}
	}
	return f, nil
}

// pairNames returns each name that has a certificate or a key; "ca" only if
// there is a ca.key.
func pairNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name, extension, _ := strings.Cut(e.Name(), ".")
		isPair := extension == "crt" && name != "ca" || extension == "key"
		if isPair && pairPattern.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (f *Files) load(dir, name string) (err error) {
	var p Pair
	if p.CertPEM, err = os.ReadFile(filepath.Join(dir, name+".crt")); err != nil {
		return fmt.Errorf("a key without its certificate; issue it again: %w", err)
	}
	if p.KeyPEM, err = os.ReadFile(filepath.Join(dir, name+".key")); err != nil {
		return fmt.Errorf("a certificate without its key; issue it again: %w", err)
	}
	if name == "ca" {
		f.Authority, err = ParseAuthority(p.CertPEM, p.KeyPEM)
		return err
	}
	f.Pairs[name] = p
	_, err = p.Leaf()
	return err
}
