// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// TestInClear: that no flag says so is no proof that nobody listens in plain text.
func TestInClear(t *testing.T) {
	for want, urls := range map[ringproof.Answer][][]string{
		ringproof.Yes: {{"http://10.0.0.1:2380"}, {"https://10.0.0.1:2380", " http://10.0.0.1:2381"}},
		ringproof.No:  {{"https://10.0.0.1:2380"}},
		"":            {nil, {""}},
	} {
		for _, u := range urls {
			assert.Equal(t, want, inClear(u), "%q", u)
		}
	}
}

// TestServes tells what a port does with who speaks plain text, and with who shows no certificate.
func TestServes(t *testing.T) {
	answers := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	plain, open := httptest.NewServer(answers), httptest.NewTLSServer(answers)
	shut := httptest.NewUnstartedServer(answers)
	shut.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	shut.StartTLS()
	for _, s := range []*httptest.Server{plain, open, shut} {
		t.Cleanup(s.Close)
	}
	var dial net.Dialer
	for _, test := range []struct {
		name, port, usual string
		admits, plain     bool
		unknown           string
	}{
		{"who wants a certificate", address(shut), address(shut), false, false, ""},
		{"who takes anybody", address(open), address(open), true, false, ""},
		{"who speaks plain text", address(plain), address(plain), false, true, ""},
		{"who speaks plain text on another port", address(shut), address(plain), false, true, ""},
		{"who hangs up on plain text, and on TLS", says(t, ""), "", false, false, "EOF"},
		{"who answers plain text with an alert", says(t, "\x15\x03\x01\x00\x02\x02\x16"), "", false, false, ""},
		{"who speaks plain gRPC alone", says(t, "\x00\x00\x06\x04\x00\x00\x00\x00\x00\r\n\r\n"), "", false, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			usual := test.usual
			if usual == "" {
				usual = test.port
			}
			admits, plain, unknown := serves(t.Context(), func(ctx context.Context, network, at string) (net.Conn, error) {
				return dial.DialContext(ctx, network, at)
			}, test.port, usual, nil)
			assert.Equal(t, test.admits, admits)
			assert.Equal(t, test.plain, plain)
			if test.unknown == "" {
				assert.Empty(t, unknown)
			}
			assert.Contains(t, unknown, test.unknown)
		})
	}
}

func address(s *httptest.Server) string { return s.Listener.Addr().String() }

// says is where somebody answers whatever comes with the same, and hangs up.
func says(t *testing.T, what string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadByte()
			_, _ = c.Write([]byte(what))
			c.Close()
		}
	}()
	return l.Addr().String()
}
