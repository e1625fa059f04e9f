// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

// Command actor is what the containers of scripts run: it does what its arguments say, one
// after another, and ends well. What it has seen it says as the termination message, as that
// is what a cluster tells of a container that is gone.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	for words := os.Args[1:]; len(words) > 0; {
		does, ok := deeds[words[0]]
		if !ok || len(words) <= does.words {
			fail(fmt.Errorf("it can't do %q", words))
		}
		if err := does.do(words[1 : 1+does.words]); err != nil {
			fail(err)
		}
		words = words[1+does.words:]
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// deed is something that it can do, with so many words after its name.
type deed struct {
	words int
	do    func([]string) error
}

const message = "/dev/termination-log"

var deeds = map[string]deed{
	"print": {1, func(w []string) error { _, err := fmt.Println(w[0]); return err }},
	"say":   {1, func(w []string) error { return write(message, w[0]+"\n") }},
	"tell": {1, func(w []string) error { // what a file has
		text, err := os.ReadFile(w[0])
		if err != nil {
			return err
		}
		return write(message, string(text))
	}},
	"variable": {1, func(w []string) error { return write(message, w[0]+"="+os.Getenv(w[0])+"\n") }},
	"repeat": {2, func(w []string) error { // so many times, as the message
		n, err := strconv.Atoi(w[1])
		if err != nil {
			return err
		}
		return write(message, strings.Repeat(w[0], n))
	}},
	"write":  {2, func(w []string) error { return write(w[0], w[1]) }},
	"remove": {1, func(w []string) error { return os.Remove(w[0]) }},
	"need":   {1, func(w []string) error { _, err := os.Stat(w[0]); return err }},
	"await":  {2, awaitText},
	"sleep": {1, func(w []string) error {
		d, err := time.ParseDuration(w[0])
		time.Sleep(d)
		return err
	}},
	"exit": {1, func(w []string) error {
		code, err := strconv.Atoi(w[0])
		if err == nil {
			os.Exit(code)
		}
		return err
	}},
	"deaf":    {0, func([]string) error { signal.Ignore(syscall.SIGTERM); return nil }},
	"asked":   {0, asked},
	"serve":   {0, serve},
	"encrypt": {0, encrypt},
	"resolve": {1, resolve},
	"point":   {1, point},
	"ports":   {3, ports},
	"fetch":   {1, fetch},
}

// write adds to a file.
func write(name, text string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(text)
	return err
}

// awaitText waits until a file has this text.
func awaitText(w []string) error {
	for {
		text, _ := os.ReadFile(w[0])
		if string(text) == w[1] {
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// asked waits until somebody asks it to end.
func asked([]string) error {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGTERM)
	<-heard
	return nil
}

// serve answers at port 8080 from now on.
func serve([]string) error {
	l, err := net.Listen("tcp", ":8080")
	if err != nil {
		return err
	}
	go func() { fail(http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))) }()
	return nil
}

// encrypt answers at port 8443 from now on, with a certificate that nobody has vouched for.
func encrypt([]string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	own, err := x509.CreateCertificate(rand.Reader, is, is, key.Public(), key)
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", ":8443", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{own}, PrivateKey: key}}})
	if err != nil {
		return err
	}
	go func() { fail(http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))) }()
	return nil
}

// point says by which Services the address of a name has names.
func point(w []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, w[0])
	if err != nil {
		return err
	}
	var services []string
	for _, a := range addresses {
		names, err := net.DefaultResolver.LookupAddr(ctx, a)
		if dns := (*net.DNSError)(nil); err != nil && !(errors.As(err, &dns) && dns.IsNotFound) {
			return err
		}
		for _, name := range names {
			services = append(services, strings.Split(name, ".")[1])
		}
	}
	slices.Sort(services)
	return write(message, fmt.Sprintf("%s: %v\n", w[0], services))
}

// resolve says how many addresses a name has.
func resolve(w []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	all, err := net.DefaultResolver.LookupHost(ctx, w[0])
	if err != nil {
		return write(message, w[0]+": "+err.Error()+"\n")
	}
	slices.Sort(all)
	return write(message, fmt.Sprintf("%s: %d\n", w[0], len(slices.Compact(all))))
}

// ports says where the ports of a name are to be had, without what differs from run to run.
func ports(w []string) error {
	_, all, err := net.DefaultResolver.LookupSRV(context.Background(), w[0], w[1], w[2])
	if err != nil {
		return write(message, w[2]+": none\n")
	}
	for _, s := range all {
		host, _, _ := strings.Cut(s.Target, ".")
		if err := write(message, fmt.Sprintf("%s: %s %d\n", w[2], host, s.Port)); err != nil {
			return err
		}
	}
	return nil
}

// fetch says whether somebody answers at an address.
func fetch(w []string) error {
	answer, err := (&http.Client{Timeout: 3 * time.Second}).Get("http://" + w[0] + "/")
	if err != nil {
		return write(message, w[0]+": nobody\n")
	}
	answer.Body.Close()
	return write(message, w[0]+": "+answer.Status+"\n")
}
