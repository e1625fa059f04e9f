// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package kube is what the reference's launcher and controller share on Kubernetes:
// how a ring's objects are called, and the records that are kept of it.
package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/store"
)

const (
	// RingLabel is on every object of a ring, and says which.
	RingLabel = "etcd.ringproof.dev/ring"
	// KeyAnnotation is on a record, and says its key in the store.
	KeyAnnotation = "etcd.ringproof.dev/key"

	partLabel  = "etcd.ringproof.dev/part"
	recordPart = "record"
	valueKey   = "value"
)

// Records is the store of one ring: an immutable ConfigMap for each record, and an
// immutable Secret for each that holds a private key. The API server creates an object
// only if there is none of its name, which is the store's one primitive. It belongs
// inside a store.Marked, as any store does: in a namespace that was deleted and made
// anew nothing is found, and that must not pass for a ring that was never bootstrapped.
type Records struct {
	// Live reads from the API server and not from a cache: a cache that lags takes a
	// record for absent.
	Live      client.Reader
	Writer    client.Writer
	Namespace string
	Ring      string
}

var _ store.Store = Records{}

// secretPrefix begins the keys of records that hold a private key.
const secretPrefix = "authority/"

// Create implements store.Store.
func (r Records) Create(ctx context.Context, key string, value []byte) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	o := r.object(key)
	switch o := o.(type) {
	case *corev1.ConfigMap:
		o.Immutable, o.BinaryData = ptr.To(true), map[string][]byte{valueKey: value}
	case *corev1.Secret:
		o.Immutable, o.Data = ptr.To(true), map[string][]byte{valueKey: value}
	}
	err := r.Writer.Create(ctx, o)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%s: %w", key, store.ErrExists)
	}
	return r.said(key, err)
}

// Get implements store.Store.
func (r Records) Get(ctx context.Context, key string) ([]byte, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, err
	}
	o := r.object(key)
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), o)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	case err != nil:
		return nil, r.said(key, err)
	}
	return r.value(key, o)
}

// List implements store.Store.
func (r Records) List(ctx context.Context, prefix string) ([]string, error) {
	objects, err := r.Objects(ctx)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, o := range objects {
		if key := o.GetAnnotations()[KeyAnnotation]; key != "" && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func (r Records) labels() map[string]string {
	return map[string]string{RingLabel: r.Ring, partLabel: recordPart}
}

// object is the record's object without its value.
func (r Records) object(key string) client.Object {
	about := metav1.ObjectMeta{Namespace: r.Namespace, Name: r.NameOf(key), Labels: r.labels(), Annotations: map[string]string{KeyAnnotation: key}}
	if strings.HasPrefix(key, secretPrefix) {
		return &corev1.Secret{ObjectMeta: about}
	}
	return &corev1.ConfigMap{ObjectMeta: about}
}

// Objects returns the objects that hold the records, for whoever deletes a ring.
func (r Records) Objects(ctx context.Context) ([]client.Object, error) {
	var all []client.Object
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.SecretList{}} {
		if err := r.Live.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingLabels(r.labels())); err != nil {
			return nil, r.said("list", err)
		}
		switch list := list.(type) {
		case *corev1.ConfigMapList:
			for i := range list.Items {
				all = append(all, &list.Items[i])
			}
		case *corev1.SecretList:
			for i := range list.Items {
				all = append(all, &list.Items[i])
			}
		}
	}
	return all, nil
}

// NameOf is how the object of a record is called, "RING-identity-00000001-1f3a9c04": what
// a person can read of the key, and enough of its hash to tell keys apart that read the
// same.
func (r Records) NameOf(key string) string {
	readable := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.TrimSuffix(strings.ToLower(key), ".json"))
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%s-%s-%s", r.Ring, readable[:min(len(readable), 60)], hex.EncodeToString(sum[:4]))
}

// value is what a record holds, if it is one that Create made.
func (r Records) value(key string, o client.Object) ([]byte, error) {
	var immutable *bool
	var content map[string][]byte
	switch o := o.(type) {
	case *corev1.ConfigMap:
		immutable, content = o.Immutable, o.BinaryData
	case *corev1.Secret:
		immutable, content = o.Immutable, o.Data
	}
	value, there := content[valueKey]
	switch {
	case !ptr.Deref(immutable, false):
		return nil, fmt.Errorf("%s: the object %s/%s is not immutable: no ringadm made it; restore what it replaced", key, r.Namespace, o.GetName())
	case !there || o.GetAnnotations()[KeyAnnotation] != key:
		return nil, fmt.Errorf("%s: the object %s/%s is of key %q and holds %d values: restore what was changed", key, r.Namespace, o.GetName(), cmp.Or(o.GetAnnotations()[KeyAnnotation], "none"), len(content))
	}
	return value, nil
}

// said says of which ring's record the API server spoke. Anything but its own word that
// there is none leaves the matter unknown.
func (r Records) said(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("record %s of the ring %s/%s: %w", key, r.Namespace, r.Ring, err)
}
