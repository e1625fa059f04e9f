// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/ringproof/ringproof/internal/kubectl"
)

// refreshPeriod is how often mounted Secrets, ConfigMaps and tokens are looked at again, at
// most: the kubelet's syncFrequency, which it makes longer by up to a half.
const refreshPeriod = time.Minute

// place is where a volume's files are.
func (p *pod) place(v corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return p.volume
	case v.HostPath != nil:
		return v.HostPath.Path
	}
	return filepath.Join(p.dir, "volumes", v.Name)
}

// provide makes a volume ready to be mounted.
func (p *pod) provide(ctx context.Context, v corev1.Volume) error {
	switch {
	case v.PersistentVolumeClaim != nil:
		return p.attach(ctx, v.PersistentVolumeClaim.ClaimName)
	case v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory: // which no power cut leaves
		return errors.Join(os.RemoveAll(p.place(v)), os.MkdirAll(p.place(v), 0o777))
	case v.EmptyDir != nil:
		return os.MkdirAll(p.place(v), 0o777)
	case v.HostPath != nil:
		return nil
	}
	files, err := p.projected(ctx, v)
	if err != nil {
		return err
	}
	return project(p.place(v), files)
}

// attach finds the directory of a claim's volume.
func (p *pod) attach(ctx context.Context, name string) error {
	claim, err := p.k.api.CoreV1().PersistentVolumeClaims(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return fmt.Errorf("the claim %s is %s", name, claim.Status.Phase)
	}
	volume, err := p.k.api.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	dir := kubectl.VolumePath(volume)
	if dir == "" {
		return fmt.Errorf("%w volume like %s, which is neither a hostPath nor local", errLacks, volume.Name)
	}
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	p.mu.Lock()
	p.volume = dir
	p.mu.Unlock()
	return nil
}

// file is one of a projected volume.
type file struct {
	text []byte
	mode os.FileMode
}

