// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package observe

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/ringproof/ringproof"
)

// privateKey is how one begins in PEM, and in base64 of that, as Secrets have it. Within JSON it is
// the same.
var privateKey = regexp.MustCompile(`-----BEGIN ([A-Z]+ )?PRIVATE KEY-----|LS0tLS1CRUdJTi(BQUklWQVRFIEtFWS|BFQyBQUklWQVRFIEtFWS|BSU0EgUFJJVkFURSBLRVkt)`)

// HasKey reports whether a private key is in the text.
func HasKey(text []byte) bool { return privateKey.Match(text) }

// mostSaid is how much of a line is told that has a key in it.
const mostSaid = 120

// Hear looks one line of a machine's output through.
func Hear(o *ringproof.Output, line string) {
	o.Lines++
	if at := privateKey.FindStringIndex(line); at != nil && o.Key == "" {
		said := strings.TrimSpace(line[:at[0]])
		o.Key = fmt.Sprintf("line %d: %s", o.Lines, said[:min(mostSaid, len(said))])
	}
}

// HearAll looks all of it through.
func HearAll(o *ringproof.Output, text []byte) {
	for line := range bytes.Lines(text) {
		Hear(o, string(line))
	}
}
