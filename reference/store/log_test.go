// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/ringproof/ringproof/internal/needs" // the seed, in CI
)

func epoch(holder string) Epoch { return Epoch{Holder: holder, Nonce: "n-" + holder} }

func TestLogAppendFences(t *testing.T) {
	l := Log[Epoch]{Store: newMemory(), Prefix: "epochs"}
	ctx := t.Context()
	n, err := l.Append(ctx, 0, epoch("a"))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = l.Append(ctx, 0, epoch("b"))
	require.ErrorIs(t, err, ErrExists)
	require.ErrorContains(t, err, "epochs/00000001.json")
	n, err = l.Append(ctx, 1, epoch("b"))
	require.NoError(t, err)
	require.Equal(t, 2, n)

	n, latest, err := l.Latest(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, epoch("b"), latest)
	all, err := l.All(ctx)
	require.NoError(t, err)
	require.Equal(t, []Epoch{epoch("a"), epoch("b")}, all)
}

func TestLogAppendRefuses(t *testing.T) {
	m := newMemory()
	l := Log[Epoch]{Store: m, Prefix: "epochs"}
	for _, after := range []int{-1, maxNumber} {
		_, err := l.Append(t.Context(), after, epoch("a"))
		require.ErrorContains(t, err, "refused")
	}
	_, err := l.Append(t.Context(), 1, epoch("a"))
	require.ErrorContains(t, err, "epochs/00000001.json is missing", "no gap is made")
	require.NotErrorIs(t, err, ErrNotFound)
	_, err = l.Append(t.Context(), 0, Epoch{})
	require.ErrorContains(t, err, "epochs/00000001.json refused")
	_, err = Log[map[string]string]{Store: m, Prefix: "x"}.Append(t.Context(), 0, map[string]string{"k": strings.Repeat("x", maxRecord)})
	require.ErrorContains(t, err, "a record holds up to")
	require.Empty(t, m.keys)
}

// A history that lost a record is not a shorter history.
func TestLogNoticesWhatIsMissing(t *testing.T) {
	for lost := 1; lost <= 2; lost++ {
		m := newMemory()
		l := Log[Epoch]{Store: m, Prefix: "epochs"}
		for n := range 3 {
			_, err := l.Append(t.Context(), n, epoch("a"))
			require.NoError(t, err)
		}
		delete(m.keys, l.key(lost))
		_, _, err := l.Latest(t.Context())
		require.ErrorContains(t, err, l.key(lost)+" is missing")
		_, err = l.All(t.Context())
		require.ErrorContains(t, err, l.key(lost)+" is missing")
	}
}

// Listed, and gone when it is read: not the answer "there is none".
func TestLogVanishingRecord(t *testing.T) {
	m := newMemory()
	l := Log[Epoch]{Store: m, Prefix: "epochs"}
	_, err := l.Append(t.Context(), 0, epoch("a"))
	require.NoError(t, err)
	m.fail = func(call, key string) (error, bool) {
		if call == "get" {
			return ErrNotFound, false
		}
		return nil, false
	}
	_, _, err = l.Latest(t.Context())
	require.ErrorContains(t, err, "epochs/00000001.json is missing")
	require.NotErrorIs(t, err, ErrNotFound)
}

