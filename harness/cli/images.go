// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/image"
)

// archive is an image in a file.
type archive struct {
	Image  string `json:"image"`
	Digest string `json:"digest"`
	File   string `json:"file"`
}

func (a archive) columns() []string { return []string{a.Image, a.Digest, a.File} }

func imagesCommand() *cobra.Command {
	var ringadm, dir string
	var asJSON bool
	c := &cobra.Command{
		Use:   "images [RELEASE...]",
		Short: "write container images of ringadm, and of etcd releases, to files",
		Long: `images makes the images that a ring on Kubernetes runs, of ringadm and of each
release of etcd that is named, without a container engine. The files are as
docker save writes them: kind load image-archive, docker load, crane push and
skopeo copy take them. The same programs make the same image.`,
		Example: "  ringproof images v3.6.16",
		RunE: func(c *cobra.Command, releases []string) error {
			if len(releases) > 0 {
				if err := releaseNames(c, releases); err != nil {
					return err
				}
			}
			rows, err := writeImages(c, ringadm, dir, releases)
			if err != nil {
				return err
			}
			return listed{[]string{"IMAGE", "DIGEST", "FILE"}, rows}.print(c, asJSON)
		},
	}
	c.Flags().StringVar(&ringadm, "ringadm", "", "the program, built with CGO_ENABLED=0 (default: the one beside ringproof)")
	c.Flags().StringVar(&dir, "out", "out/images", "folder for the files")
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

func writeImages(c *cobra.Command, ringadm, dir string, releases []string) ([]row, error) {
	if ringadm == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, environment(err)
		}
		ringadm = filepath.Join(filepath.Dir(self), "ringadm")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, environment(err)
	}
	all := []image.Image{image.Ringadm(image.RingadmName, ringadm)}
	installed, err := installAll(c, true, releases)
	if err != nil {
		return nil, err
	}
	for _, r := range installed {
		all = append(all, etcdImage(r.(release).Release))
	}
	var rows []row
	for _, i := range all {
		file := filepath.Join(dir, i.File())
		digest, err := i.Write(file)
		if err != nil {
			return nil, environment(err)
		}
		rows = append(rows, archive{i.Name, digest, file})
	}
	return rows, nil
}

func etcdImage(r etcdbin.Release) image.Image {
	return image.Etcd(fmt.Sprintf("%s:%s", image.EtcdRepository, r.Version), r.Etcd, r.Etcdctl, r.Etcdutl)
}
