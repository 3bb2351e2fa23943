// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package pki makes the cluster's own certificate authorities and issues the
// certificates of its programs. Nothing in a cluster trusts without them.
package pki

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
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
)

// Lifetimes of what is issued. A pair that ends within the renewal period is
// issued anew by the next "up".
const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	renewal         = 30 * 24 * time.Hour
)

// Pair is a certificate with its key, both PEM.
type Pair struct {
	Cert, Key []byte
}

// Authority signs certificates.
type Authority struct {
	// PEM is the authority's certificate.
	PEM  []byte
	cert *x509.Certificate
	key  crypto.Signer
}

// Request says what a certificate is for.
type Request struct {
	// CommonName is the user name of a client.
	CommonName string
	// Groups are the groups of a client.
	Groups []string
	// Names and IPs are those of a server; a certificate with any is a
	// server's.
	Names []string
	IPs   []net.IP
	// Client is set for a certificate that a client shows.
	Client ClientUse
}

// ClientUse says whether a certificate may be shown by a client.
type ClientUse int

// Uses of a certificate by clients.
const (
	NotByClients ClientUse = iota
	ByClients
)

// OpenAuthority reads the authority kept as dir/name.crt and .key, or makes it.
func OpenAuthority(dir, name string) (*Authority, error) {
	certPath, keyPath := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if a, err := readAuthority(certPath, keyPath); err == nil {
		return a, nil
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "devcluster " + name}, authorityLife)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("cannot make authority %q: %w", name, err)
	}
	if err := cluster.WriteFile(keyPath, keyPEM, 0o600); err != nil {
		return nil, err
	}
	if err := cluster.WriteFile(certPath, certPEM(der), 0o644); err != nil {
		return nil, err
	}
	return readAuthority(certPath, keyPath)
}

func readAuthority(certPath, keyPath string) (*Authority, error) {
	certData, err := os.ReadFile(certPath)
	if err != nil {
		return nil, err
	}
	keyData, err := os.ReadFile(keyPath)
	if err != nil {
		return nil, err
	}
	cert, err := parseCert(certData)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyData)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("certificate and key do not belong together")
	}
	if time.Until(cert.NotAfter) < renewal {
		return nil, errors.New("certificate ends soon")
	}
	return &Authority{PEM: certData, cert: cert, key: key}, nil
}

// Issue returns the pair kept as dir/name.crt and .key when it still is good
// for the request, and issues it otherwise.
func (a *Authority) Issue(dir, name string, r Request) (Pair, error) {
	certPath, keyPath := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if p, err := readPair(certPath, keyPath); err == nil && a.fits(p, r) {
		return p, nil
	}
	p, err := a.sign(r)
	if err != nil {
		return Pair{}, fmt.Errorf("cannot issue certificate %q: %w", name, err)
	}
	if err := cluster.WriteFile(keyPath, p.Key, 0o600); err != nil {
		return Pair{}, err
	}
	return p, cluster.WriteFile(certPath, p.Cert, 0o644)
}

func readPair(certPath, keyPath string) (Pair, error) {
	cert, err := os.ReadFile(certPath)
	if err != nil {
		return Pair{}, err
	}
	key, err := os.ReadFile(keyPath)
	return Pair{Cert: cert, Key: key}, err
}

func (a *Authority) sign(r Request) (Pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template, err := newTemplate(pkix.Name{CommonName: r.CommonName, Organization: r.Groups}, certificateLife)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = r.usages()
	template.DNSNames, template.IPAddresses = r.Names, r.IPs
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: certPEM(der), Key: keyPEM}, nil
}

func (r Request) usages() []x509.ExtKeyUsage {
	var usages []x509.ExtKeyUsage
	if len(r.Names)+len(r.IPs) > 0 {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	if r.Client == ByClients {
		usages = append(usages, x509.ExtKeyUsageClientAuth)
	}
	return usages
}

// fits tells whether a pair is signed by the authority, says what the request
// asks for and lasts long enough.
func (a *Authority) fits(p Pair, r Request) bool {
	cert, err := parseCert(p.Cert)
	if err != nil {
		return false
	}
	key, err := parseKey(p.Key)
	if err != nil || !key.PublicKey.Equal(cert.PublicKey) || cert.CheckSignatureFrom(a.cert) != nil {
		return false
	}
	sameIPs := slices.EqualFunc(cert.IPAddresses, r.IPs, func(x, y net.IP) bool { return x.Equal(y) })
	return sameIPs && slices.Equal(cert.DNSNames, r.Names) &&
		cert.Subject.CommonName == r.CommonName && slices.Equal(cert.Subject.Organization, r.Groups) &&
		slices.Equal(cert.ExtKeyUsage, r.usages()) && time.Until(cert.NotAfter) > renewal
}

// SigningKey returns the key kept at path, PEM, or makes it. Its public half
// is kept beside it with the ending .pub.
func SigningKey(path string) error {
	data, err := os.ReadFile(path)
	var key *ecdsa.PrivateKey
	if err == nil {
		key, err = parseKey(data)
	}
	if err != nil {
		if key, data, err = newKey(); err != nil {
			return err
		}
		if err := cluster.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("cannot write public key of %q: %w", path, err)
	}
	return cluster.WriteFile(path+".pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644)
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot write a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func newTemplate(subject pkix.Name, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("cannot make a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject,
		// An hour back, for clocks that are put right later.
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life),
	}, nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func parseCert(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

func parseKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "EC PRIVATE KEY" {
		return nil, errors.New("no EC key in PEM")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}
