// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Log is a history of records of one type, numbered from 1 without gaps:
// <prefix>/00000001.json and so on. A record never changes.
//
// The store can prove that a record is missing from the middle, not from the
// end. Whoever has once seen number n must therefore refuse a shorter history.
type Log[T any] struct {
	Store  Store
	Prefix string
}

const (
	maxNumber = 99_999_999
	maxRecord = 1 << 20
)

// Latest returns the newest record and its number, or 0 if the store
// positively answered that there is none yet.
func (l Log[T]) Latest(ctx context.Context) (n int, value T, err error) {
	return l.Since(ctx, 0)
}

// Since returns the newest record and its number if that is greater than known,
// and else the number alone: the record is the one that was read then. It refuses
// a history that ends before known.
func (l Log[T]) Since(ctx context.Context, known int) (n int, value T, err error) {
	n, err = l.length(ctx)
	switch {
	case err != nil:
	case n < known:
		err = fmt.Errorf("%s: the store answers from the past: record %d is its newest, and %d was seen; if that stays, restore what was deleted", l.Prefix, n, known)
	case n > known:
		value, err = l.read(ctx, n)
	}
	if err != nil {
		return 0, value, err
	}
	return n, value, nil
}

// First returns the first record, and whether there is one. It asks for one key and
// for no list, as whoever may read single records only must.
func (l Log[T]) First(ctx context.Context) (value T, there bool, err error) {
	record, err := l.Store.Get(ctx, l.key(1))
	if errors.Is(err, ErrNotFound) {
		return value, false, nil
	}
	if err != nil {
		return value, false, named(l.key(1), err)
	}
	value, err = decode[T](l.key(1), record)
	return value, err == nil, err
}

// FirstKey is the key of the first record.
func (l Log[T]) FirstKey() string { return l.key(1) }

// All returns every record; number n is at index n-1.
func (l Log[T]) All(ctx context.Context) ([]T, error) {
	length, err := l.length(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]T, 0, length)
	for n := 1; n <= length; n++ {
		value, err := l.read(ctx, n)
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}

// Append creates the record after the one numbered after, which is 0 for the
// first, and returns its number. Whoever comes second gets ErrExists: what it
// decided was decided on a history that has grown since, so it must read again
// and decide again. Any other error leaves the outcome unknown; read again.
func (l Log[T]) Append(ctx context.Context, after int, value T) (n int, err error) {
	if after < 0 || after >= maxNumber {
		return 0, fmt.Errorf("%s: append after %d refused: numbers go from 1 to %d", l.Prefix, after, maxNumber)
	}
	key := l.key(after + 1)
	record, err := encode(key, value)
	if err != nil {
		return 0, err
	}
	if after > 0 {
		// Never make the gap that the next reader would stop at.
		if _, err := l.read(ctx, after); err != nil {
			return 0, fmt.Errorf("%s not created: its predecessor: %w", key, err)
		}
	}
	if err := l.Store.Create(ctx, key, record); err != nil {
		return 0, named(key, err)
	}
	return after + 1, nil
}

// Rewrite appends those of all the records that are missing. What is there is not compared.
func (l Log[T]) Rewrite(ctx context.Context, all []T) error {
	n, err := l.length(ctx)
	for ; err == nil && n < len(all); n++ {
		if _, err = l.Append(ctx, n, all[n]); errors.Is(err, ErrExists) {
			err = nil // somebody else has just done so
		}
	}
	return err
}

// named makes sure that an error of any Store names the key, once.
func named(key string, err error) error {
	if strings.Contains(err.Error(), key) {
		return err
	}
	return fmt.Errorf("%s: %w", key, err)
}

func (l Log[T]) key(n int) string { return fmt.Sprintf("%s/%08d.json", l.Prefix, n) }

