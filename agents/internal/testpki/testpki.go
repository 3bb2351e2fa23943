// SPDX-License-Identifier: Apache-2.0

// Package testpki makes certificate authorities and certificates for tests, and
// mounts them as the kubelet does. Only tests import it.
package testpki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Operator names an operator, who may call.
const Operator = "spiffe://zeroinfra.github.com/operator/database"

// Authority is a CA.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// New makes an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: serial(t), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// Leaf is what a certificate says.
type Leaf struct {
	// Usages are the extended key usages.
	Usages []x509.ExtKeyUsage
	// URIs are the alternative names; 127.0.0.1 is always one, too.
	URIs []string
	// Names are DNS names.
	Names []string
	// NotAfter is the end of its time; an hour from now when zero.
	NotAfter time.Time
}

// Issue makes a certificate and its key.
func (a *Authority) Issue(t testing.TB, l Leaf) (certPEM, keyPEM []byte) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: serial(t), NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		ExtKeyUsage: l.Usages, KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: l.Names}
	if !l.NotAfter.IsZero() {
		template.NotAfter = l.NotAfter
	}
	for _, text := range l.URIs {
		uri, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, uri)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// Client is a certificate for client authentication with the names.
func Client(uris ...string) Leaf {
	return Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: uris}
}

// Pod is the certificate of the agents of a pod.
func Pod(name, namespace string) Leaf {
	return Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		Names: []string{name + "." + namespace + ".agent.zeroinfra.github.com"}}
}

// PEM is the authority's own certificate.
func (a *Authority) PEM() []byte { return a.pem }

// ClientConfig trusts this authority and presents a certificate of the issuer; a nil issuer presents none.
func (a *Authority) ClientConfig(t testing.TB, issuer *Authority, l Leaf) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	config := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	if issuer != nil {
		pair, err := tls.X509KeyPair(issuer.Issue(t, l))
		if err != nil {
			t.Fatal(err)
		}
		// Whatever the server asks for: an attacker would present it as well.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config
}

// Mount puts a server certificate into the folder as the kubelet does: a new folder, then one symbolic link is swapped.
func (a *Authority) Mount(t testing.TB, dir string, trusted ...*Authority) {
	t.Helper()
	a.MountLeaf(t, dir, Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, trusted...)
}

// MountLeaf does so with another certificate.
func (a *Authority) MountLeaf(t testing.TB, dir string, l Leaf, trusted ...*Authority) {
	t.Helper()
	cert, key := a.Issue(t, l)
	version, err := os.MkdirTemp(dir, "..version")
	if err != nil {
		t.Fatal(err)
	}
	var ca []byte
	for _, one := range trusted {
		ca = append(ca, one.pem...)
	}
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": ca} {
		if err := os.WriteFile(filepath.Join(version, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		// On the first mount only: later ones find the links in place.
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	next := filepath.Join(dir, "..data_tmp")
	if err := os.Symlink(filepath.Base(version), next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
