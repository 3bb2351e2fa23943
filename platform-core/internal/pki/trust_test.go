// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"slices"
	"testing"
	"time"
)

// namedAuthority is one of an instance.
type namedAuthority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newNamedAuthority(t *testing.T, name string) namedAuthority {
	t.Helper()
	certificate, key, err := selfSigned(name, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return namedAuthority{certificate, key}
}

func (a namedAuthority) pem() []byte { return encodeCertificate(a.certificate.Raw) }

// issues a certificate.
func (a namedAuthority) issues(t *testing.T) Issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "leaf"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := sign(template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return Issued{Certificate: encodeCertificate(der), CA: a.pem()}
}

// trusted are the names of the authorities in a bundle.
func trusted(t *testing.T, bundle []byte) []string {
	t.Helper()
	if len(bundle) == 0 {
		return nil
	}
	certificates, err := parseCertificates(bundle)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, certificate := range certificates {
		names = append(names, certificate.Subject.CommonName)
	}
	return names
}

// TestTrustedWhileCertificatesFollow: a former authority is trusted until no certificate in use is from it.
func TestTrustedWhileCertificatesFollow(t *testing.T) {
	first, second := newNamedAuthority(t, "first"), newNamedAuthority(t, "second")
	before, after := first.issues(t), second.issues(t)
	both := append(first.pem(), second.pem()...)
	// One that was issued by the first, in a Secret that names another one.
	misnamed := Issued{Certificate: before.Certificate, CA: second.pem()}
	for name, test := range map[string]struct {
		trust Trust
		want  []string
	}{
		"nothing is known":  {Trust{}, nil},
		"nothing is issued": {Trust{Authority: first.pem()}, []string{"first"}},
		"at rest": {Trust{Authority: first.pem(), Issued: []Issued{before, before}, Former: first.pem()},
			[]string{"first"}},
		"the authority is another one": {Trust{Authority: second.pem(), Issued: []Issued{before, before},
			Former: first.pem()}, []string{"second", "first"}},
		"the bundle was lost": {Trust{Authority: second.pem(), Issued: []Issued{before, after}},
			[]string{"second", "first"}},
		"one of three follows": {Trust{Authority: second.pem(), Issued: []Issued{after, before, before}, Former: both},
			[]string{"second", "first"}},
		"all follow, one serves the former": {
			Trust{Authority: second.pem(), Issued: []Issued{after, after}, Former: both, Behind: true},
			[]string{"second", "first"}},
		"all follow": {Trust{Authority: second.pem(), Issued: []Issued{after, after}, Former: both},
			[]string{"second"}},
		"the signature counts": {Trust{Authority: second.pem(), Issued: []Issued{misnamed}, Former: both},
			[]string{"second", "first"}},
		"an issuer of users": {Trust{Issued: []Issued{before, after}, Former: first.pem()},
			[]string{"first", "second"}},
		"an issuer of users, all served": {Trust{Issued: []Issued{after, after}, Former: both}, []string{"second"}},
		"all Secrets are deleted": {Trust{Authority: second.pem(), Former: both, Behind: true},
			[]string{"second", "first"}},
	} {
		bundle := test.trust.Bundle()
		if got := trusted(t, bundle); !slices.Equal(got, test.want) {
			t.Errorf("%s: trusted are %v, want %v", name, got, test.want)
		}
		test.trust.Former = bundle
		if again := test.trust.Bundle(); string(again) != string(bundle) {
			t.Errorf("%s: the bundle changes by itself", name)
		}
	}
}