// length insists on exactly the keys 1…n: whatever else is there was put or
// taken by something that does not know the rules.
func (l Log[T]) length(ctx context.Context) (int, error) {
	keys, err := l.Store.List(ctx, l.Prefix+"/")
	if err != nil {
		return 0, named(l.Prefix, err)
	}
	for i, key := range keys {
		if key == l.key(i+1) {
			continue
		}
		if l.numbered(key) {
			return 0, fmt.Errorf("%s is missing but %s is there: something deleted it; restore it before going on", l.key(i+1), key)
		}
		return 0, fmt.Errorf("%s refused: not a record of this log; move it out of the store", key)
	}
	return len(keys), nil
}

func (l Log[T]) numbered(key string) bool {
	var n int
	_, err := fmt.Sscanf(strings.TrimPrefix(key, l.Prefix+"/"), "%08d.json", &n)
	return err == nil && n > 0 && key == l.key(n)
}

// read expects the record to be there. That it isn't contradicts what was seen
// before, so the error must not pass for the answer ErrNotFound.
func (l Log[T]) read(ctx context.Context, n int) (value T, err error) {
	key := l.key(n)
	record, err := l.Store.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return value, fmt.Errorf("%s is missing: it was never made, or something deleted it", key)
	}
	if err != nil {
		return value, named(key, err)
	}
	return decode[T](key, record)
}

type validated interface{ Validate() error }

// sealed is a record that hides part of itself from encoding/json, so that a
// log line cannot show it. The store gets the whole.
type sealed interface{ stored() any }

func encode[T any](key string, value T) ([]byte, error) {
	if err := validate(value); err != nil {
		return nil, fmt.Errorf("%s refused: %w", key, err)
	}
	var whole any = value
	if s, ok := whole.(sealed); ok {
		whole = s.stored()
	}
	record, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("%s refused: %w", key, err)
	}
	if len(record) > maxRecord {
		return nil, fmt.Errorf("%s refused: %d bytes; a record holds up to %d", key, len(record), maxRecord)
	}
	return record, nil
}

// decode is strict: a record that this release understands in part is one that
// a newer release wrote, and acting on part of it is acting on something else.
func decode[T any](key string, record []byte) (value T, err error) {
	var none T
	if len(record) > maxRecord {
		return none, fmt.Errorf("%s refused: %d bytes; a record holds up to %d", key, len(record), maxRecord)
	}
	if err := checkObject(record); err != nil {
		return none, fmt.Errorf("%s refused: %w", key, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(record))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		return none, fmt.Errorf("%s refused: %w; was it written by a newer release?", key, err)
	}
	if err := validate(value); err != nil {
		return none, fmt.Errorf("%s refused: %w", key, err)
	}
	return value, nil
}

func validate(value any) error {
	if v, ok := value.(validated); ok {
		return v.Validate()
	}
	return nil
}

// checkObject refuses what encoding/json lets pass: `null` for a record, a
// second document behind the first, and {"nodes":3,"nodes":5}.
func checkObject(record []byte) error {
	if !bytes.HasPrefix(bytes.TrimLeft(record, " \t\r\n"), []byte("{")) {
		return errors.New("not a JSON object")
	}
	if !json.Valid(record) {
		return errors.New("not one JSON object and nothing else: damaged, cut off or followed by something")
	}
	return uniqueNames(json.NewDecoder(bytes.NewReader(record)))
}

// uniqueNames reads one value of a valid document.
func uniqueNames(tokens *json.Decoder) error {
	token, err := tokens.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return uniqueNamesOfObject(tokens)
	case json.Delim('['):
		for tokens.More() {
			if err := uniqueNames(tokens); err != nil {
				return err
			}
		}
		_, err = tokens.Token()
	}
	return err
}

func uniqueNamesOfObject(tokens *json.Decoder) error {
	seen := map[string]bool{}
	for tokens.More() {
		token, err := tokens.Token()
		if err != nil {
			return err
		}
		// Names that differ only in case meet in one field, and to
		// encoding/json the long s (U+017F) is an s too.
		name := fmt.Sprint(token)
		folded := strings.ToLower(strings.ToUpper(name))
		if seen[folded] {
			return fmt.Errorf("%q is there twice", name)
		}
		seen[folded] = true
		if err := uniqueNames(tokens); err != nil {
			return err
		}
	}
	_, err := tokens.Token()
	return err
}
