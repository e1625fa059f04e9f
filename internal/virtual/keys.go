// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// keyring is a cluster's authority, and the directory in which its keys are.
type keyring struct {
	dir    string
	server netip.AddrPort
	ca     authority
}

type authority struct {
	leaf *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// lifetime is that of a cluster's certificates: no plan outlives it.
const lifetime = 50 * 365 * 24 * time.Hour

// makeKeys makes what a control plane needs. In virtual time chance is the world's, so
// they are the same in every run of a plan.
func makeKeys(dir string, server netip.AddrPort) (k keyring, err error) {
	k = keyring{dir: dir, server: server}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return k, err
	}
	if k.ca, err = k.authority(); err != nil {
		return k, err
	}
	serving := &x509.Certificate{Subject: pkix.Name{CommonName: "server"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}}
	for h := range byte(perNode) {
		serving.IPAddresses = append(serving.IPAddresses, net.IPv4(10, 0, 0, h))
	}
	serving.IPAddresses = append(serving.IPAddresses, net.IPv4(127, 0, 0, 1))
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return k, err
	}
	public, err := x509.MarshalPKIXPublicKey(&accounts.PublicKey)
	if err != nil {
		return k, err
	}
	return k, errors.Join(k.issue("server", serving), k.writeKey("accounts.key", accounts), k.write("accounts.pub", "PUBLIC KEY", public),
		k.client("admin", "kubernetes-admin", "system:masters"), k.client("manager", "system:kube-controller-manager", ""), k.client("scheduler", "system:kube-scheduler", ""))
}

func (k keyring) file(name string) string   { return filepath.Join(k.dir, name) }
func (k keyring) config(name string) string { return k.file(name + ".kubeconfig") }

func (k keyring) write(name, kind string, der []byte) error {
	return os.WriteFile(k.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func (k keyring) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	return errors.Join(err, k.write(name, "EC PRIVATE KEY", der))
}

func (k keyring) authority() (a authority, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return a, err
	}
	a = authority{key: key, leaf: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, NotBefore: time.Now().Add(-lifetime), NotAfter: time.Now().Add(lifetime)}}
	der, err := x509.CreateCertificate(rand.Reader, a.leaf, a.leaf, key.Public(), key)
	if err != nil {
		return a, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, os.WriteFile(k.file("ca.crt"), a.pem, 0o644)
}

// issue signs a certificate for a new key and writes both.
func (k keyring) issue(name string, of *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	of.SerialNumber, of.KeyUsage, of.NotBefore, of.NotAfter = serial, x509.KeyUsageDigitalSignature, k.ca.leaf.NotBefore, k.ca.leaf.NotAfter
	der, err := x509.CreateCertificate(rand.Reader, of, k.ca.leaf, key.Public(), k.ca.key)
	if err != nil {
		return fmt.Errorf("the certificate of %s: %w", name, err)
	}
	return errors.Join(k.write(name+".crt", "CERTIFICATE", der), k.writeKey(name+".key", key))
}

// client makes the certificate of a user of the API server, and the kubeconfig with it.
func (k keyring) client(name, user, group string) error {
	of := &x509.Certificate{Subject: pkix.Name{CommonName: user}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if group != "" {
		of.Subject.Organization = []string{group}
	}
	if err := k.issue(name, of); err != nil {
		return err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["world"] = &clientcmdapi.Cluster{Server: "https://" + k.server.String(), CertificateAuthority: k.file("ca.crt")}
	c.AuthInfos["world"] = &clientcmdapi.AuthInfo{ClientCertificate: k.file(name + ".crt"), ClientKey: k.file(name + ".key")}
	c.Contexts["world"] = &clientcmdapi.Context{Cluster: "world", AuthInfo: "world"}
	c.CurrentContext = "world"
	return clientcmd.WriteToFile(*c, k.config(name))
}
