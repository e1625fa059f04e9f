// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/ringproof/ringproof/reference/ring"
)

func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// plain is a value of package ring as programs read it: its keys are written as all others
// that ringadm prints, a time has its unit, and an ID is in hex, as it is everywhere else.
// As a number jq would round it: most are above 2^53.
func plain(value any) any { return plainly(reflect.ValueOf(value)) }

func plainly(v reflect.Value) any {
	switch known := v.Interface().(type) {
	case ring.ID:
		if known == 0 {
			return ""
		}
		return known.String()
	case time.Duration:
		return known.String()
	}
	switch v.Kind() {
	case reflect.Struct:
		o := object{}
		for field, value := range v.Fields() {
			o = append(o, entry{keyOf(field.Name), plainly(value)})
		}
		return o
	case reflect.Slice:
		all := make([]any, v.Len())
		for i := range all {
			all[i] = plainly(v.Index(i))
		}
		return all
	}
	return v.Interface()
}

// keyOf is a field's name with its first word in small letters: id, peerURL, toldV2.
func keyOf(field string) string {
	if strings.ToUpper(field) == field {
		return strings.ToLower(field)
	}
	return string(unicode.ToLower(rune(field[0]))) + field[1:]
}

// object is printed with its keys in their order.
type object []entry

type entry struct {
	key   string
	value any
}

// MarshalJSON prints the entries one after the other.
func (o object) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	for i, e := range o {
		key, err := json.Marshal(e.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(e.value)
		if err != nil {
			return nil, err
		}
		text.WriteString([]string{"{", ","}[min(i, 1)])
		text.Write(key)
		text.WriteByte(':')
		text.Write(value)
	}
	text.WriteByte('}')
	return text.Bytes(), nil
}
