// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Lives of certificates. A certificate is renewed after 2/3 of its life.
const (
	// AuthorityLife is how long the authority's own certificate is valid.
	AuthorityLife = 10 * 365 * 24 * time.Hour
	// ServerLife is how long the server certificate of a pod's agent is valid.
	ServerLife = 90 * 24 * time.Hour
	// ClientLife is how long the operator's certificate in memory is valid.
	ClientLife = 24 * time.Hour
	// backdate lets a machine whose clock is behind use a fresh certificate.
	backdate = 5 * time.Minute
)

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "EC PRIVATE KEY"
)

// Authority issues certificates for one domain. It is safe for concurrent use, also while Follow replaces what it
// holds.
type Authority struct {
	domain string
	now    func() time.Time

	mu     sync.Mutex
	held   held
	client *tls.Certificate
}

// held is what the Secret of an authority has; it never changes.
type held struct {
	data map[string][]byte
	// signing is the certificate that signs; bundle and pool hold all that are trusted.
	signing *x509.Certificate
	key     crypto.Signer
	bundle  []byte
	pool    *x509.CertPool
	// digestKey is the key of Digest.
	digestKey []byte
}

// Option changes how an Authority works.
type Option func(*Authority)

// WithClock has the Authority read the time from now in place of the machine's clock.
func WithClock(now func() time.Time) Option {
	return func(a *Authority) { a.now = now }
}

// Generate makes the key and the self-signed certificate of a new authority, as the data of its Secret.
func Generate(domain string, now time.Time) (map[string][]byte, error) {
	certificate, key, err := selfSigned(domain+" agents", AuthorityLife, now)
	if err != nil {
		return nil, fmt.Errorf("cannot make the agent authority of domain %q: %w", domain, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		corev1.TLSCertKey:       encodeCertificate(certificate.Raw),
		corev1.TLSPrivateKeyKey: keyPEM,
		DigestKeyKey:            newDigestKey(),
	}, nil
}

// Parse reads an authority from the data of its Secret: tls.crt, whose first certificate
// signs and all of which are trusted, and tls.key. It fails when the key is not that of the
// first certificate or when that one has expired.
func Parse(domain string, data map[string][]byte, options ...Option) (*Authority, error) {
	a := &Authority{domain: domain, now: time.Now}
	for _, option := range options {
		option(a)
	}
	var err error
	a.held, err = parse(data, a.now())
	if err != nil {
		return nil, err
	}
	return a, nil
}

func parse(data map[string][]byte, now time.Time) (held, error) {
	h := held{data: maps.Clone(data), pool: x509.NewCertPool()}
	certificates, err := parseCertificates(data[corev1.TLSCertKey])
	if err != nil {
		return held{}, fmt.Errorf("cannot read %s: %w", corev1.TLSCertKey, err)
	}
	for _, certificate := range certificates {
		if !certificate.IsCA {
			return held{}, fmt.Errorf("cannot use certificate %q of %s: it is not an authority's", certificate.Subject,
				corev1.TLSCertKey)
		}
		h.pool.AddCert(certificate)
		h.bundle = append(h.bundle, encodeCertificate(certificate.Raw)...)
	}
	h.signing = certificates[0]
	if now.After(h.signing.NotAfter) {
		return held{}, fmt.Errorf("cannot use the certificate in %s: it expired on %s", corev1.TLSCertKey,
			h.signing.NotAfter.Format(time.RFC3339))
	}
	if h.key, err = parseKey(data, h.signing); err != nil {
		return held{}, err
	}
	h.digestKey, err = parseDigestKey(data)
	return h, err
}

// parseKey reads tls.key, which has to be that of the certificate.
func parseKey(data map[string][]byte, signing *x509.Certificate) (crypto.Signer, error) {
	block, _ := pem.Decode(data[corev1.TLSPrivateKeyKey])
	if block == nil {
		return nil, fmt.Errorf("cannot read %s: there is no PEM block in it", corev1.TLSPrivateKeyKey)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", corev1.TLSPrivateKeyKey, err)
	}
	if !key.PublicKey.Equal(signing.PublicKey) {
		return nil, fmt.Errorf("cannot use %s: it is not the key of the first certificate in %s", corev1.TLSPrivateKeyKey,
			corev1.TLSCertKey)
	}
	return key, nil
}

// Follow takes up what the Secret has now, and says whether that is something else than before. With data that Parse
// would refuse everything stays as it is.
func (a *Authority) Follow(data map[string][]byte) (changed bool, err error) {
	next, err := parse(data, a.now())
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !next.signing.Equal(a.held.signing) {
		a.client = nil
	}
	changed = !bytes.Equal(next.bundle, a.held.bundle)
	a.held = next
	return changed, nil
}

func (a *Authority) holds() held {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// Bundle returns the certificates that both sides trust, as PEM.
func (a *Authority) Bundle() []byte { return slices.Clone(a.holds().bundle) }

// Data returns what its Secret has.
func (a *Authority) Data() map[string][]byte { return maps.Clone(a.holds().data) }

// selfSigned makes the key of an authority and its own certificate, valid for a life from now.
func selfSigned(name string, life time.Duration, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name, Organization: []string{"zeroinfra.github.com"}},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(life),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}

// sign makes one certificate with a random serial number.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, public, key)
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return certificates, nil
}
