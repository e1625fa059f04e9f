// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// In a pod nobody can tell ringadm which mistakes are planted in it, and where its faults are
// told: its command line is the controller's to write, and it copies itself from one
// container to another. So what [Main] is to be given is at the end of the program's file,
// where no loader looks.
const plantedMark = "\x00ringproof: planted: "

const mostPlanted = 4096 // bytes from the mark on

// plant writes a copy of the harness's own program that is ringadm as [Main] has it with
// these flags.
func plant(self, to string, flags []string) error {
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
		_, err = copied.WriteString(plantedMark + strings.Join(flags, "\n"))
	}
	return errors.Join(err, copied.Close())
}

// planted are the flags that are at the end of a program's file; ok: there are some.
func planted(file string) (flags []string, ok bool, err error) {
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
	return strings.Split(string(end[i+len(plantedMark):]), "\n"), true, nil
}

// Planted reports whether this process is ringadm with something planted, by what its
// program is called and has at its end; args is then what [Main] is to be given.
func Planted() (args []string, ok bool) {
	if filepath.Base(os.Args[0]) != "ringadm" {
		return nil, false
	}
	self, err := os.Executable()
	if err != nil {
		return nil, false
	}
	flags, ok, err := planted(self)
	if err != nil || !ok {
		return nil, false
	}
	return append(append(flags, "--"), os.Args[1:]...), true
}