// projected are the files of a volume that is made of objects.
func (p *pod) projected(ctx context.Context, v corev1.Volume) (map[string]file, error) {
	files := map[string]file{}
	switch {
	case v.Secret != nil:
		return files, p.secretFiles(ctx, files, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional, v.Secret.DefaultMode)
	case v.ConfigMap != nil:
		return files, p.configMapFiles(ctx, files, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional, v.ConfigMap.DefaultMode)
	case v.DownwardAPI != nil:
		return files, p.downward(files, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected == nil:
		return nil, fmt.Errorf("%w volume like %s of a pod", errLacks, v.Name)
	}
	for _, s := range v.Projected.Sources {
		if err := p.source(ctx, files, s, v.Projected.DefaultMode); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (p *pod) source(ctx context.Context, files map[string]file, s corev1.VolumeProjection, mode *int32) error {
	switch {
	case s.Secret != nil:
		return p.secretFiles(ctx, files, s.Secret.Name, s.Secret.Items, s.Secret.Optional, mode)
	case s.ConfigMap != nil:
		return p.configMapFiles(ctx, files, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional, mode)
	case s.ServiceAccountToken != nil:
		return p.token(ctx, files, *s.ServiceAccountToken, mode)
	case s.DownwardAPI != nil:
		return p.downward(files, s.DownwardAPI.Items, mode)
	}
	return fmt.Errorf("%w such source of a projected volume", errLacks)
}

// downward adds what the items tell of the pod itself.
func (p *pod) downward(files map[string]file, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for _, i := range items {
		if i.FieldRef == nil {
			return fmt.Errorf("%s: the kubelet of this world tells of a pod's fields alone; take the item out", i.Path)
		}
		text, err := p.field(i.FieldRef.FieldPath)
		if err != nil {
			return err
		}
		files[i.Path] = file{[]byte(text), modeOf(mode, i.Mode)}
	}
	return nil
}

func modeOf(modes ...*int32) os.FileMode {
	mode := os.FileMode(0o644)
	for _, m := range modes {
		if m != nil {
			mode = os.FileMode(*m)
		}
	}
	return mode
}

// secret reads a Secret: an empty one, where there is none and needn't be.
func (p *pod) secret(ctx context.Context, name string, optional *bool) (*corev1.Secret, error) {
	o, err := p.k.api.CoreV1().Secrets(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	return orNone(o, err, optional)
}

// configMap reads a ConfigMap: an empty one, where there is none and needn't be.
func (p *pod) configMap(ctx context.Context, name string, optional *bool) (*corev1.ConfigMap, error) {
	o, err := p.k.api.CoreV1().ConfigMaps(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	return orNone(o, err, optional)
}

func orNone[T any](o *T, err error, optional *bool) (*T, error) {
	switch {
	case err == nil:
		return o, nil
	case apierrors.IsNotFound(err) && ptr.Deref(optional, false):
		return new(T), nil
	}
	return new(T), err
}

func (p *pod) secretFiles(ctx context.Context, files map[string]file, name string, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	o, err := p.secret(ctx, name, optional)
	if err != nil {
		return err
	}
	return add(files, "secret "+name, o.Data, items, optional, mode)
}

func (p *pod) configMapFiles(ctx context.Context, files map[string]file, name string, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	o, err := p.configMap(ctx, name, optional)
	if err != nil {
		return err
	}
	data := maps.Clone(o.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, text := range o.Data { // order: into a map
		data[key] = []byte(text)
	}
	return add(files, "config map "+name, data, items, optional, mode)
}

// add adds an object's keys: all of them, or the items.
func add(files map[string]file, what string, data map[string][]byte, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	if len(items) == 0 {
		for key, text := range data { // order: into a map
			files[key] = file{text, modeOf(mode)}
		}
	}
	for _, i := range items {
		text, ok := data[i.Key]
		if !ok && !ptr.Deref(optional, false) {
			return fmt.Errorf("%s has no key %s", what, i.Key)
		}
		if ok {
			files[i.Path] = file{text, modeOf(mode, i.Mode)}
		}
	}
	return nil
}

// token asks for a token of the pod's account.
func (p *pod) token(ctx context.Context, files map[string]file, s corev1.ServiceAccountTokenProjection, mode *int32) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: s.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.object.Name, UID: p.object.UID}}}
	if s.Audience != "" {
		request.Spec.Audiences = []string{s.Audience}
	}
	p.mu.Lock()
	kept, fresh := p.tokens[s.Path], time.Now().Before(p.renew)
	p.mu.Unlock()
	if kept != nil && fresh {
		files[s.Path] = file{kept, modeOf(mode)}
		return nil
	}
	given, err := p.k.api.CoreV1().ServiceAccounts(p.object.Namespace).CreateToken(ctx, p.object.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	text := []byte(given.Status.Token)
	p.mu.Lock()
	if p.tokens == nil {
		p.tokens = map[string][]byte{}
	}
	p.tokens[s.Path] = text
	p.renew = time.Now().Add(time.Until(given.Status.ExpirationTimestamp.Time) * 8 / 10) // when the kubelet renews it
	p.mu.Unlock()
	files[s.Path] = file{text, modeOf(mode)}
	return nil
}

// refresh keeps projected volumes up to date, while the pod lives.
func (p *pod) refresh() {
	for p.ctx.Err() == nil {
		p.settleAfter(utilwait.Jitter(refreshPeriod, jitter))
	}
}

// remount has projected volumes looked at as something of the pod is started again: by a loop
// that finds what is to be mounted, and another that mounts it.
func (p *pod) remount() { p.settleAfter(utilwait.Jitter(remounts, 2)) }

func (p *pod) settleAfter(wait time.Duration) {
	pause(p.ctx, wait)
	if err := p.settle(p.ctx); err != nil && p.ctx.Err() == nil {
		p.k.complain("refreshing the volumes of pod "+p.String(), err)
	}
}

// settle looks at projected volumes once. What can't be read stays as it was.
func (p *pod) settle(ctx context.Context) error {
	var errs []error
	for _, v := range p.object.Spec.Volumes {
		if v.Projected != nil || v.Secret != nil || v.ConfigMap != nil || v.DownwardAPI != nil {
			errs = append(errs, p.provide(ctx, v))
		}
	}
	return errors.Join(errs...)
}

// dataLink points to the directory with a volume's files, which are all changed at once:
// what a volume shows are links through it.
const dataLink = "..data"

// project has the volume show these files, unless it does.
func project(dir string, files map[string]file) error {
	if shown(dir, files) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	next, err := os.MkdirTemp(dir, "..")
	if err != nil {
		return err
	}
	for name, f := range files { // order: each is at its own place
		at := filepath.Join(next, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, f.text, f.mode)); err != nil {
			return err
		}
	}
	before, _ := os.Readlink(filepath.Join(dir, dataLink))
	if err := link(filepath.Base(next), filepath.Join(dir, dataLink)); err != nil {
		return err
	}
	if before != "" {
		_ = os.RemoveAll(filepath.Join(dir, before))
	}
	return show(dir, files)
}

// show makes the links of what the volume has, and takes those of the rest away.
func show(dir string, files map[string]file) error {
	tops := map[string]bool{}
	for name := range files { // order: a set is made
		top, _, _ := strings.Cut(name, "/")
		tops[top] = true
	}
	for _, top := range slices.Sorted(maps.Keys(tops)) {
		if err := link(filepath.Join(dataLink, top), filepath.Join(dir, top)); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") && !tops[e.Name()] {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	return err
}

// shown reports whether the volume has these files and no others.
func shown(dir string, files map[string]file) bool {
	now := filepath.Join(dir, dataLink)
	of, err := filepath.EvalSymlinks(now)
	if err != nil {
		return false
	}
	found := 0
	err = filepath.WalkDir(of, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(of, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if f, ok := files[name]; err == nil && ok && string(f.text) == string(text) {
			found++
			return nil
		}
		return errors.Join(fs.ErrNotExist, err)
	})
	return err == nil && found == len(files)
}
