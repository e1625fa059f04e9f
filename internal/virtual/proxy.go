// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/ringproof/ringproof/internal/lockstep"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/internal/virtual/kubelet"
)

// proxy is where the subject stands between its image and the API server; nil: nowhere.
func (c *cluster) proxy() *kubelet.Proxy {
	if c.proxying == nil {
		return nil
	}
	image, _ := c.shipped.Image()
	return &kubelet.Proxy{Image: image, At: netip.AddrPortFrom(c.Gateway(), serverPort)}
}

// startProxy has the subject answer there.
func (c *cluster) startProxy() error {
	at := c.proxy()
	if at == nil {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.keys.file("server.crt"), c.keys.file("server.key"))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", at.At.String())
	if err != nil {
		return err
	}
	quiet := log.New(io.Discard, "", 0) // an answer that was lost on purpose is nothing to tell
	s := &http.Server{Handler: c.proxying.Proxy(c.reverse(quiet), podsOf{c}), TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, ErrorLog: quiet, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.ServeTLS(l, "", "") }() // it ends with the world
	return nil
}

// reverse passes requests to the API server, and what they are asked with: whoever asks is
// known by a token. One that it can't pass ends without an answer, as at the server itself;
// so do those under way when the server falls silent, by client-go's patience with it.
func (c *cluster) reverse(quiet *log.Logger) http.Handler {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.keys.ca.pem)
	to := &url.URL{Scheme: "https", Host: c.keys.server.String()}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}},
		FlushInterval: -1,
		ErrorLog:      quiet,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

// podsOf are the pods of a cluster, by their addresses.
type podsOf struct{ *cluster }

var _ trial.Pods = podsOf{}

// at finds the pod at an address, and its node.
func (p podsOf) at(at netip.Addr) (*node, kubelet.Running, error) {
	p.lab.mu.Lock()
	nodes := maps.Clone(p.hosts)
	p.lab.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(nodes)) {
		n := &node{host: nodes[number], cluster: p.cluster}
		s, err := kubelet.Read(n.dir())
		if err != nil || !n.On() {
			continue
		}
		for _, pod := range s.Pods {
			if lockstep.Address(pod.Machine) == at {
				return n, pod, nil
			}
		}
	}
	return nil, kubelet.Running{}, fmt.Errorf("no pod is at %v", at)
}

// Kill kills what runs in the pod at the address.
func (p podsOf) Kill(at netip.Addr) error {
	_, pod, err := p.at(at)
	if err == nil {
		_, err = p.SignalPod(pod.Namespace, pod.Name, syscall.SIGKILL)
	}
	return err
}

// Tell has the line heard on the pod's node.
func (p podsOf) Tell(at netip.Addr, line string) {
	if n, _, err := p.at(at); err == nil && p.tell != nil {
		p.tell(n.name, line)
	}
}
