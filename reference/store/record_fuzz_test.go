// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecodeRefuses(t *testing.T) {
	for record, want := range map[string]string{
		``:                                    "not a JSON object",
		`null`:                                "not a JSON object",
		`[]`:                                  "not a JSON object",
		`"x"`:                                 "not a JSON object",
		`{}`:                                  `name "" refused`,
		`{"holder":"a","nonce":"b"`:           "damaged, cut off",
		`{"holder":"a","nonce":"b"} {}`:       "followed by something",
		`{"holder":"a","nonce":"b"}x`:         "followed by something",
		`{"holder":"a","nonce":"b","term":1}`: `unknown field "term"; was it written by a newer release?`,
		`{"holder":"a","nonce":"b","holder":"c"}`: `"holder" is there twice`,
		`{"holder":"a","nonce":"b","HOLDER":"c"}`: `"HOLDER" is there twice`,
		`{"holder":"a","nonce":1}`:                "cannot unmarshal number",
		`{"holder":"A","nonce":"b"}`:              `holder name "A" refused`,
	} {
		_, err := decode[Epoch]("epochs/00000001.json", []byte(record))
		require.ErrorContains(t, err, want, record)
		require.ErrorContains(t, err, "epochs/00000001.json refused")
	}
	_, err := decode[Identity]("k", []byte(`{"token":"a","epoch":1,"members":[{"name":"a","name":"b"}]}`))
	require.ErrorContains(t, err, `"name" is there twice`)
	_, err = decode[Identity]("k", []byte(`{"token":"a","epoch":1,"members":[{"disk":"a","di`+"\u017f"+`k":"b"}]}`))
	require.ErrorContains(t, err, "is there twice", "the long s is an s to encoding/json")

	good := []byte(` {"holder":"a", "nonce":"b"} ` + "\n")
	value, err := decode[Epoch]("k", good)
	require.NoError(t, err)
	require.Equal(t, Epoch{Holder: "a", Nonce: "b"}, value)
	padded := append(good, bytes.Repeat([]byte(" "), maxRecord-len(good))...)
	_, err = decode[Epoch]("k", padded)
	require.NoError(t, err)
	_, err = decode[Epoch]("k", append(padded, ' '))
	require.ErrorContains(t, err, "a record holds up to")
}

// FuzzRecord feeds bytes to the decoder of every record. What it takes is valid
// and survives a round trip; what it refuses, it refuses by the key's name and
// with nothing half decoded.
func FuzzRecord(f *testing.F) {
	for _, record := range []any{goodSpec(), goodIdentity(), epoch("a"), Formed{ClusterID: "1f", Epoch: 2},
		Machine{Name: "n1", Address: "n1", Disk: "d"}, authority(f).stored()} {
		encoded, err := encode("seed", record)
		require.NoError(f, err)
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		checkDecoder[Spec](t, record)
		checkDecoder[Machine](t, record)
		checkDecoder[Epoch](t, record)
		checkDecoder[Identity](t, record)
		checkDecoder[Formed](t, record)
		checkDecoder[Authority](t, record)
	})
}

func checkDecoder[T validated](t *testing.T, record []byte) {
	const key = "records/00000001.json"
	value, err := decode[T](key, record)
	if err != nil {
		var zero T
		if !strings.HasPrefix(err.Error(), key) || !reflect.DeepEqual(value, zero) {
			t.Fatalf("%T: %v", value, err)
		}
		return
	}
	if err := value.Validate(); err != nil {
		t.Fatalf("%T was taken and is invalid: %v", value, err)
	}
	again, err := encode(key, value)
	if err != nil {
		t.Fatalf("%T was taken and cannot be stored: %v", value, err)
	}
	back, err := decode[T](key, again)
	if err != nil {
		t.Fatalf("%T does not survive a round trip: %v", value, err)
	}
	// An empty list and none are the same record.
	if third, err := encode(key, back); err != nil || !bytes.Equal(again, third) {
		t.Fatalf("%T changed on a round trip", value)
	}
}
