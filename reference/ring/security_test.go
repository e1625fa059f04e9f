// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ring_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof/reference/ring"
)

func TestURL(t *testing.T) {
	assert.Equal(t, "https://10.0.0.1:2380", ring.TLS.URL("10.0.0.1", 2380))
	assert.Equal(t, "http://[2001:db8::1]:2379", ring.Plain.URL("2001:db8::1", 2379))
	assert.Equal(t, "https://m1.example.org:2379", ring.Security("").URL("m1.example.org", 2379), "what is not known is not sent in the clear")
}
