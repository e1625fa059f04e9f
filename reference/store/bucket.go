// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// On makes a store of a bucket that the caller opened with one of gocloud's
// drivers, which bring their own dependencies and credentials. The bucket must
// honour IfNotExist, as S3, GCS and Azure do; address is what the store prints
// as. A directory is refused: see [Open].
func On(b *blob.Bucket, address string) (Blob, error) {
	var isDirectory fs.FileInfo
	if b.As(&isDirectory) {
		return Blob{}, fmt.Errorf("store %q refused: gocloud's fileblob does not create exclusively; use Open", address)
	}
	return Blob{Store: Marked{bucket{b}}, address: address, closer: b}, nil
}

type bucket struct{ b *blob.Bucket }

func (s bucket) Create(ctx context.Context, key string, value []byte) error {
	if err := CheckKey(key); err != nil {
		return fmt.Errorf("%s not created: %w", key, err)
	}
	err := s.b.WriteAll(ctx, key, value, &blob.WriterOptions{IfNotExist: true})
	switch {
	case err == nil:
		return nil
	case gcerrors.Code(err) == gcerrors.FailedPrecondition:
		return fmt.Errorf("%s: %w", key, ErrExists)
	}
	return fmt.Errorf("%s: unknown whether created: %w", key, err)
}

// Get takes a bucket's word for an absence; Marked asks again for the marker,
// because a bucket that does not exist answers "not found" too.
func (s bucket) Get(ctx context.Context, key string) ([]byte, error) {
	if err := CheckKey(key); err != nil {
		return nil, fmt.Errorf("%s not read: %w", key, err)
	}
	value, err := s.b.ReadAll(ctx, key)
	switch {
	case err == nil:
		return value, nil
	case ctx.Err() != nil: // some drivers answer none the less
		return nil, fmt.Errorf("%s not read: %w", key, ctx.Err())
	case gcerrors.Code(err) == gcerrors.NotFound:
		return nil, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return nil, fmt.Errorf("%s not read: %w", key, err)
}

func (s bucket) List(ctx context.Context, prefix string) ([]string, error) {
	if err := checkPrefix(prefix); err != nil {
		return nil, fmt.Errorf("%q not listed: %w", prefix, err)
	}
	var keys []string
	for each := s.b.List(&blob.ListOptions{Prefix: prefix}); ; {
		object, err := each.Next(ctx)
		if errors.Is(err, io.EOF) {
			slices.Sort(keys)
			return keys, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q not listed: %w", prefix, err)
		}
		keys = append(keys, object.Key)
	}
}
