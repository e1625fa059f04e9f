// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMergePatch(t *testing.T) {
	patch := func(field, value string) (string, error) {
		text, err := Op{Kind: OpEdit, Params: map[string]string{"field": field, "value": value}}.MergePatch()
		return string(text), err
	}
	for value, want := range map[string]string{
		"2": `{"spec":{"a":2}}`, "true": `{"spec":{"a":true}}`, "null": `{"spec":{"a":null}}`, `{"b": [1]}`: `{"spec":{"a":{"b":[1]}}}`,
		"300Mi": `{"spec":{"a":"300Mi"}}`, `"2"`: `{"spec":{"a":"2"}}`, "": `{"spec":{"a":""}}`,
	} {
		got, err := patch("spec.a", value)
		require.NoError(t, err, value)
		assert.JSONEq(t, want, got, value)
	}
	kind, name := Op{Params: map[string]string{"object": "RingDefaults/default"}}.Object()
	assert.Equal(t, []string{"RingDefaults", "default"}, []string{kind, name})
	for _, field := range []string{"", ".", "spec.", "spec..a"} {
		_, err := patch(field, "1")
		assert.ErrorContains(t, err, "names no field; write it as spec.resources", field)
	}
}