func TestLogForeignKeys(t *testing.T) {
	for _, foreign := range []string{"1.json", "00000001.json.bak", "000000001.json", "00000000.json", "-0000001.json", "x", "00000002/1.json"} {
		m := newMemory()
		m.keys["epochs/"+foreign] = nil
		_, _, err := Log[Epoch]{Store: m, Prefix: "epochs"}.Latest(t.Context())
		require.ErrorContains(t, err, "epochs/"+foreign+" refused")
	}
	m := newMemory()
	m.keys["epochs-of-another/00000007.json"] = nil
	n, _, err := Log[Epoch]{Store: m, Prefix: "epochs"}.Latest(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestLogErrorsNameTheKeyOnce(t *testing.T) {
	m := newMemory()
	l := Log[Epoch]{Store: m, Prefix: "epochs"}
	_, err := l.Append(t.Context(), 0, epoch("a"))
	require.NoError(t, err)
	m.fail = func(_, key string) (error, bool) { return errors.New("down"), false }
	_, err = l.Append(t.Context(), 1, epoch("a"))
	require.ErrorContains(t, err, l.key(1))
	_, err = l.Append(t.Context(), 0, epoch("a"))
	require.EqualError(t, err, "epochs/00000001.json: down")
	_, _, err = l.Latest(t.Context())
	require.EqualError(t, err, "epochs: down")
	m.fail = func(_, key string) (error, bool) { return fmt.Errorf("%s: down", key), false }
	_, err = l.Append(t.Context(), 0, epoch("a"))
	require.EqualError(t, err, "epochs/00000001.json: down")
}

// Against the simplest model there is, a slice: writers with stale views, and a
// store that loses requests and replies.
func TestLogAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory()
		l := Log[Epoch]{Store: m, Prefix: "epochs"}
		ctx := context.Background()
		down := errors.New("down")
		var model []Epoch
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			after := rapid.IntRange(0, len(model)+1).Draw(t, "after")
			value := Epoch{Holder: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "holder"), Nonce: fmt.Sprint(step)}
			fate := rapid.SampledFrom([]string{"fine", "fine", "request lost", "reply lost"}).Draw(t, "fate")
			m.fail = func(call, _ string) (error, bool) {
				if call != "create" || fate == "fine" {
					return nil, false
				}
				return down, fate == "reply lost"
			}
			n, err := l.Append(ctx, after, value)
			switch {
			case after > len(model):
				require.ErrorContains(t, err, "is missing")
			case fate != "fine":
				require.ErrorIs(t, err, down)
				require.NotErrorIs(t, err, ErrExists)
				if fate == "reply lost" && after == len(model) {
					model = append(model, value)
				}
			case after < len(model):
				require.ErrorIs(t, err, ErrExists)
			default:
				require.NoError(t, err)
				require.Equal(t, after+1, n)
				model = append(model, value)
			}
			m.fail = func(string, string) (error, bool) { return nil, false }
			all, err := l.All(ctx)
			require.NoError(t, err)
			require.Equal(t, append([]Epoch{}, model...), all)
			n, latest, err := l.Latest(ctx)
			require.NoError(t, err)
			require.Equal(t, len(model), n)
			if n > 0 {
				require.Equal(t, model[n-1], latest)
			}
		}
	})
}

// Appenders that read and append at once, in a directory: every number has one
// author, and every author's records are in the log where it was told.
func TestLogConcurrentAppenders(t *testing.T) {
	b, _ := openNew(t)
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		l := Log[Epoch]{Store: b, Prefix: fmt.Sprintf("epochs-%d", round)}
		writers := rapid.IntRange(2, 6).Draw(t, "writers")
		tries := rapid.IntRange(1, 3).Draw(t, "tries")
		var mu sync.Mutex
		won := map[int]Epoch{}
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for try := range tries {
					after, _, err := l.Latest(context.Background())
					mine := Epoch{Holder: fmt.Sprintf("w%d", w), Nonce: fmt.Sprint(try)}
					n := 0
					if err == nil {
						n, err = l.Append(context.Background(), after, mine)
					}
					mu.Lock()
					if err == nil {
						if _, taken := won[n]; taken {
							t.Errorf("number %d was given twice", n)
						}
						won[n] = mine
					} else if !errors.Is(err, ErrExists) {
						t.Error(err)
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		records, err := l.All(context.Background())
		require.NoError(t, err)
		require.Len(t, records, len(won))
		require.NotEmpty(t, records)
		for n, mine := range won {
			require.Equal(t, mine, records[n-1])
		}
	})
}
