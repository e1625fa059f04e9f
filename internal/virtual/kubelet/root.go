// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package kubelet

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/ringproof/ringproof/internal/image"
	"github.com/ringproof/ringproof/internal/lockstep"
)

func (c *container) dir() string     { return filepath.Join(c.pod.dir, "containers", c.spec.Name) }
func (c *container) rootDir() string { return filepath.Join(c.dir(), "root") }

// assemble makes the container's root directory: what the image has, the pod's volumes
// where they are to be, and what every container finds.
func (c *container) assemble() (root string, err error) {
	of, err := c.image()
	if err != nil {
		return "", err
	}
	root = c.rootDir()
	if err := unmountBelow(c.dir()); err != nil {
		return "", err
	}
	if err := os.RemoveAll(c.dir()); err != nil {
		return "", err
	}
	shared, err := c.pod.k.share()
	if err != nil {
		return "", err
	}
	for at, dir := range shared { // order: each is at its own place
		if err := bind(dir, c.within(at)); err != nil {
			return "", err
		}
	}
	for at, file := range of.Programs { // order: the same
		if err := bind(file, c.within(at)); err != nil {
			return "", err
		}
	}
	for _, file := range []string{"/dev/null", "/dev/urandom"} {
		if err := bind(file, c.within(file)); err != nil {
			return "", err
		}
	}
	_, table := lockstep.Running(c.pod.machine)
	for _, dir := range []string{"/proc", table} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		if err := bind(dir, c.within(dir)); err != nil {
			return "", err
		}
	}
	return root, errors.Join(c.furnish(), c.mountVolumes())
}

// image is what the container is made of.
func (c *container) image() (image.Image, error) {
	name := c.called()
	i := slices.IndexFunc(c.pod.k.Images, func(i image.Image) bool { return i.Name == name })
	if i < 0 {
		return image.Image{}, fmt.Errorf("there is no image %s on this node, and no registry", name)
	}
	return c.pod.k.Images[i], nil
}

// called is the image's name, which may change.
func (c *container) called() string {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	return c.spec.Image
}

// command is the container's command line.
func (c *container) command() []string {
	words := c.spec.Command
	if len(words) == 0 {
		of, _ := c.image() // it was found just now
		words = of.Entrypoint
	}
	words = slices.Concat(words, c.spec.Args)
	for i, w := range words {
		words[i] = expand(w, c.env.values)
	}
	return words
}

// furnish writes the files that the kubelet gives to every container.
func (c *container) furnish() error {
	domain := "svc.cluster.local"
	files := map[string]string{
		"/etc/hosts": c.pod.hosts(domain),
		// use-vc: names are asked for by TCP, as nothing else passes the world's network.
		"/etc/resolv.conf":   fmt.Sprintf("nameserver %v\nsearch %s.%s %s cluster.local\noptions ndots:5 use-vc\n", c.pod.k.Names, c.pod.object.Namespace, domain, domain),
		"/etc/hostname":      c.pod.hostname() + "\n",
		c.messagePath():      "",
		"/etc/nsswitch.conf": "hosts: files dns\n",
	}
	for at, text := range files { // order: each is at its own place
		if err := os.MkdirAll(filepath.Dir(c.within(at)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(c.within(at), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// hosts is the pod's own file of names: itself, whole and short, and what its spec adds.
func (p *pod) hosts(domain string) string {
	names := p.hostname()
	if p.object.Spec.Subdomain != "" {
		names = fmt.Sprintf("%s.%s.%s.%s\t%s", p.hostname(), p.object.Spec.Subdomain, p.object.Namespace, domain, names)
	}
	text := fmt.Sprintf("127.0.0.1\tlocalhost\n%v\t%s\n", lockstep.Address(p.machine), names)
	for _, alias := range p.object.Spec.HostAliases {
		text += alias.IP + "\t" + strings.Join(alias.Hostnames, "\t") + "\n"
	}
	return text
}

// mountVolumes has the pod's volumes where the container wants them.
func (c *container) mountVolumes() error {
	for _, m := range c.spec.VolumeMounts {
		i := slices.IndexFunc(c.pod.object.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			return fmt.Errorf("the pod has no volume %s", m.Name)
		}
		from, err := c.part(c.pod.place(c.pod.object.Spec.Volumes[i]), m)
		if err == nil {
			err = bind(from, c.within(m.MountPath))
		}
		if err == nil && (m.ReadOnly || made(c.pod.object.Spec.Volumes[i])) {
			err = readOnly(c.within(m.MountPath))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// part is what of a volume's directory the container wants. Of a part that isn't there a
// directory is made, as the kubelet does.
func (c *container) part(volume string, m corev1.VolumeMount) (dir string, err error) {
	c.pod.mu.Lock()
	dir = filepath.Join(volume, c.env.below(m))
	c.pod.mu.Unlock()
	if _, err := os.Stat(dir); dir == volume || !os.IsNotExist(err) {
		return dir, nil
	}
	return dir, os.MkdirAll(dir, 0o750)
}

// below is the path below the volume, with the container's variables.
func (v variables) below(m corev1.VolumeMount) string {
	if m.SubPathExpr == "" {
		return m.SubPath
	}
	return expand(m.SubPathExpr, v.values)
}

// claimed are the places at which the container has the pod's claim.
func (c *container) claimed() (all []string) {
	for _, m := range c.claims() {
		all = append(all, c.within(m.MountPath))
	}
	return all
}

// claims are the mounts by which it has it.
func (c *container) claims() (all []corev1.VolumeMount) {
	for _, m := range c.spec.VolumeMounts {
		if slices.ContainsFunc(c.pod.object.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && v.PersistentVolumeClaim != nil }) {
			all = append(all, m)
		}
	}
	return all
}

// bind has a file or directory appear at another place too.
func bind(from, to string) error {
	stat, err := os.Stat(from)
	if err != nil {
		return err
	}
	if stat.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
		err = os.WriteFile(to, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", from, to, err)
	}
	return nil
}

// made reports whether the volume's files are made of objects: no container writes to one,
// whatever its mount says.
func made(v corev1.Volume) bool {
	return v.Secret != nil || v.ConfigMap != nil || v.Projected != nil || v.DownwardAPI != nil
}

// readOnly has nobody write at a mount. What else holds of it stays, as it must where
// somebody without the right to change that had it mounted.
func readOnly(at string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(at, &stat); err != nil {
		return err
	}
	kept := uintptr(stat.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
	if err := unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, ""); err != nil {
		return fmt.Errorf("mounting %s read-only: %w", at, err)
	}
	return nil
}

// unmountBelow takes away all that is mounted below a directory, the last first.
func unmountBelow(dir string) error {
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer table.Close()
	var all []string
	lines := bufio.NewScanner(table)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) > 4 && below(dir, words[4]) {
			all = append(all, words[4])
		}
	}
	slices.Reverse(all)
	for _, at := range all {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmounting %s: %w", at, err)
		}
	}
	return lines.Err()
}
