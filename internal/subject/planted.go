// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// In a pod nobody can tell ringadm which mistakes are planted in it: its command line is
// the controller's to write, and it copies itself from one container to another. So the
// names are at the end of the program's file, where no loader looks.
const plantedMark = "\x00ringproof: planted: "

const mostPlanted = 4096 // bytes from the mark on

// plant writes a copy of the harness's own program that is ringadm with these mutants.
func plant(self, to string, mutants []string) error {
	for _, name := range mutants {
		if _, err := LookupMutant(name); err != nil {
			return err
		}
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	copied, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, from)
	if err == nil {
		_, err = copied.WriteString(plantedMark + strings.Join(mutants, ","))
	}
	return errors.Join(err, copied.Close())
}

// planted are the mutants whose names are at the end of a program's file; ok: there are
// names.
func planted(file string) (mutants []string, ok bool, err error) {
	program, err := os.Open(file)
	if err != nil {
		return nil, false, err
	}
	defer program.Close()
	size, err := program.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, false, err
	}
	end := make([]byte, min(size, mostPlanted))
	if _, err := program.ReadAt(end, size-int64(len(end))); err != nil {
		return nil, false, err
	}
	i := bytes.LastIndex(end, []byte(plantedMark))
	if i < 0 {
		return nil, false, nil
	}
	return strings.Split(string(end[i+len(plantedMark):]), ","), true, nil
}

// Planted reports whether this process is ringadm with mutants planted, by what its
// program is called and has at its end; args is then what [Main] is to be given.
func Planted() (args []string, ok bool) {
	if filepath.Base(os.Args[0]) != "ringadm" {
		return nil, false
	}
	self, err := os.Executable()
	if err != nil {
		return nil, false
	}
	mutants, ok, err := planted(self)
	if err != nil || !ok {
		return nil, false
	}
	for _, name := range mutants {
		args = append(args, "--mutant", name)
	}
	return append(append(args, "--"), os.Args[1:]...), true
}

// Image is what the image of ringadm runs: it, or where mutants are planted this program,
// a copy of which is kept in the directory.
func (p *Pods) Image(ringadm, dir string) (string, error) {
	if len(p.Mutants) == 0 {
		return ringadm, nil
	}
	to := filepath.Join(dir, "ringadm")
	if err := plant(p.Self, to, p.Mutants); err != nil {
		return "", fmt.Errorf("planting %s: %w", strings.Join(p.Mutants, ", "), err)
	}
	return to, nil
}
