// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// Serving is a server certificate with an authority of its own, whose key was thrown away: nobody
// can sign another certificate that its clients would trust. All three are PEM.
type Serving struct {
	// Authority is the certificate that clients trust.
	Authority []byte
	// Certificate and Key are what the server shows.
	Certificate, Key []byte
}

// NewServing makes one for a host name, valid for ServerLife from now.
func NewServing(host string, now time.Time) (Serving, error) {
	fail := func(err error) (Serving, error) {
		return Serving{}, fmt.Errorf("cannot make a server certificate for %q: %w", host, err)
	}
	signing, root, err := selfSigned(host+" authority", ServerLife, now)
	if err != nil {
		return fail(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	leaf := &x509.Certificate{
		DNSNames:              []string{host},
		NotBefore:             signing.NotBefore,
		NotAfter:              signing.NotAfter,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := sign(leaf, signing, key.Public(), root)
	if err != nil {
		return fail(err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return fail(err)
	}
	return Serving{Authority: encodeCertificate(signing.Raw), Certificate: encodeCertificate(certificate), Key: keyPEM},
		nil
}

// Check says why it cannot serve a host at the given time; nil when it can.
func (s Serving) Check(host string, now time.Time) error {
	if _, err := s.Pair(); err != nil {
		return err
	}
	certificates, err := parseCertificates(s.Certificate)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.Authority)
	_, err = certificates[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return fmt.Errorf("cannot serve %q: %w", host, err)
	}
	return nil
}

// Pair is what a server shows.
func (s Serving) Pair() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(s.Certificate, s.Key)
	if err != nil {
		return nil, fmt.Errorf("cannot use a server certificate: %w", err)
	}
	return &pair, nil
}

// MadeAt returns when it was made.
func (s Serving) MadeAt() (time.Time, error) {
	certificates, err := parseCertificates(s.Certificate)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot tell how old a server certificate is: %w", err)
	}
	return certificates[0].NotBefore.Add(backdate), nil
}
