// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package image makes container images of static programs, without a container
// engine and without a registry. The same programs make the same image, wherever
// and whenever it is made: its files have no times, and nobody's names.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// user is whom programs run as where the pod doesn't say: nobody who has a name.
const user = "65532:65532"

// How images are called that nobody calls otherwise. That of ringadm is in no registry:
// whoever has one puts it there under a name of their own.
const (
	RingadmName    = "ringproof.dev/ringadm:dev"
	EtcdRepository = "gcr.io/etcd-development/etcd" // what an EtcdRing asks for by default; its tags are releases
)

// Image is what an image is made of.
type Image struct {
	Name       string            // repository and tag, "ringproof.dev/ringadm:dev"
	Programs   map[string]string // where each is in the image, "/ringadm": the file that it is here
	Entrypoint []string
}

// Ringadm is the image of the controller, and of the container in each pod of a ring
// that gives ringadm to etcd's.
func Ringadm(name, binary string) Image {
	return Image{Name: name, Programs: map[string]string{"/ringadm": binary}, Entrypoint: []string{"/ringadm"}}
}

// Etcd is an image that has a release of etcd where etcd's own images have it. etcdutl
// is "" before 3.5.
func Etcd(name, etcd, etcdctl, etcdutl string) Image {
	programs := map[string]string{}
	for program, file := range map[string]string{"etcd": etcd, "etcdctl": etcdctl, "etcdutl": etcdutl} {
		if file != "" {
			programs["/usr/local/bin/"+program] = file
		}
	}
	return Image{Name: name, Programs: programs, Entrypoint: []string{"/usr/local/bin/etcd"}}
}

// Later is what the next release of the image of that name is called, in which programs are the
// same. After that comes the first again.
func Later(name string) string {
	if before, is := strings.CutSuffix(name, later); is {
		return before
	}
	return name + later
}

const later = "-next"

// File is what to call a file of the image: "ringadm-dev.tar".
func (i Image) File() string { return strings.ReplaceAll(path.Base(i.Name), ":", "-") + ".tar" }

// Write writes the image to a file, as `docker save` does, and returns its digest. The
// file appears whole or not at all.
func (i Image) Write(file string) (digest string, err error) {
	tag, err := name.NewTag(i.Name, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("image %s: %w; name it as example.org/ringadm:v1", i.Name, err)
	}
	made, err := i.build()
	if err != nil {
		return "", fmt.Errorf("image %s: %w", i.Name, err)
	}
	begun := file + ".new"
	err = tarball.WriteToFile(begun, tag, made)
	if err == nil {
		err = os.Rename(begun, file)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("image %s: %w", i.Name, err), os.RemoveAll(begun))
	}
	hash, err := made.Digest()
	return hash.String(), err
}

func (i Image) build() (v1.Image, error) {
	architecture, err := i.architecture()
	if err != nil {
		return nil, err
	}
	files, err := i.files()
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, err
	}
	made, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := made.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", architecture
	config.Config = v1.Config{Entrypoint: i.Entrypoint, User: user}
	return mutate.ConfigFile(made, config)
}

// architectures are Go's names of the machines that images are made for.
var architectures = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// architecture is that of all programs. A program that needs others is refused: the
// image has no others.
func (i Image) architecture() (string, error) {
	found := ""
	for _, at := range slices.Sorted(maps.Keys(i.Programs)) {
		of, err := machine(i.Programs[at])
		if err != nil {
			return "", err
		}
		if found != "" && of != found {
			return "", fmt.Errorf("%s is for %s, and another program for %s: build them for one machine", i.Programs[at], of, found)
		}
		found = of
	}
	if found == "" {
		return "", errors.New("it has no program")
	}
	return found, nil
}

func machine(file string) (string, error) {
	program, err := elf.Open(file)
	if err != nil {
		return "", fmt.Errorf("%s is no program for Linux: %w", file, err)
	}
	defer program.Close()
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s needs a loader and libraries that the image hasn't: build it with CGO_ENABLED=0", file)
		}
	}
	architecture, ok := architectures[program.Machine]
	if !ok {
		return "", fmt.Errorf("%s is for %s: images are made for amd64 and arm64", file, program.Machine)
	}
	return architecture, nil
}

// files is the image's one layer. All of it is root's, and whoever runs a program can
// read it and no more.
func (i Image) files() ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, folder := range i.folders() {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
	}
	for _, at := range slices.Sorted(maps.Keys(i.Programs)) {
		text, err := os.ReadFile(i.Programs[at])
		if err != nil {
			return nil, err
		}
		head := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(at, "/"), Size: int64(len(text)), Mode: 0o555, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(text); err != nil {
			return nil, err
		}
	}
	return layer.Bytes(), w.Close()
}

// folders are those that the programs are in, those above first.
func (i Image) folders() []string {
	all := map[string]bool{}
	for at := range i.Programs { // order: a set is made
		for folder := path.Dir(strings.TrimPrefix(at, "/")); folder != "."; folder = path.Dir(folder) {
			all[folder] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
